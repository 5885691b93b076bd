#!/usr/bin/env python3
"""Runs the commands that a page shows and compares what it says they print.

Usage: run_readme.py PAGE BIN MODEL

A block that opens with "```console run" is run: lines that begin with "$ " are commands, those that begin
with "> " go on with them, the lines up to the next one are what they print. "localhost:8001", the address that pages write, stands for a server of
this test's own on a free port. White space is compared as one space; a number with a decimal point may
differ by 0.002; "..." stands for any text within a line. A block without "run" is only shown.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

SHOWN_ADDRESS = "localhost:8001"
TOLERANCE = 0.002
DECIMAL = re.compile(r"-?\d+\.\d+")


def runnable_commands(text):
    """Yields (line number, command, expected lines)."""
    command = None
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if command:
                yield command
            command = None
            inside = not inside and line.split() == ["```console", "run"]
        elif inside and line.startswith("$ "):
            if command:
                yield command
            command = (number, line[2:], [])
        elif inside and command and line.startswith("> ") and not command[2]:
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


def run(command, expected, address, bin_folder):
    """Returns what is wrong, or nothing."""
    environment = dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}", BEAMWRIGHT_SERVER=address)
    done = subprocess.run(["bash", "-c", command.replace(SHOWN_ADDRESS, address)], text=True,
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=60, check=False)
    actual = stripped(done.stdout.replace(address, SHOWN_ADDRESS).splitlines())
    expected = stripped(expected)
    if len(actual) == len(expected) and all(map(same_line, expected, actual)):
        return None
    return f"prints (exit code {done.returncode})\n" + "\n".join(actual) + \
        "\nthe page says\n" + "\n".join(expected)


def start_server(bin_folder, model, scratch):
    """Returns the process and its address, once it serves."""
    port_file = scratch / "port"
    log = scratch / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [bin_folder / "beamwright-server", "--model-path", model, "--grpc-address", "127.0.0.1:0",
             "--http-address", "none", "--metrics-address", "none",
             "--admin-address", "none",
             "--port-file", port_file], stdout=output, stderr=subprocess.STDOUT)
    until = time.monotonic() + 60
    while not (port_file.exists() and port_file.read_text().strip()):
        if server.poll() is not None or time.monotonic() > until:
            server.kill()
            sys.exit("the server did not start:\n" + log.read_text())
        time.sleep(0.05)
    return server, "127.0.0.1:" + port_file.read_text().strip()


def main():
    readme, bin_folder, model = map(pathlib.Path, sys.argv[1:])
    commands = list(runnable_commands(readme.read_text(encoding="utf-8")))
    if not commands:
        sys.exit(f"{readme} has no block that opens with '```console run'")
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        server, address = start_server(bin_folder.resolve(), model, pathlib.Path(scratch))
        try:
            for number, command, expected in commands:
                fault = run(command, expected, address, bin_folder.resolve())
                if fault:
                    wrong += 1
                    print(f"{readme.name}:{number}: $ {command}\n{fault}\n")
        finally:
            server.terminate()
            server.wait(timeout=30)
    print(f"{len(commands)} commands run, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
