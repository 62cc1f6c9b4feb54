"""Validates manifests strictly against the schemas of Kubernetes 1.29 to 1.37. Prints for each file, as JSON, the first
version from which on all its objects are valid, and for each that is not valid in the last version, why.

    validate.py FILE …
"""

import functools
import json
import sys

import yaml
from kubernetes_validate import utils

VERSIONS = [f"1.{minor}" for minor in range(29, 38)]
# The same definitions for all objects of a version.
utils.schema_contents = functools.lru_cache(maxsize=None)(utils.schema_contents)


def problem(document, version):
    try:
        utils.validate(document, version, strict=True)
    except utils.ValidationError as error:
        return f"{document['kind']} at {list(error.path)}: {error.message}"
    except utils.SchemaNotFoundError as error:
        return error.message
    return None


def first_version(documents):
    first = None
    for version in reversed(VERSIONS):
        problems = [it for it in (problem(document, version) for document in documents) if it]
        if problems:
            return first or problems
        first = version
    return first


def main():
    found = {}
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            found[name] = first_version([one for one in yaml.safe_load_all(file) if one])
    json.dump(found, sys.stdout)


main()
