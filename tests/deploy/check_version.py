#!/usr/bin/env python3
"""Checks that every file that names the version names that of CMakeLists.txt.

Usage: check_version.py ROOT. Prints what differs and exits with 1 if anything does.
"""

import pathlib
import re
import sys

PLACES = {
    "CHANGELOG.md": r"^## \[([0-9.]+)\]",
    "client/python/engine/requirements.txt": r"^beamwright==(.+)$",
    "client/python/engine/src/beamwright_engine/__init__.py": r'__version__ = "(.+)"',
    "client/python/src/beamwright/_version.py": r'__version__ = "(.+)"',
    "deploy/helm/beamwright/Chart.yaml": r'^(?:version|appVersion): "?([0-9.]+)"?$',
    "deploy/kserve/runtime.yaml": r"image: beamwright:(\S+)$",
    "docs/numerics.md": r";beamwright-([0-9.]+)",
}


def main():
    root = pathlib.Path(sys.argv[1])

    def found(name, pattern):
        return re.findall(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)

    version = found("CMakeLists.txt", r"^project\(beamwright VERSION ([0-9.]+)")[0]
    faults = []
    for name, pattern in PLACES.items():
        versions = found(name, pattern)
        # Of the changelog the newest section alone.
        wrong = {said for said in (versions[:1] if name == "CHANGELOG.md" else versions) if said != version}
        if wrong or not versions:
            faults.append(f"{name}: names {', '.join(sorted(wrong)) or 'no version'}, CMakeLists.txt {version}")
    print("\n".join(faults) or f"version {version} in {len(PLACES)} files")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
