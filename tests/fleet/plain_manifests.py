#!/usr/bin/env python3
"""The chart with its default values, for those who do without Helm.

Usage: plain_manifests.py HELM FILE [--write]. Compares FILE with what Helm renders; --write renews it. Exits with 1 if
they differ.
"""

import pathlib
import re
import subprocess
import sys

import chart

HEAD = """# The chart in deploy/helm/beamwright with its default values, as Helm renders it; do not edit:
# tests/fleet/plain_manifests.py HELM FILE --write
"""


def main():
    helm, path = map(pathlib.Path, sys.argv[1:3])
    if not helm.exists():
        print(f"{helm} is missing: ./dev test installs it")
        sys.exit(77)
    text = subprocess.run([helm, "template", "beamwright", chart.CHART, "--kube-version", chart.KUBERNETES], check=True,
                          capture_output=True, text=True).stdout
    text = re.sub(r"^ *(# Source:.*|helm.sh/chart:.*|app.kubernetes.io/managed-by:.*)\n", "", text, flags=re.MULTILINE)
    if "--write" in sys.argv:
        path.write_text(HEAD + text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != HEAD + text:
        sys.exit(f"{path} is not what the chart renders: run {pathlib.Path(__file__).name} with --write")


if __name__ == "__main__":
    main()
