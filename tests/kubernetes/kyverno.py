"""Validates policies of Kyverno strictly against Kyverno's own schema. Prints what is wrong, as a list in JSON.

The schema is that of a package of Python models, which are generated from Kyverno's CustomResourceDefinitions. They are
read, not run: they are for a later Python.

    kyverno.py FILE …
"""

import ast
import json
import pathlib
import sys

import jsonschema
import yaml

MODELS = pathlib.Path(sys.prefix) / "kyverno/v1.py"
SCALARS = {"str": "string", "bool": "boolean", "int": "integer", "float": "number"}


def schema_of(annotation):
    """The schema of a type, and the name of its field where that is another one."""
    match annotation:
        case ast.Name(id="ObjectMeta"):
            return {"type": "object"}, None
        case ast.Name(id=name):
            return ({"type": SCALARS[name]} if name in SCALARS else {"$ref": f"#/$defs/{name}"}), None
        case ast.BinOp(left=left, right=ast.Constant(value=None)):
            return schema_of(left)
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, ast.Call(keywords=keywords)])):
            [alias] = [it.value.value for it in keywords if it.arg == "alias"] or [None]
            return schema_of(inner)[0], alias
        case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
            return {"enum": [it.value for it in getattr(values, "elts", [values])]}, None
        case ast.Subscript(value=ast.Name(id="list"), slice=inner):
            return {"type": "array", "items": schema_of(inner)[0]}, None
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[_, inner])):
            return {"type": "object", "additionalProperties": schema_of(inner)[0]}, None
    raise ValueError(ast.unparse(annotation))


def schema_of_class(definition):
    fields = [it for it in definition.body if isinstance(it, ast.AnnAssign) and not it.target.id.startswith("_")]
    properties, required = {}, []
    for field in fields:
        schema, alias = schema_of(field.annotation)
        name = alias or field.target.id
        properties[name] = schema
        if field.value is None or name in ("apiVersion", "kind"):
            required.append(name)
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}


def main():
    tree = ast.parse(MODELS.read_text(encoding="utf-8"))
    classes = [it for it in tree.body if isinstance(it, ast.ClassDef) and it.name.startswith("MutatingPolicy")]
    # Its status is not written by hand.
    definitions = {it.name: schema_of_class(it) for it in classes if not it.name.startswith("MutatingPolicyStatus")}
    definitions["MutatingPolicyStatus"] = False
    validator = jsonschema.Draft202012Validator({"$ref": "#/$defs/MutatingPolicy", "$defs": definitions})
    documents = [one for name in sys.argv[1:] for one in yaml.safe_load_all(open(name, encoding="utf-8"))]
    policies = [one for one in documents if one["kind"] == "MutatingPolicy"]
    assert policies, "there is no policy"
    problems = [f"{list(it.absolute_path)}: {it.message}" for one in policies for it in validator.iter_errors(one)]
    json.dump(problems, sys.stdout)


main()
