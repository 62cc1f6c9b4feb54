"""Does what the API server does with admission policies: evaluates their CEL expressions, by Google's implementation
of CEL, and applies their JSON patches. Reads a request as JSON, and prints the object after the mutations and the
messages of the validations that deny it: for each line of the input, a line of the output.

What it does not have is the API server's type system for `Object` and `JSONPatch`: it takes them as maps, after it has
compared the name of each type with its place, as the API server does. The fields are checked by validating the result
against the schema of Pods. A MutatingPolicy of Kyverno has the same expressions, and needs no binding.

    admission.py POLICY.yaml … <REQUESTS.jsonl
"""

import functools
import json
import re
import sys

import yaml
from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

NAMES = ["object", "oldObject", "request", "variables"]
ENVIRONMENT = cel.NewEnv(
    variables={name: cel.Type.DYN for name in NAMES}, extensions=[ext_strings.ExtStrings()]
)
TOKEN = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|(?:Object|JSONPatch)[\w.]*(?=\{)|\w+:?|.""", re.DOTALL)


def as_maps(expression):
    """The expression with maps in place of typed objects."""
    result, braces, field, before = [], [], None, None
    for token in TOKEN.findall(expression):
        opens_object = re.fullmatch(r"(Object|JSONPatch)[\w.]*", token)
        inside = braces[-1][0] if braces else None
        if opens_object:
            parent = next((kind for kind, _ in reversed(braces) if kind), None)
            if parent and parent != "JSONPatch" and token != f"{parent}.{field}":
                sys.exit(f"{token} is at the place of {parent}.{field}")
            before = token
            continue
        if token == "{":
            is_object = before and re.fullmatch(r"(Object|JSONPatch)[\w.]*", before)
            braces.append((before if is_object else None, field))
        elif token == "}":
            field = braces.pop()[1]
        elif inside and before in ("{", ",") and re.fullmatch(r"\w+:", token):
            field = token[:-1]
            token = f'"{field}":'
        result.append(token)
        if not token.isspace():
            before = token
    return "".join(result)


@functools.cache
def compiled(expression):
    return ENVIRONMENT.compile(as_maps(expression))


class Policy:
    """A policy, for one request."""

    def __init__(self, spec, request):
        self.spec = spec
        self.data = request
        self.known = {}

    def value(self, expression):
        for name in re.findall(r"\bvariables\.(\w+)", expression):
            if name not in self.known:
                # Of several with this name, there is none.
                [own] = [it["expression"] for it in self.spec["variables"] if it["name"] == name]
                self.known[name] = self.value(own)
        value = compiled(expression).eval(data={**self.data, "variables": dict(self.known)})
        if value.type() == cel.Type.ERROR:
            sys.exit(f"{expression}: {value.value()}")
        return value.plain_value()

    def applies(self):
        constraints = self.spec["matchConstraints"]
        request = self.data["request"]
        resource, sub = request["resource"]["resource"], request.get("subResource")
        wanted = f"{resource}/{sub}" if sub else resource
        is_listed = any(
            request["operation"] in rule["operations"]
            and request["resource"]["group"] in rule["apiGroups"]
            and wanted in rule["resources"]
            for rule in constraints["resourceRules"]
        )
        labels = self.data["object"].get("metadata", {}).get("labels", {})
        wanted = constraints.get("objectSelector", {}).get("matchLabels", {})
        has_labels = all(labels.get(key) == value for key, value in wanted.items())
        conditions = self.spec.get("matchConditions", [])
        return is_listed and has_labels and all(self.value(it["expression"]) for it in conditions)


def patch(target, operation):
    """A JSON patch, as far as the policies need it."""
    *parents, last = operation["path"].split("/")[1:]
    for part in parents:
        target = target[int(part) if isinstance(target, list) else part]
    if isinstance(target, list):
        assert (operation["op"], last) == ("add", "-"), operation
        target.append(operation["value"])
    else:
        assert operation["op"] == "add" or last in target, operation
        target[last] = operation["value"]


def admit(policies, request):
    denied, mutated = [], False
    # First all that mutate.
    for document in sorted(policies, key=lambda one: one["kind"]):
        policy = Policy(document["spec"], request)
        if not policy.applies():
            continue
        for mutation in document["spec"].get("mutations", []):
            mutated = True
            for operation in policy.value(mutation["jsonPatch"]["expression"]):
                patch(request["object"], operation)
            # The next mutation sees the new object.
            policy.known = {}
        for validation in document["spec"].get("validations", []):
            if not policy.value(validation["expression"]):
                message = validation.get("message")
                denied.append(message or policy.value(validation["messageExpression"]))
    return {"object": request["object"], "mutated": mutated, "denied": denied}


def main():
    documents = [one for name in sys.argv[1:] for one in yaml.safe_load_all(open(name, encoding="utf-8"))]
    bound = {one["spec"]["policyName"] for one in documents if one["kind"].endswith("PolicyBinding")}
    policies = [
        one
        for one in documents
        if one["kind"] == "MutatingPolicy"
        or (one["kind"].endswith("AdmissionPolicy") and one["metadata"]["name"] in bound)
    ]
    for line in sys.stdin:
        print(json.dumps(admit(policies, json.loads(line))), flush=True)


main()
