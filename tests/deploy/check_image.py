#!/usr/bin/env python3
"""Checks what an image is made from against the tree, without making one (`./dev image` does).

Usage: check_image.py ROOT. The Dockerfile installs the packages that `./dev build` does, but for those of tests; the
build gets what CMakeLists.txt and the Dockerfile name; image and compose.yaml have the ports that the server listens on
by itself; compose.yaml waits for longer than the server takes to stop. Prints what is wrong and exits with 1 if
anything is.
"""

import pathlib
import re
import subprocess
import sys

TESTS_ONLY = {"libgtest-dev", "libgmock-dev"}


def packages_of(stage):
    """What a stage of the Dockerfile installs."""
    listed = re.search(r"--no-install-recommends(.*?)&&", stage, re.DOTALL).group(1)
    return set(listed.replace("\\", " ").split())


def folders_of(lists):
    """What CMakeLists.txt always adds."""
    return set(re.findall(r"^add_subdirectory\((\w+)\)", lists, re.MULTILINE))


def seconds_of(pattern, text):
    return int(re.search(pattern, text).group(1))


def main():
    root = pathlib.Path(sys.argv[1]).resolve()

    def read(name):
        return (root / name).read_text(encoding="utf-8")

    faults = []
    dockerfile = read("deploy/Dockerfile")
    build, run = dockerfile.split("\nFROM ")[1:]
    wanted = set(subprocess.run([root / "dev", "--list-packages", "build"], check=True, text=True,
                                stdout=subprocess.PIPE).stdout.split()) - TESTS_ONLY
    for package in sorted(wanted ^ packages_of(build)):
        where = "./dev" if package in wanted else "deploy/Dockerfile"
        faults.append(f"package {package}: only {where} has it")

    allowed = {line[1:].split("/")[0] for line in read(".dockerignore").splitlines() if line.startswith("!")}
    copied = {path.split("/")[0] for path in re.findall(r"^COPY (?!--from)(\S+)", run, re.MULTILINE)}
    # The client's folder is added where it is, and the image has the client.
    needed = folders_of(read("CMakeLists.txt")) | copied | {"client", "cmake", "CMakeLists.txt"}
    for name in sorted(needed - allowed):
        faults.append(f"{name}: is needed and left out by .dockerignore")

    flags = read("server/serving/flags.h")
    ports = set(re.findall(r'"0\.0\.0\.0:(\d+)"', flags))
    compose = read("deploy/compose.yaml")
    for name, found in (("deploy/Dockerfile", set(re.search(r"^EXPOSE (.*)$", run, re.MULTILINE).group(1).split())),
                        ("deploy/compose.yaml", set(re.findall(r'- "\d+:(\d+)"', compose)))):
        if found != ports:
            faults.append(f"{name}: has the ports {sorted(found)}, the server {sorted(ports)}")

    grace = seconds_of(r"stop_grace_period: (\d+)s", compose)
    drain = seconds_of(r"drain_timeout = absl::Seconds\((\d+)\)", flags)
    if grace <= drain:
        faults.append(f"deploy/compose.yaml: stop_grace_period {grace}s is not more than drain-timeout, {drain}s")
    print("\n".join(faults) or f"{len(wanted)} packages, {len(needed)} files and folders, {len(ports)} ports")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
