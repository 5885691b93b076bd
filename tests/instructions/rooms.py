#!/usr/bin/env python3
"""Counts the rooms that a request goes through, by breakpoints. A room is a .cc file with its header.

Usage: rooms.py [--list], after ./dev build, as root or owner of the processes; needs gdb. Every function of the programs in build/bin
stops once, on its first call: inlined functions are not seen, so the counts are lower bounds. Three ways: the first Decode of a
server, a bundle of IR files to its first steps, a chunk of sound in a stream that runs. Functions that an idle server calls are left
out. Prints for each way its rooms, by top folder, its functions, and its returns: how often, in the order of functions' first calls,
the way comes to a room that it had left.
"""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"
PRODUCT = ("ops", "engine", "server", "include", "examples")


def plain(name):
    """A demangled function without templates, parameters and unnamed namespaces, as a list: [beamwright, engine, Worker, Turn]."""
    name = name.replace("(anonymous namespace)::", "").split("::{lambda")[0]
    name = re.sub(r"operator(\(\)|<=>|[<>=!]=?)", "operator", name)
    kept, depth = [], 0
    for letter in name:
        depth += letter in "<("
        if depth == 0:
            kept.append(letter)
        depth -= letter in ">)"
    words = "".join(kept).split(" ")
    return next((word for word in words if word.startswith("beamwright::")), words[-1]).split("::")


class Sources:
    """Which file defines a function."""

    def __init__(self):
        self.places = collections.defaultdict(set)  # Class::Function or Function, and class Class -> (namespace, file)
        for path in subprocess.run(["git", "ls-files", *PRODUCT], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split():
            if path.endswith((".cc", ".h")):
                text = (ROOT / path).read_text()
                for namespace in set(re.findall(r"^namespace (beamwright[\w:]*)", text, re.MULTILINE)):
                    for name in re.findall(r"^[^\s#/}].*?\b((?:\w+::)*~?\w+)\(", text, re.MULTILINE):
                        self.places["::".join(name.split("::")[-2:])].add((namespace, path))
                    for name in re.findall(r"^\s*(?:class|struct) (\w+)[^;]*?{", text, re.MULTILINE):
                        self.places["class " + name].add((namespace, path))

    def room(self, name):
        parts = plain(name)
        for key in ("::".join(parts[-2:]), *("class " + part for part in reversed(parts[:-1])), parts[-1]):
            files = {path.rsplit(".", 1)[0] for namespace, path in self.places[key]
                     if parts[: namespace.count("::") + 1] == namespace.split("::")}
            if len(files) == 1:
                return files.pop()
        return None


def trace_inside():
    """In gdb: reads what to do from BEAMWRIGHT_ROOMS, writes the functions in the order of their first calls to its `out`."""
    import gdb  # pylint: disable=import-outside-toplevel,import-error

    task = json.loads(os.environ["BEAMWRIGHT_ROOMS"])
    for setting in ("pagination off", "breakpoint always-inserted on", "print thread-events off"):
        gdb.execute("set " + setting)
    gdb.execute("handle SIGSTOP stop nopass", to_string=True)  # the server waits for SIGINT itself
    if task["starts"]:
        gdb.execute("starti", to_string=True)
    pid = gdb.selected_inferior().pid
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        base = int(maps.readline().split("-")[0], 16)
    names = {}
    for line in subprocess.run(["nm", "--demangle", "--defined-only", task["program"]], check=True, capture_output=True,
                               text=True).stdout.splitlines():
        address, kind, name = line.split(" ", 2)
        if kind in "tTwW" and name.startswith("beamwright::") and not re.match(r"beamwright::(v1|inference)::|.*\[clone \.cold", name):
            names[base + int(address, 16)] = name
    signals = []
    gdb.events.stop.connect(lambda event: signals.append(event) if isinstance(event, gdb.SignalEvent) else None)
    points = {address: gdb.Breakpoint(f"*{address}", internal=True) for address in names}

    def run():
        """Until the process is interrupted or ends."""
        called = []
        signals.clear()
        while True:
            gdb.execute("continue", to_string=True)
            if signals or not gdb.selected_inferior().pid:
                return called
            point = points.pop(gdb.selected_frame().pc(), None)
            if point is not None:  # else another thread was there at the same time
                called.append(names[int(point.location[1:])])
                point.delete()

    if task["command"]:
        threading.Timer(2, os.kill, (pid, signal.SIGSTOP)).start()
        run()  # what an idle server calls
        subprocess.Popen(["sh", "-c", f"{task['command']}; sleep 1; kill -STOP {pid}"])
    pathlib.Path(task["out"]).write_text("\n".join(run()))
    if gdb.selected_inferior().pid:
        gdb.execute("kill")


def traced(program, arguments, command=""):
    """The functions that `program` calls: of a process that runs, while the shell command does, or of one that is started."""
    with tempfile.NamedTemporaryFile("r") as out:
        task = {"program": str(program), "starts": not command, "command": command, "out": out.name}
        done = subprocess.run(["gdb", "-q", "-batch", "-nx", "-ex", f"source {__file__}", *arguments], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, "BEAMWRIGHT_ROOMS": json.dumps(task), "DEBUGINFOD_URLS": ""})
        names = out.read().split("\n")
    if len(names) < 2:
        sys.exit(f"gdb traced nothing:\n{done.stdout}{done.stderr}")
    return names


def report(way, names, sources):
    ordered = [(name, sources.room(name)) for name in names]
    rooms, returns, at = {}, 0, None
    for _, room in ordered:
        if room:
            returns += room != at and room in rooms
            rooms[room] = rooms.get(room, 0) + 1
            at = room
    folders = collections.Counter(room.split("/")[0] for room in rooms)
    print(f"{way}: {len(rooms)} rooms ({', '.join(f'{n} of {folder}' for folder, n in sorted(folders.items()))}), "
          f"{len(ordered)} functions, {sum(room is None for _, room in ordered)} of them of no known room, {returns} returns")
    if "--list" in sys.argv:
        print("".join(f"  {room} ({count})\n" for room, count in rooms.items()), end="")
        print("".join(f"  unknown: {name}\n" for name, room in ordered if room is None), end="")


class Server:
    def __init__(self, folder, model):
        ports = folder / f"{model}.ports"
        self.process = subprocess.Popen(
            [BIN / "beamwright-server", "--model-path", ROOT / "models" / model, "--grpc-address", "127.0.0.1:0", "--http-address",
             "none", "--metrics-address", "none", "--admin-address", "none", "--ports-file", ports], stderr=subprocess.DEVNULL)
        while not (ports.exists() and ports.read_text()) and self.process.poll() is None:
            time.sleep(0.1)
        self.address = "127.0.0.1:" + dict(line.split() for line in ports.read_text().splitlines())["grpc"]

    def trace(self, command):
        return traced(BIN / "beamwright-server", ["-p", str(self.process.pid)], command)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def main():
    sources = Sources()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with Server(folder, "g2p-en") as server:
            report("Decode", server.trace(f"{BIN}/beamwright decode --server {server.address} recurrent >/dev/null"), sources)
        program = BIN / "decode_in_process"
        report("IR to a step", traced(program, ["--args", program, ROOT / "models/g2p-en/1"]), sources)
        with Server(folder, "digits-en") as server:
            sound = (ROOT / "models/digits-en/spoken-1.wav").read_bytes()
            (folder / "chunk").write_bytes(sound[32000:48000])
            client = subprocess.Popen([BIN / "beamwright", "recognize", "--server", server.address, "-"], stdin=subprocess.PIPE,
                                      stdout=subprocess.DEVNULL)
            client.stdin.write(sound[:32000])
            client.stdin.flush()
            time.sleep(2)
            report("chunk of sound", server.trace(f"cat {folder}/chunk >/proc/{client.pid}/fd/0; sleep 15"), sources)
            client.kill()
            client.wait()


if "BEAMWRIGHT_ROOMS" in os.environ:
    trace_inside()
elif __name__ == "__main__":
    main()
