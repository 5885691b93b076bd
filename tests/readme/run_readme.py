#!/usr/bin/env python3
"""Runs the commands that a page shows and compares what it says they print.

Usage: run_readme.py PAGE BIN MODEL...

A block that opens with "```console run" is run: lines that begin with "$ " are commands, those that begin
with "> " go on with them, the lines up to the next one are what they print. "localhost:8001" and
"localhost:8000", the gRPC and HTTP addresses that pages write, stand for a server of this test's own on free
ports. Commands run in a scratch folder that has the server's model repository, `models`, and files as
toolkits export them, `exports`. White space is compared as one space; a number with a decimal point may
differ by 0.002; "..." stands for any text within a line. A block without "run" is only shown.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

SHOWN_ADDRESSES = ("localhost:8001", "localhost:8000")
TOLERANCE = 0.002
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from archives import unpacked  # noqa: E402

DECIMAL = re.compile(r"-?\d+\.\d+")


def runnable_commands(text, opening=("```console", "run")):
    """Yields (line number, command, expected lines) of the blocks that open with these words."""
    command = None
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if command:
                yield command
            command = None
            inside = not inside and line.split() == list(opening)
        elif inside and line.startswith("$ "):
            if command:
                yield command
            command = (number, line[2:], [])
        elif inside and command and (line + " ").startswith("> ") and not command[2]:
            command = (command[0], command[1] + "\n" + line[2:], [])
        elif inside and command:
            command[2].append(line)


def same_line(expected, actual):
    pattern = ""
    numbers = []
    for piece in re.split(r"(-?\d+\.\d+|\.\.\.|\s+)", expected.strip()):
        if piece == "...":
            pattern += ".*"
        elif DECIMAL.fullmatch(piece):
            numbers.append(float(piece))
            pattern += r"(-?\d+\.\d+)"
        else:
            pattern += r"\s+" if piece.isspace() else re.escape(piece)
    match = re.fullmatch(pattern, actual.strip())
    return bool(match) and all(
        abs(number - float(shown)) <= TOLERANCE for number, shown in zip(numbers, match.groups()))


def stripped(lines):
    """Without empty lines at the end."""
    return "\n".join(lines).rstrip().splitlines()


def translated(text, names, others):
    for name, other in zip(names, others):
        text = text.replace(name, other)
    return text


def run(command, expected, addresses, bin_folder, scratch):
    """Returns what is wrong, or nothing."""
    environment = dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}",
                       BEAMWRIGHT_SERVER=addresses[0])
    done = subprocess.run(["bash", "-c", translated(command, SHOWN_ADDRESSES, addresses)], text=True,
                          env=environment, cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=240, check=False)
    actual = stripped(translated(done.stdout, addresses, SHOWN_ADDRESSES).splitlines())
    expected = stripped(expected)
    if len(actual) == len(expected) and all(map(same_line, expected, actual)):
        return None
    return f"prints (exit code {done.returncode})\n" + "\n".join(actual) + \
        "\nthe page says\n" + "\n".join(expected)


def start_server(bin_folder, repository, scratch):
    """Returns the process and its gRPC and HTTP addresses, once it serves."""
    ports = scratch / "ports"
    log = scratch / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [bin_folder / "beamwright-server", "--model-repository", repository,
             "--model-control", "explicit", "--grpc-address", "127.0.0.1:0",
             "--http-address", "127.0.0.1:0", "--metrics-address", "none",
             "--admin-address", "none", "--ports-file", ports], stdout=output, stderr=subprocess.STDOUT)
    until = time.monotonic() + 120
    while not ports.exists():
        if server.poll() is not None or time.monotonic() > until:
            server.kill()
            sys.exit("the server did not start:\n" + log.read_text())
        time.sleep(0.05)
    port_of = dict(map(str.split, ports.read_text().splitlines()))
    return server, ["127.0.0.1:" + port_of[name] for name in ("grpc", "http")]


def main():
    readme, bin_folder, *models = map(pathlib.Path, sys.argv[1:])
    commands = list(runnable_commands(readme.read_text(encoding="utf-8")))
    if not commands:
        sys.exit(f"{readme} has no block that opens with '```console run'")
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for model in models:
            shutil.copytree(model, scratch / "models" / model.name)
        (scratch / "exports").symlink_to(unpacked("frames/exports"))
        server, addresses = start_server(bin_folder.resolve(), scratch / "models", scratch)
        try:
            for number, command, expected in commands:
                fault = run(command, expected, addresses, bin_folder.resolve(), scratch)
                if fault:
                    wrong += 1
                    print(f"{readme.name}:{number}: $ {command}\n{fault}\n")
        finally:
            server.terminate()
            server.wait(timeout=120)
    print(f"{len(commands)} commands run, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
