#!/usr/bin/env python3
"""Custom resources of KServe, of Prometheus' operator and of KEDA against the schemas of those projects.

Usage: check_custom_resources.py HELM KSERVE. The manifests in the folder KSERVE, and what the chart renders with monitoring and
KEDA. Then each of some changes that an API server would refuse must be noticed.
"""

import copy
import pathlib
import sys

import yaml

import chart
import custom_resources

VALUES = {"monitoring": {"serviceMonitor": True, "alerts": True, "labels": {"release": "kube"}},
          "autoscaling": {"enabled": True, "kind": "keda", "prometheusAddress": "http://prometheus:9090"}}
# Kind -> path of a field, and a value that it may not have; None is a name that there is not.
WRONG = {
    "ServiceMonitor": [(("spec", "endpoints", 0, "interval"), 15), (("spec", "endpoints", 0, "scheme"), "gopher"),
                       (("spec", "endpoint"), None)],
    "PrometheusRule": [(("spec", "groups", 0, "rules", 0, "expr"), ["up"]), (("spec", "groups", 0, "rule"), None)],
    "ScaledObject": [(("spec", "minReplicaCount"), "three"), (("spec", "triggers", 0, "metadata", "threshold"), 5),
                     (("spec", "replicas"), None)],
    "ClusterServingRuntime": [(("spec", "supportedModelFormats", 0, "version"), 1), (("spec", "container"), None),
                              (("spec", "containers", 0, "readinessProbe", "httpget"), None)],
    "InferenceService": [(("spec", "predictor", "minReplicas"), "1"), (("spec", "predictor", "model", "storageURI"), None)],
}


def changed(document, path, value):
    document = copy.deepcopy(document)
    place = document
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value if value is not None else {}
    return document


def is_refused(document):
    try:
        custom_resources.validate(document)
    except ValueError:
        return True
    return False


def main():
    helm, kserve = map(pathlib.Path, sys.argv[1:3])
    if not helm.exists():
        print(f"{helm} is missing: ./dev test installs it")
        sys.exit(77)
    documents = [document for file in sorted(kserve.glob("*.yaml")) for document in yaml.safe_load_all(file.read_text("utf-8"))]
    documents += [document for document in chart.Chart(helm).manifests(VALUES) if custom_resources.is_known(document)]
    kinds = {document["kind"]: document for document in documents}
    assert set(kinds) == set(WRONG) == set(custom_resources.SCHEMAS), sorted(kinds)
    for document in documents:
        custom_resources.validate(document)
    for kind, changes in WRONG.items():
        for path, value in changes:
            assert is_refused(changed(kinds[kind], path, value)), f"{kind}: {path} = {value!r} is not noticed"
        assert is_refused(kinds[kind] | {"apiVersion": f"{custom_resources.SCHEMAS[kind]['group']}/v0"}), kind
    print(f"{len(documents)} custom resources follow their schemas; changes made on purpose are noticed")


if __name__ == "__main__":
    main()
