#!/usr/bin/env python3
"""Types the commands of docs/speech.md and runs its Python, with a server whose model hears tones, and compares what they
print. Blocks and comparison are those of tests/readme/run_readme.py; a line "..." stands for any number of lines. What the
page calls arecord is a file here.

Usage: speech_page.py BIN MODEL TOOLS
"""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from served import check, server
from sherpa_online import ROOT, SHERPA, make_bundle, tones, write_wave  # and the way to its folder

sys.path.insert(0, str(ROOT / "tests/readme"))
sys.path.insert(0, str(ROOT / "tests/docs"))
sys.path.insert(0, str(ROOT / "client/python/src"))
from archives import unpacked  # noqa: E402
from follow import same_lines  # noqa: E402
from run_readme import runnable_commands, stripped, translated  # noqa: E402

PAGE = ROOT / "docs/speech.md"
PYTHON = re.compile(r"^```python\n(.*?)^```\n+(?:```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
SAYS = [3, 17, 8, 12]


def compare(where, what, expected, printed):
    check(same_lines(stripped(expected), stripped(printed)),
          f"{where}: {what}\nprints\n" + "\n".join(printed) + "\nthe page says\n" + "\n".join(expected))


def main():
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        make_bundle(scratch / "models/tones/1")
        (scratch / "models/tones").rename(scratch / "models/speech")
        bundle = scratch / "models/speech/1/model.textproto"
        bundle.write_text(bundle.read_text().replace('name: "tones"', 'name: "speech"'))
        samples = tones(SAYS)
        write_wave(scratch / "talk.wav", samples)
        programs = scratch / "bin"
        programs.mkdir()
        (programs / "arecord").write_text(f"#!/bin/sh\nexec cat {scratch}/talk.wav\n")
        (programs / "arecord").chmod(0o755)
        (programs / SHERPA.name).symlink_to(SHERPA)
        (scratch / "features").symlink_to(unpacked("frames/exports"))
        with server("--model-repository", scratch / "models", "--websocket-address", "127.0.0.1:0") as (grpc, _, process):
            here = (grpc, f"--server-port={process.websocket}", process.metrics)
            page = ("localhost:8001", "--server-port=6006", "localhost:8002")
            environment = dict(os.environ, BEAMWRIGHT_SERVER=grpc,
                               PATH=f"{programs}:{pathlib.Path(sys.argv[1]).resolve()}:{os.environ['PATH']}")
            commands = list(runnable_commands(text))
            for number, command, expected in commands:
                done = subprocess.run(["bash", "-c", translated(command, page, here)], text=True, env=environment,
                                      cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
                compare(f"speech.md:{number}", f"$ {command}", expected, done.stdout.splitlines())
            programs = list(PYTHON.finditer(text))
            for found in programs:
                output = io.StringIO()
                with contextlib.chdir(scratch), contextlib.redirect_stdout(output):
                    exec(compile(translated(found[1], page, here), str(PAGE), "exec"), {"__name__": "__main__"})
                compare("speech.md", found[1], (found[2] or "").splitlines(), output.getvalue().splitlines())
    check(len(commands) > 4 and programs, "the page has lost its commands")
    print(f"{len(commands)} commands and {len(programs)} programs print what the page says")


if __name__ == "__main__":
    main()
