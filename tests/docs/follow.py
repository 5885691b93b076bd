#!/usr/bin/env python3
"""Follows docs/bring-your-model.md word by word: types its commands, and compares what they print.

Usage: follow.py BIN [--full NAME=PYTHON]...     (run from the repository's root)

A block that opens with "```console follow NAME" belongs to the walk NAME; the blocks of a walk are one session in a folder of
its own. Lines and comparison are those of tests/readme/run_readme.py; besides, a line "..." stands for any number of lines,
and `beamwright-server` is left running, on free ports, until the next one or the end of the walk.

The scripts of examples/ need a framework that is too large for every run. So they are played back: a script that is called
with the words of the page gives the files that it gave when tests/docs/recorded was made. With --full NAME=PYTHON the walk runs
the script itself with that Python, and --record writes what it made into tests/docs/recorded.
"""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "bring-your-model.md"
RECORDED = pathlib.Path(__file__).resolve().parent / "recorded"
sys.path.insert(0, str(ROOT / "tests" / "readme"))
from run_readme import runnable_commands, same_line, stripped  # noqa: E402

PLAYED = """#!{python}
import pathlib, shutil, sys
recorded = pathlib.Path({folder!r})
if sys.argv[1:] != (recorded / "arguments").read_text().split():
    sys.exit("follow.py: was recorded with other arguments: " + (recorded / "arguments").read_text())
shutil.copytree(recorded / "files", sys.argv[1])
print((recorded / "printed").read_text(), end="")
"""
REAL = """#!/bin/sh
exec {python} -B {script} "$@"
"""
STARTS = 120  # seconds that the server may take
COMMAND_TAKES = 3600


def walks():
    """Name -> commands, in the order of the page."""
    names = dict.fromkeys(re.findall(r"^```console follow (\S+)$", PAGE.read_text(encoding="utf-8"), re.M))
    text = PAGE.read_text(encoding="utf-8")
    return {name: list(runnable_commands(text, ["```console", "follow", name])) for name in names}


def same_lines(expected, actual):
    """Like same_line for all of them, where "..." alone stands for any lines."""
    if not expected:
        return not actual
    if expected[0].strip() == "...":
        return any(same_lines(expected[1:], actual[i:]) for i in range(len(actual) + 1))
    return bool(actual) and same_line(expected[0], actual[0]) and same_lines(expected[1:], actual[1:])


class Walk:
    """A folder in which the commands of a walk are typed."""

    def __init__(self, name, bin_folder, python, scratch):
        self.name, self.bin, self.python, self.scratch = name, bin_folder, python, scratch
        self.server, self.ports = None, scratch / "ports"
        (scratch / "examples").mkdir()
        for script in sorted((ROOT / "examples").glob("*.py")):
            self.offer(script)
        self.made = None

    def offer(self, script):
        """Puts something at examples/ under the script's name that can be called."""
        folder = RECORDED / self.name
        text = (REAL.format(python=shlex.quote(self.python), script=shlex.quote(str(script))) if self.python
                else PLAYED.format(python=sys.executable, folder=str(folder)))
        target = self.scratch / "examples" / script.name
        target.write_text(text)
        target.chmod(0o755)

    def environment(self):
        address = f"127.0.0.1:{dict(map(str.split, self.ports.read_text().splitlines()))['grpc']}" if self.server else ""
        return dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}", BEAMWRIGHT_SERVER=address,
                    OMP_WAIT_POLICY="passive")

    def stop_server(self):
        if self.server:
            self.server.send_signal(signal.SIGINT)
            self.server.wait(120)
            self.server = None

    def start_server(self, command):
        """The page's command, on free ports. Returns what is wrong, or nothing."""
        self.stop_server()
        self.ports.unlink(missing_ok=True)
        words = [*shlex.split(command), "--grpc-address", "127.0.0.1:0", "--http-address", "none", "--metrics-address",
                 "none", "--admin-address", "none", "--ports-file", str(self.ports)]  # fmt: skip
        log = self.scratch / "server.log"
        with log.open("w") as output:
            self.server = subprocess.Popen(words, cwd=self.scratch, stdout=output, stderr=subprocess.STDOUT,
                                           env=self.environment() if self.ports.exists() else dict(
                                               os.environ, PATH=f"{self.bin}:{os.environ['PATH']}"))
        until = time.monotonic() + STARTS
        while not self.ports.exists():
            if self.server.poll() is not None or time.monotonic() > until:
                self.server.kill()
                self.server = None
                return "the server did not start:\n" + log.read_text()
            time.sleep(0.05)
        return None

    def type(self, command, expected):
        """Returns what is wrong, or nothing."""
        if command.startswith("beamwright-server "):
            return self.start_server(command)
        done = subprocess.run(["bash", "-c", command], text=True, cwd=self.scratch, env=self.environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_TAKES, check=False)
        if command.startswith("examples/"):
            self.made = (shlex.split(command)[1:], done.stdout)
        actual, expected = stripped(done.stdout.splitlines()), stripped(expected)
        if done.returncode == 0 and same_lines(expected, actual):
            return None
        return f"prints (exit code {done.returncode})\n" + "\n".join(actual) + "\nthe page says\n" + "\n".join(expected)

    def record(self):
        arguments, printed = self.made
        folder = RECORDED / self.name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.scratch / arguments[0], folder / "files")
        (folder / "arguments").write_text(" ".join(arguments) + "\n")
        (folder / "printed").write_text(printed)


def follow(name, commands, bin_folder, python, record):
    """Returns how many commands were wrong."""
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        walk = Walk(name, bin_folder, python, pathlib.Path(scratch))
        try:
            for number, command, expected in commands:
                fault = walk.type(command, expected)
                if fault:
                    wrong += 1
                    print(f"{PAGE.name}:{number}: {name}: $ {command}\n{fault}\n", flush=True)
            if record:
                walk.record()
        finally:
            walk.stop_server()
    print(f"{name}: {len(commands)} commands typed, {wrong} wrong", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path, metavar="BIN")
    parser.add_argument("--full", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    found = walks()
    pythons = dict(pair.split("=", 1) for pair in arguments.full)
    if len(found) < 3 or not set(pythons) <= set(found):
        sys.exit(f"follow.py: the page has the walks {', '.join(found) or 'none'}")
    wrong = sum(
        follow(name, commands, arguments.bin.resolve(), os.path.abspath(pythons[name]) if name in pythons else None,
               arguments.record and name in pythons)
        for name, commands in found.items()
        if not pythons or name in pythons
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
