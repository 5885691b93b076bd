#!/usr/bin/env python3
"""Checks what deploy/ says of an image against the server, without making one (`./dev image` does).

Usage: check_image.py ROOT. The image exposes the ports that the server has by itself, and listens on them on all
addresses; compose.yaml publishes them to this machine alone, and waits
for longer than the server takes to stop; both ask the same of its health. Prints what is wrong and exits with 1 if
anything is.
"""

import json
import pathlib
import re
import sys


def seconds_of(pattern, text):
    return int(re.search(pattern, text).group(1))


def main():
    root = pathlib.Path(sys.argv[1]).resolve()

    def read(name):
        return (root / name).read_text(encoding="utf-8")

    faults = []
    dockerfile, compose, flags = (
        read(name) for name in ("deploy/Dockerfile", "deploy/compose.yaml", "server/serving/flags.h"))
    ports = set(re.findall(r'(?:grpc|http|metrics)_address = "127\.0\.0\.1:(\d+)"', flags))
    exposed = set(re.search(r"^EXPOSE (.*)$", dockerfile, re.MULTILINE).group(1).split())
    for name, found in (("deploy/Dockerfile", exposed),
                        ("deploy/Dockerfile's addresses",
                         set(re.findall(r"BEAMWRIGHT_\w+_ADDRESS=0\.0\.0\.0:(\d+)", dockerfile))),
                        ("deploy/compose.yaml", set(re.findall(r'- "127\.0\.0\.1:\d+:(\d+)"', compose)))):
        if found != ports:
            faults.append(f"{name}: has the ports {sorted(found)}, the server {sorted(ports)}")

    grace = seconds_of(r"stop_grace_period: (\d+)s", compose)
    drain = seconds_of(r"drain_timeout = absl::Seconds\((\d+)\)", flags)
    if grace <= drain:
        faults.append(f"deploy/compose.yaml: stop_grace_period {grace}s is not more than drain-timeout, {drain}s")

    asked = json.loads(re.search(r"^HEALTHCHECK .*CMD (\[.*\])$", dockerfile, re.MULTILINE).group(1))
    composed = json.loads(re.search(r"test: (\[.*\])", compose).group(1))
    if composed != ["CMD", *asked]:
        faults.append(f"deploy/compose.yaml: asks {composed[1:]} of the server's health, deploy/Dockerfile {asked}")
    print("\n".join(faults) or f"{len(ports)} ports, a grace period of {grace} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
