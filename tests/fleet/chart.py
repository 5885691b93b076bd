"""Renders the chart, for the scripts of this folder."""

import json
import pathlib
import subprocess
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/beamwright"
KUBERNETES = "1.33.0"


class Chart:
    def __init__(self, helm):
        self.helm = helm

    def run(self, command, values):
        """Helm's answer; values are those of a file."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(values, file)
            file.flush()
            return subprocess.run([self.helm, *command, "--kube-version", KUBERNETES, "--values", file.name],
                                  capture_output=True, text=True)

    def text(self, values):
        done = self.run(["template", "fleet", CHART, "--namespace", "speech"], values)
        if done.returncode != 0:
            raise ValueError(done.stderr)
        return done.stdout

    def manifests(self, values):
        return [document for document in yaml.safe_load_all(self.text(values)) if document]


def of_kind(manifests, kind):
    return [document for document in manifests if document["kind"] == kind]


def pod_of(manifests, track="stable"):
    return next(document["spec"]["template"]["spec"] for document in of_kind(manifests, "Deployment")
                if document["metadata"]["labels"]["beamwright.dev/track"] == track)
