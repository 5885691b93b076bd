#!/usr/bin/env python3
"""Makes the files of a release from the builds that are there: `./dev release` and `./dev wheel` build, then call it.

Usage: release.py OUT [wheel|deb|all]. Everything is packed twice, from the beginning; a file that is not the same both times
fails. OUT gets the files and SHA256SUMS.
"""

import hashlib
import pathlib
import shutil
import sys
import tempfile

import common
import debian
import engine_wheel
import portable
import wheel


def make(kind, out):
    """All files into out."""
    with tempfile.TemporaryDirectory(prefix="beamwright-release-") as scratch:
        work = pathlib.Path(scratch)
        if kind != "deb":
            staged = portable.stage(work)
            wheel.make(staged, work, out)
            engine_wheel.make(work, out)
        if kind == "all":
            portable.make_tarball(staged, out)
            common.write_source_tar(out)
        if kind != "wheel":
            debian.make(work, out)


def sums(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in common.files_of(folder)}


def main():
    out, kind = pathlib.Path(sys.argv[1]), (sys.argv[2:] or ["all"])[0]
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    make(kind, out)
    with tempfile.TemporaryDirectory(prefix="beamwright-release-") as again:
        make(kind, pathlib.Path(again))
        first, second = sums(out), sums(pathlib.Path(again))
    different = [name for name in first if first[name] != second.get(name)]
    if different:
        sys.exit(f"release: not the same when made twice: {', '.join(different)}")
    (out / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(first.items())))
    for path in common.files_of(out):
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path.name}")


if __name__ == "__main__":
    main()
