#!/usr/bin/env python3
"""Keeps schemas of custom resources, which no package of a registry carries, in schemas/ of this folder.

Usage: keep_schemas.py FOLDER. FOLDER holds clones of the projects below, at the versions that are wanted. What is kept is the
schema of the served version, without its descriptions. Each is under the Apache Licence 2.0.
"""

import json
import pathlib
import subprocess
import sys

import yaml

KINDS = {
    "ServiceMonitor": ("prometheus-operator", "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"),
    "PrometheusRule": ("prometheus-operator", "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"),
    "ScaledObject": ("keda", "config/crd/bases/keda.sh_scaledobjects.yaml"),
    "ClusterServingRuntime": ("kserve", "config/crd/full/serving.kserve.io_clusterservingruntimes.yaml"),
    "InferenceService": ("kserve", "config/crd/full/serving.kserve.io_inferenceservices.yaml"),
}
# Of an InferenceService, whose schema has 690 KB: all but what a model of ours does not ask for.
LEFT_OUT = {"explainer", "transformer", "huggingface", "lightgbm", "onnx", "paddle", "pmml", "pytorch", "sklearn",
            "tensorflow", "triton", "xgboost", "workerSpec", "status", "affinity", "initContainers", "volumes"}
HERE = pathlib.Path(__file__).resolve().parent


def bare(schema):
    """Without descriptions: a property may have that name, though."""
    if isinstance(schema, list):
        return [bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: {field: bare(item) for field, item in value.items()} if name == "properties" else bare(value)
            for name, value in schema.items() if name != "description"}


def without(schema, names):
    """Without the properties of these names, at any depth."""
    if isinstance(schema, list):
        return [without(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: {field: without(item, names) for field, item in value.items() if field not in names}
            if name == "properties" else without(value, names) for name, value in schema.items()}


def main():
    folder = pathlib.Path(sys.argv[1])
    for kind, (project, path) in KINDS.items():
        git = ["git", "-C", folder / project]
        definition = yaml.safe_load(subprocess.run([*git, "show", f"HEAD:{path}"], check=True, capture_output=True).stdout)
        commit = subprocess.run([*git, "log", "-1", "--format=%H %cs"], check=True, capture_output=True, text=True).stdout
        versions = {version["name"]: bare(version["schema"]["openAPIV3Schema"])
                    for version in definition["spec"]["versions"] if version["served"]}
        if kind == "InferenceService":
            versions = without(versions, LEFT_OUT)
        kept = {"project": project, "path": path, "commit": commit.strip(), "licence": "Apache-2.0",
                "group": definition["spec"]["group"], "versions": versions}
        (HERE / "schemas" / f"{kind}.json").write_text(json.dumps(kept, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
