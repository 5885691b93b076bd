"""Holds custom resources against the schemas of their projects, which schemas/ has (keep_schemas.py).

As an API server does with `fieldValidation=Strict`: a field that is unknown is an error. Rules in CEL are not evaluated.
"""

import json
import pathlib

import jsonschema

SCHEMAS = {path.stem: json.loads(path.read_text(encoding="utf-8"))
           for path in (pathlib.Path(__file__).resolve().parent / "schemas").glob("*.json")}


def strict(schema):
    """A schema of OpenAPI as Kubernetes reads it, in the words of JSON Schema."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: {field: strict(item) for field, item in value.items()} if name == "properties" else strict(value)
            for name, value in schema.items()}
    if schema.get("nullable") and "type" in schema:
        made["type"] = [schema["type"], "null"]
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def is_known(document):
    return document["kind"] in SCHEMAS


def validate(document):
    """Raises ValueError with all that is wrong."""
    kept = SCHEMAS[document["kind"]]
    group, _, version = document["apiVersion"].partition("/")
    if group != kept["group"] or version not in kept["versions"]:
        raise ValueError(f"{document['apiVersion']}: there are {kept['group']}/{sorted(kept['versions'])}")
    schema = strict(kept["versions"][version])
    schema["properties"]["metadata"] = {"type": "object"}
    faults = [f"{error.json_path}: {error.message}" for error in jsonschema.Draft202012Validator(schema).iter_errors(document)]
    if faults:
        raise ValueError("\n".join(faults))
