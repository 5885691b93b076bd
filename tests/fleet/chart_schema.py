#!/usr/bin/env python3
"""The part of the chart's schema that follows from the server: its settings.

Usage: chart_schema.py SERVER SCHEMA [--write]. Compares `settings` of values.schema.json with what the server's --help
lists, names, types, ranges and choices; --write renews it. Exits with 1 if they differ.
"""

import json
import pathlib
import re
import subprocess
import sys

# What the chart sets by itself, and what makes no sense in a pod.
OF_THE_CHART = {
    "help", "version", "json", "config", "check-config", "print-config", "model-repository", "model-path",
    "model-control", "repository-poll-interval", "port-base", "grpc-address", "http-address", "metrics-address",
    "admin-address", "ports-file", "tls-cert", "tls-key", "tls-client-ca", "auth-token-file", "auth-in-clear", "tenant-file", "max-state-bytes", "drain-delay", "drain-timeout",
    "startup-timeout",
}
FLAG = re.compile(r"^  (?:-\w,)?--([\w-]+)(?: (\S.*?))?(?:  +.*)?$")
TIME = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$"


def flags_of(server):
    """Name -> kind, as --help has them: 'TIME=15s', 'INT:INT in [0 - 1024]=0'."""
    text = subprocess.run([server, "--help"], check=True, capture_output=True, text=True).stdout
    return {name: kind or "" for name, kind in (m.groups() for m in map(FLAG.match, text.splitlines()) if m)}


def schema_of(kind):
    if whole := re.search(r"INT in \[(\d+) - (\d+)\]", kind):
        return {"type": "integer", "minimum": int(whole[1]), "maximum": int(whole[2])}
    if choices := re.search(r":\{([\w,-]+)\}", kind):
        return {"enum": choices[1].split(",")}
    if kind.startswith("TIME"):
        return {"type": "string", "pattern": TIME}
    if kind.startswith(("true|false", "BOOL")):
        return {"type": "boolean"}
    if kind.startswith("SHARE"):
        return {"type": "number", "minimum": 0}
    return {"type": "string"}


def settings_of(server):
    flags = flags_of(server)
    unknown = sorted(OF_THE_CHART - set(flags))
    if unknown:
        sys.exit(f"the chart sets, and the server does not have: {unknown}")
    return {name: schema_of(kind) for name, kind in sorted(flags.items()) if name not in OF_THE_CHART}


def main():
    server, path = sys.argv[1], pathlib.Path(sys.argv[2])
    schema = json.loads(path.read_text(encoding="utf-8"))
    wanted = settings_of(server)
    held = schema["$defs"]["settings"]["properties"]
    if "--write" in sys.argv:
        schema["$defs"]["settings"]["properties"] = wanted
        path.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
        return
    faults = [f"settings.{name}: the schema says {held.get(name)}, the server {wanted.get(name)}"
              for name in sorted(set(held) | set(wanted)) if held.get(name) != wanted.get(name)]
    print("\n".join(faults) or f"{len(wanted)} settings are those of the server")
    if faults:
        sys.exit(f"{path}: run {pathlib.Path(__file__).name} with --write")


if __name__ == "__main__":
    main()
