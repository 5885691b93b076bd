#!/usr/bin/env python3
"""Hands files that mean no good to `beamwright-graph check`, each in a separate folder, and asks of it: that
it ends within seconds, memory in proportion, the expected error, and nothing of what lies outside
the folder in its answer (docs/graph-files.md, 'Hostile files').

Usage: run_hostile.py BEAMWRIGHT_GRAPH [NAME...]
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import ir_files
import onnx_files

MEMORY = 200 << 20
# Seconds of computing: a guard against hanging, far above the two of the documentation.
PATIENCE = 20
MEASURE = pathlib.Path(__file__).with_name("measure.py")
SECRET = "the content of a file outside"


def write(folder, files):
    """Returns the number of bytes; "name -> target" is a symbolic link."""
    size = 0
    for name, content in files.items():
        if " -> " in name:
            link, target = name.split(" -> ")
            os.symlink(target, folder / link)
            continue
        content = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(content)
        size += len(content)
    return size


def faults(program, folder, expected, size):
    path = next(folder.glob("model.[xo]*"))
    # A separate process starts the program: what this one holds would count as the program's.
    measured = subprocess.run([sys.executable, "-S", "-E", MEASURE, str(PATIENCE), program, "check", path],
                              stdout=subprocess.PIPE, check=True).stdout
    line, text = measured.decode(errors="replace").split("\n", 1)
    status, peak, seconds = (float(word) for word in line.split())
    print(f"    {seconds:.2f} s, {peak / 2**20:.0f} MiB for a file of {size / 2**20:.1f} MiB", flush=True)
    if status < 0:
        yield f"was ended by signal {-status:.0f} after {seconds:.1f} s of computing"
    elif status > 1 or "be loaded" not in text:
        yield f"exit code {status:.0f}: {text[:300]}"
    elif expected and (status == 0 or expected not in text):
        yield f"does not say '{expected}' but: {text[:300]}"
    if peak > MEMORY + size:
        yield f"took {peak / 2**20:.0f} MiB for a file of {size / 2**20:.1f} MiB"
    if len(text) > 20_000:
        yield f"answers with {len(text)} bytes"
    if SECRET in text:
        yield "read a file outside its folder"


def main():
    program, only = sys.argv[1], sys.argv[2:]
    failed = 0
    for kind in (ir_files, onnx_files):
        for name, expected, files in kind.files():
            if only and name not in only:
                continue
            with tempfile.TemporaryDirectory() as top:
                folder = pathlib.Path(top) / "model"
                folder.mkdir()
                (pathlib.Path(top) / "secret").write_text(SECRET)
                print(f"{kind.__name__[:-6]}: {name}", flush=True)
                size = write(folder, files())
                for fault in faults(program, folder, expected, size):
                    print(f"FAILED {name}: {fault}", flush=True)
                    failed += 1
    sys.exit(f"{failed} faults" if failed else 0)


if __name__ == "__main__":
    main()
