#!/usr/bin/env python3
"""Checks KServe's manifests against KServe's own classes, and runs what they start.

Usage: check_kserve.py BIN MODELS FOLDER. Every field is one of the class that KServe's client has for it (containers:
Kubernetes' client), and of its type. Knative's rules: one port, and probes that ask it. Each InferenceService finds a
runtime that speaks its protocol. The runtimes' command lines are run, in namespaces where their ports are free: asked by their own
probes and protocols, and ended by SIGTERM within Kubernetes' usual 30 s.
"""

import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import kserve.models
import kubernetes.client.models
import yaml

import sandbox

PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object}


def check_type(value, wanted, where):
    if wanted in PLAIN:
        assert isinstance(value, PLAIN[wanted]), f"{where}: {value!r} is not a {wanted}"
    elif inner := re.fullmatch(r"[lL]ist\[(.*)\]", wanted):
        for number, item in enumerate(value):
            check_type(item, inner[1], f"{where}[{number}]")
    elif inner := re.fullmatch(r"[dD]ict[[(]str, (.*)[])]", wanted):
        for name, item in value.items():
            check_type(item, inner[1], f"{where}.{name}")
    else:
        check_fields(value, wanted, where)


def check_fields(value, name, where):
    kind = getattr(kserve.models, name, None) or getattr(kubernetes.client.models, name)
    fields = {written: kind.openapi_types[field] for field, written in kind.attribute_map.items()}
    for field, item in value.items():
        assert field in fields, f"{where}: {name} has no field {field}; there are {sorted(fields)}"
        check_type(item, fields[field], f"{where}.{field}")


def check_knative(container):
    [port] = container["ports"]
    assert port["name"] in ("http1", "h2c"), port
    for probe in ("readinessProbe", "livenessProbe"):
        for asked in (container.get(probe, {}).get(how) for how in ("httpGet", "grpc")):
            assert not asked or asked["port"] == port["containerPort"], container[probe]


def answers(programs, container):
    """Whether it is ready, by its probe, and serves the model by the protocol of its port."""
    probe = container["readinessProbe"]
    if "grpc" in probe:
        address = f"localhost:{probe['grpc']['port']}"
        return subprocess.run([programs / "beamwright", "health", "inference.GRPCInferenceService", "--server", address],
                              capture_output=True).returncode == 0
    base = f"http://127.0.0.1:{probe['httpGet']['port']}"
    try:
        for path in (probe["httpGet"]["path"], container["livenessProbe"]["httpGet"]["path"], "/v2/models/g2p-en/ready"):
            urllib.request.urlopen(base + path, timeout=5).close()
    except OSError:
        return False
    return True


def check_command(programs, models, container):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "g2p-en").symlink_to(models / "g2p-en")
        arguments = [argument.replace("/mnt/models", folder) for argument in container["args"]]
        [program] = container["command"]
        server = subprocess.Popen([programs / program, *arguments])
        try:
            until = time.monotonic() + 60
            while not answers(programs, container):
                assert server.poll() is None and time.monotonic() < until, f"{arguments}: does not serve"
                time.sleep(0.05)
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0, f"{arguments}: exit code {server.returncode}"
        finally:
            server.kill()


def main():
    sandbox.enter()
    programs, models, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    documents = [document for file in sorted(folder.glob("*.yaml"))
                 for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    for document in documents:
        version = document["apiVersion"].rsplit("/", 1)[1].capitalize()
        check_fields(document, version + document["kind"], document["metadata"]["name"])
    runtimes = {d["metadata"]["name"]: d["spec"] for d in documents if d["kind"] == "ClusterServingRuntime"}
    for runtime in runtimes.values():
        [container] = runtime["containers"]
        assert container["name"] == "kserve-container"
        check_knative(container)
        check_command(programs, models, container)
    for model in (d["spec"]["predictor"]["model"] for d in documents if d["kind"] == "InferenceService"):
        runtime = runtimes[model["runtime"]]
        assert model["protocolVersion"] in runtime["protocolVersions"], model
        assert model["modelFormat"]["name"] in {form["name"] for form in runtime["supportedModelFormats"]}, model
    print(f"{len(documents)} manifests have the fields that KServe has")


if __name__ == "__main__":
    main()
