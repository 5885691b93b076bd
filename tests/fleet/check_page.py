#!/usr/bin/env python3
"""Runs a page of the documentation.

Usage: check_page.py BIN TOOLS PAGE. In separate namespaces, where the default ports are free: the blocks marked `sh run`,
one after the other; `yaml values` are rendered with the chart. Any other block must say what it needs.
"""

import os
import pathlib
import re
import subprocess
import sys

import yaml

import chart
import sandbox

MARKS = {"sh run", "yaml values", "sh cluster", "sh engine", "sh image"}


def main():
    programs, tools = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    if not (tools / "helm").exists():
        print(f"{tools / 'helm'} is missing: ./dev test installs it")
        sys.exit(77)
    sandbox.enter()
    page = pathlib.Path(sys.argv[3]).read_text(encoding="utf-8")
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    rendered = chart.Chart(tools / "helm")
    environment = os.environ | {"PATH": f"{programs}:{tools}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    for mark, text in blocks:
        if mark not in MARKS:
            sys.exit(f"a block is marked {mark!r}; there are {sorted(MARKS)}\n{text}")
        if mark == "sh run":
            done = subprocess.run(["bash", "-euo", "pipefail", "-m", "-c", text], cwd=chart.ROOT, env=environment,
                                  capture_output=True, text=True, timeout=240)
            if done.returncode != 0:
                sys.exit(f"ended with {done.returncode}:\n{text}\n{done.stdout}{done.stderr}")
        elif mark == "yaml values":
            rendered.text(yaml.safe_load(text))
    counts = {mark: sum(1 for found, _ in blocks if found == mark) for mark in sorted(MARKS)}
    print(f"blocks: {counts}")


if __name__ == "__main__":
    main()
