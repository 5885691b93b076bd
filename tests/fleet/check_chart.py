#!/usr/bin/env python3
"""Checks the chart without a cluster.

Usage: check_chart.py HELM PROMTOOL SERVER. Renders it with many values; Helm's linter, Kubernetes' own schemas (oldest and newest
version that is supported), those of custom resources and promtool judge what comes out, and the real server takes every command line. Values
that cannot work are refused with the message that says what to do.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

import chart
import custom_resources

VERSION = yaml.safe_load((chart.CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
TLS = {"tls": {"secretName": "server-tls"}}
CLAIM = {"models": {"source": "claim", "claim": {"name": "models", "subPath": "speech"}, "control": "poll"}}
GOOD = {
    "defaults": {},
    "claim": CLAIM,
    "image volume": {"models": {"source": "image", "image": {"reference": "registry.example/models:3"}}},
    "on demand": {"models": CLAIM["models"] | {"control": "on-demand"}, "settings": {"max-model-bytes": 680000000}},
    "init container": {"models": {"source": "initContainer", "initContainer": {
        "image": "copier:1", "command": ["cp", "-r", "/bundles/.", "/models"]}}},
    "all secrets": TLS | {"tls": {"secretName": "server-tls", "clientCaSecretName": "clients"},
                          "tokens": {"secretName": "tokens"}, "tenants": {"secretName": "tenants"}},
    "tokens behind a mesh": {"tokens": {"secretName": "tokens", "inClear": True}},
    "hpa": {"autoscaling": {"enabled": True}},
    "hpa by depth": {"autoscaling": {"enabled": True, "metric": "queueDepth", "target": "40"}},
    "keda": {"autoscaling": {"enabled": True, "kind": "keda", "prometheusAddress": "http://prometheus:9090"}},
    "canary program": {"canary": {"enabled": True, "tag": "0.3.0"}},
    "canary settings": {"canary": {"enabled": True, "settings": {"max-rows": 512}}},
    "canary numerics": {"canary": {"enabled": True, "settings": {"precision": "bf16"}, "allowOtherNumerics": True}},
    "policies": {"networkPolicy": {"enabled": True, "clients": [{"podSelector": {"matchLabels": {"app": "web"}}}],
                                   "monitoring": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
                                   "egress": [{"ports": [{"port": 4317, "protocol": "TCP"}]}]}},
    "policies by default": {"networkPolicy": {"enabled": True}},
    "monitoring": {"monitoring": {"serviceMonitor": True, "alerts": True, "labels": {"release": "kube"}}},
    "resources": {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}},
    "one replica": {"replicas": 1},
    "settings": {"settings": {"max-queue": 1024, "max-queue-bytes": 1099511627776, "token-tables": 0.5,
                              "forecast-deadlines": False, "slow-step": "1500ms", "log-level": "warning",
                              "otlp-endpoint": "collector:4317"}},
    "placement": {"nodeSelector": {"pool": "cpu"}, "tolerations": [{"key": "cpu", "operator": "Exists"}],
                  "topologySpread": {"zone": "DoNotSchedule"}, "priorityClassName": "serving",
                  "podLabels": {"team": "speech"}, "podAnnotations": {"note": "x"},
                  "imagePullSecrets": [{"name": "pull"}], "serviceAccount": {"create": False}},
    "load balancer": {"service": {"type": "LoadBalancer", "annotations": {"a": "b"}}},
}
# Values that cannot work, and what Helm must say.
BAD = {
    "wrong type": ({"replicas": "three"}, "/replicas.*got string, want integer"),
    "part of a core": ({"size": {"cores": 1.5}}, "/size/cores"),
    "unknown value": ({"replica": 3}, "'replica' not allowed"),
    "unknown setting": ({"settings": {"max-rowz": 3}}, "'max-rowz' not allowed"),
    "setting of the chart": ({"settings": {"drain-delay": "9s"}}, "'drain-delay' not allowed"),
    "setting out of range": ({"settings": {"max-rows": 0}}, "/settings/max-rows.*minimum"),
    "time without unit": ({"settings": {"slow-step": "7"}}, "/settings/slow-step.*pattern"),
    "unknown source": ({"models": {"source": "s3"}}, "/models/source.*'bundled', 'claim'"),
    "claim without name": ({"models": {"source": "claim"}}, "set models.claim.name to the PersistentVolumeClaim"),
    "image without reference": ({"models": {"source": "image"}}, "set models.image.reference"),
    "init container without image": ({"models": {"source": "initContainer"}}, "set models.initContainer.image"),
    "init container without command": ({"models": {"source": "initContainer", "initContainer": {"image": "a"}}},
                                       "set models.initContainer.command"),
    "poll what never changes": ({"models": {"control": "poll"}}, "never change in a pod"),
    "tokens in clear": ({"tokens": {"secretName": "tokens"}}, "tokens.secretName needs tls.secretName"),
    "no tokens": ({"tokens": {"inClear": True}}, "tokens.secretName is empty"),
    "client CA alone": ({"tls": {"clientCaSecretName": "clients"}}, "needs tls.secretName"),
    "replicas upside down": ({"autoscaling": {"enabled": True, "minReplicas": 9, "maxReplicas": 3}}, "is 9, more than"),
    "keda without Prometheus": ({"autoscaling": {"enabled": True, "kind": "keda"}}, "set autoscaling.prometheusAddress"),
    "canary that differs in nothing": ({"canary": {"enabled": True}}, "set canary.tag or canary.settings"),
    "canary of the same version": ({"canary": {"enabled": True, "tag": VERSION}}, "set canary.tag"),
    "canary with other bits": ({"canary": {"enabled": True, "settings": {"precision": "int8"}}},
                               "precision 'int8', the others 'model'"),
    "budget of all": ({"replicas": 2, "podDisruptionBudget": {"maxUnavailable": 2}}, "could take all of them"),
}
OLDEST, IMAGE_VOLUMES, NEWEST = "1.27", "1.33", "1.37"


def validate(manifests, oldest):
    for document in manifests:
        if custom_resources.is_known(document):
            custom_resources.validate(document)
            continue
        for version in (oldest, NEWEST):
            kubernetes_validate.validate(document, version, strict=True)


def check_selectors(manifests):
    """What selects pods selects those of the Deployments, all of them."""
    pods = [d["spec"]["template"]["metadata"]["labels"] for d in chart.of_kind(manifests, "Deployment")]
    selectors = [d["spec"]["selector"] for d in chart.of_kind(manifests, "Service")]
    selectors += [d["spec"]["selector"]["matchLabels"] for d in chart.of_kind(manifests, "PodDisruptionBudget")]
    selectors += [d["spec"]["podSelector"]["matchLabels"] for d in chart.of_kind(manifests, "NetworkPolicy")]
    for selector in selectors:
        assert all(selector.items() <= labels.items() for labels in pods), (selector, pods)
    for monitor in chart.of_kind(manifests, "ServiceMonitor"):
        selected = [d for d in chart.of_kind(manifests, "Service")
                    if monitor["spec"]["selector"]["matchLabels"].items() <= d["metadata"]["labels"].items()]
        assert len(selected) == 1, "one service, or each replica is measured twice"


def check_command(server, pod):
    """The server itself takes the command line; files and folders stand elsewhere."""
    container = pod["containers"][0]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "g2p-en").symlink_to(chart.ROOT / "models/g2p-en")
        arguments = [argument.replace("/models", folder, 1) if argument.startswith("--model-") else argument
                     for argument in container["args"]]
        files = pathlib.Path(folder) / "etc"
        for volume in container.get("volumeMounts", []):
            assert volume.get("readOnly"), volume
        if any("/etc/beamwright/" in argument for argument in arguments):
            make_secrets(files)
        arguments = [argument.replace("/etc/beamwright", str(files)) for argument in arguments]
        done = subprocess.run([server, *arguments, "--check-config"], capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments}\n{done.stderr}"


def make_secrets(folder):
    for name in ("tls", "client-ca", "tokens", "tenants"):
        (folder / name).mkdir(parents=True)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
                    "-keyout", folder / "tls/tls.key", "-out", folder / "tls/tls.crt"], check=True, capture_output=True)
    (folder / "client-ca/ca.crt").write_bytes((folder / "tls/tls.crt").read_bytes())
    (folder / "tokens/tokens.textproto").write_text(f'tokens {{ name: "a" sha256: "{64 * "a"}" roles: ROLE_DECODE }}\n')
    (folder / "tenants/tenants.textproto").write_text('tenants { name: "a" weight: 3 }\n')


def check_times(pod):
    """The kubelet waits for longer than the server takes, and kills no pod that still loads."""
    arguments = dict(argument[2:].split("=", 1) for argument in pod["containers"][0]["args"])
    delay, timeout, startup = (int(arguments[name][:-1]) for name in ("drain-delay", "drain-timeout", "startup-timeout"))
    assert pod["terminationGracePeriodSeconds"] > delay + timeout + 5, pod
    probe = pod["containers"][0]["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] > startup, probe


def check_rules(promtool, rules):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(rules["spec"], file)
        file.flush()
        subprocess.run([promtool, "check", "rules", file.name], check=True, capture_output=True)


def check_metric(manifests):
    """What is scaled by is a metric that the server has."""
    known = set(re.findall(r"`(beamwright_\w+)`", (chart.ROOT / "docs/operations.md").read_text(encoding="utf-8")))
    for scaler in chart.of_kind(manifests, "HorizontalPodAutoscaler"):
        assert scaler["spec"]["metrics"][0]["pods"]["metric"]["name"] in known, scaler
    for scaler in chart.of_kind(manifests, "ScaledObject"):
        assert set(re.findall(r"beamwright_\w+", scaler["spec"]["triggers"][0]["metadata"]["query"])) <= known, scaler
    for scaler in chart.of_kind(manifests, "HorizontalPodAutoscaler") + chart.of_kind(manifests, "ScaledObject"):
        assert "replicas" not in chart.of_kind(manifests, "Deployment")[0]["spec"], "two would say the number"


def check_good(rendered, promtool, server, name, values):
    linted = rendered.run(["lint", "--strict", chart.CHART], values)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    manifests = rendered.manifests(values)
    validate(manifests, IMAGE_VOLUMES if name == "image volume" else OLDEST)
    check_selectors(manifests)
    check_metric(manifests)
    for deployment in chart.of_kind(manifests, "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        check_command(server, pod)
        check_times(pod)
    for rules in chart.of_kind(manifests, "PrometheusRule"):
        check_rules(promtool, rules)


def main():
    helm, promtool, server = map(pathlib.Path, sys.argv[1:4])
    for tool in (helm, promtool):
        if not tool.exists():
            print(f"{tool} is missing: ./dev test installs it")
            sys.exit(77)
    rendered = chart.Chart(helm)
    faults = []
    for name, values in GOOD.items():
        try:
            check_good(rendered, promtool, server, name, values)
        except Exception as fault:  # pylint: disable=broad-except
            faults.append(f"{name}: {type(fault).__name__}: {fault}")
    for name, (values, message) in BAD.items():
        done = rendered.run(["template", "fleet", chart.CHART], values)
        if done.returncode == 0 or not re.search(message, done.stderr, re.DOTALL):
            faults.append(f"{name}: {message!r} is not what Helm said: {done.stderr[-600:] or 'nothing'}")
    print("\n".join(faults) or f"{len(GOOD)} sets of values rendered and judged, {len(BAD)} refused")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
