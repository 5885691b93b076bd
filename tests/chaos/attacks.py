#!/usr/bin/env python3
"""Attacks on every listener of a server, each next to a client that makes calls one after the other; prints a table.

Usage: attacks.py [--programs build/bin] [--seconds 10] [--limit 512] [--worst 12] [--page] [NAME...]

Each attack has a separate server, in a memory cgroup where this process may make one. Columns: calls/s of the client
before, the mean and the least of a second during, and the bar; CPU seconds a second meanwhile of the server, the
attackers, the client, and all other processes; the longest probe; resident memory before, most, and 10 s after, MiB; how
long SIGTERM took while the attack ran again, and the exit code; what the attackers were answered.
The bar: half of the calls/s that the client could have next to the CPU time of the attackers' processes, which on
other machines would take none from it; or, where the attackers are answered or ask for honest
work, the share of one client among all.
(!): a bar is missed: that one; no probe takes a second; memory is back within 100 MiB; the server lives, and ends with 0.
At the end the rows with the least share of others once more, and all others in one row.
`--page` writes these rows into tests/chaos/README.md. `--list` names the calls of the role table (server/access/roles.cc) that no attack covers, and fails if there are some.

Needs grpcio and protobuf (build/venv-python of ./dev test).
"""

import argparse
import collections
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("chaos", "stock_clients", "support")]
sys.dont_write_bytecode = True

CGROUP = pathlib.Path(f"/sys/fs/cgroup/memory/beamwright-attacks-{os.getpid()}")  # each run has a limit
MIB = 1 << 20
GOLDEN = r"""
import http.client, json, sys, time
port, seconds = int(sys.argv[1]), float(sys.argv[2])
body = json.dumps({"sources": [{"text": "recurrent"}]})
connection, calls, expected, start = None, [], None, time.monotonic()
while time.monotonic() - start < seconds:
    begun = time.monotonic()
    try:
        connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("POST", "/v1/models/g2p-en:decode", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        results = json.loads(reply.read()).get("results")
        text = results and results[0]["decoded"]["hypotheses"][0]["text"]
        expected = expected or text
        good = bool(text) and text == expected
    except (OSError, ValueError, http.client.HTTPException):
        connection, good = None, False
    calls.append((time.monotonic() - start, good))
print(json.dumps(calls))
"""
# A process, as the client is: threads of the attackers' process would wait for its interpreter.
PROBES = r"""
import http.client, json, select, sys, time
longest, failed = 0.0, 0
while not select.select([sys.stdin], [], [], 0.1)[0]:
    start = time.monotonic()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=5)
        connection.request("GET", "/livez")
        failed += connection.getresponse().status != 200
        connection.close()
    except (OSError, http.client.HTTPException):
        failed += 1
    longest = max(longest, time.monotonic() - start)
print(json.dumps([longest, failed]))
"""


def cpu_seconds(pid):
    """User and system time of a process so far; 0 if it is gone."""
    with contextlib.suppress(OSError, IndexError):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def busy_seconds():
    """Of all cores, by all processes so far."""
    user, nice, system, _idle, _io, irq, softirq, *_ = pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    return sum(map(int, (user, nice, system, irq, softirq))) / os.sysconf("SC_CLK_TCK")


class Cores:
    """The cores that server, attackers (this process), client and all others keep busy in a time."""

    def __init__(self, server, client):
        self.pids = [server, os.getpid(), client]
        self.begin, self.start = self.read(), time.monotonic()

    def read(self):
        used = [cpu_seconds(pid) for pid in self.pids]
        return [*used, busy_seconds() - sum(used)]

    def end(self):
        took = time.monotonic() - self.start
        return [max(0.0, (now - then) / took) for now, then in zip(self.read(), self.begin, strict=True)]


class Server:
    """A server with one thread and the models in `folder`; Linux only."""

    def __init__(self, programs, folder, limit, arguments=()):
        self.scratch = pathlib.Path(tempfile.mkdtemp())

        def start():
            resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
            if limit and CGROUP.exists():
                (CGROUP / "cgroup.procs").write_text(str(os.getpid()))

        self.process = subprocess.Popen(
            [programs / "beamwright-server", "--model-repository", folder, "--threads", "1", "--ports-file",
             self.scratch / "ports", "--model-control", "explicit", "--reflection", "true", *arguments,
             *(part for name in ("grpc", "http", "metrics", "admin", "websocket")
               for part in (f"--{name}-address", "127.0.0.1:0"))],
            stdout=subprocess.DEVNULL, stderr=(self.scratch / "log").open("w"), preexec_fn=start)  # fmt: skip
        until = time.monotonic() + 120
        while not (self.scratch / "ports").exists():
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit((self.scratch / "log").read_text())
            time.sleep(0.05)
        self.ports = {
            name: int(port) for name, port in map(str.split, (self.scratch / "ports").read_text().splitlines())
        }

    def resident(self):
        with contextlib.suppress(OSError, IndexError):
            return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096 / MIB
        return 0

    def end(self):
        """Seconds that SIGTERM took, and the exit code."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        shutil.rmtree(self.scratch)
        return time.monotonic() - start, code


class Attack:
    """What several threads do until they are stopped, and what they are answered."""

    def __init__(self, server, run, threads):
        self.answers = collections.Counter()
        self.stop = threading.Event()

        def work(number):
            while not self.stop.is_set():
                try:
                    self.answers[str(run(server, number, self.stop))[:60]] += 1
                except Exception as error:  # of any library: the server has ended, or refuses
                    code = getattr(error, "code", None)
                    self.answers[code().name if callable(code) else type(error).__name__] += 1
                    self.stop.wait(0.01)

        self.threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(6)


class Probes:
    """Asks /livez ten times a second."""

    def __init__(self, port):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROBES, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def end(self):
        """The longest wait, and how many had no answer."""
        return json.loads(self.process.communicate(timeout=20)[0])


def per_second(calls, begin, end):
    """The mean and the least of a whole second of [begin, end)."""
    counts = [
        sum(good for at, good in calls if second <= at < second + 1) for second in range(int(begin), int(end))
    ]
    return sum(counts) / max(1, len(counts)), min(counts, default=0)


def fair_share(alone, used):
    """Half of what the client and its calls could have of the cores that the attackers' processes leave."""
    cores = len(os.sched_getaffinity(0))
    return min(1.0, max(0.0, cores - used[1]) / max(0.01, alone[0] + alone[2])) / 2


def try_attack(attack, arguments, folder):
    server = Server(arguments.programs, folder, arguments.limit, attack.arguments)
    before, after = 3, 3
    whole = before + arguments.seconds + after
    probes = Probes(server.ports["metrics"])
    golden = subprocess.Popen(
        [sys.executable, "-c", GOLDEN, str(server.ports["http"]), str(whole)], stdout=subprocess.PIPE
    )
    time.sleep(1)
    cores = Cores(server.process.pid, golden.pid)
    time.sleep(before - 1)
    cores_alone = cores.end()
    memory = [server.resident()] * 3
    cores = Cores(server.process.pid, golden.pid)
    run = Attack(server, attack.run, attack.threads)
    until = time.monotonic() + arguments.seconds
    while time.monotonic() < until:
        time.sleep(0.05)
        memory[1] = max(memory[1], server.resident())
    cores_used = cores.end()
    run.end()
    calls = json.loads(golden.communicate(timeout=120)[0])
    until = time.monotonic() + 10 - after
    while server.resident() > memory[0] + 100 and time.monotonic() < until:
        time.sleep(0.1)
    memory[2] = server.resident()
    longest, failed = probes.end()
    alive = server.process.poll() is None
    again = Attack(server, attack.run, attack.threads)
    time.sleep(1)
    took, code = server.end()
    again.end()
    wrong = sum(not good for _, good in calls)
    alone, (mean, least) = (
        per_second(calls, 1, before)[0],
        per_second(calls, before, before + arguments.seconds),
    )
    common = run.answers.most_common(3)
    is_answered = common and str(common[0][0]) in ("OK", "200", "answers")
    bar = min(1 / 2, fair_share(cores_alone, cores_used))
    if is_answered or attack.honest:
        bar = min(bar, 1 / (max(attack.threads, attack.honest) + 1))
    good = (
        alive and code == 0 and mean >= alone * bar and memory[2] <= memory[0] + 100
        and longest < 1 and failed == 0
    )  # fmt: skip
    row = (
        f"| {attack.name}{'' if good else ' **(!)**'} | {alone:.0f}, {mean:.0f}, {least}"
        + f"{f', {wrong} failed' if wrong else ''}; {alone * bar:.0f} | "
        + ", ".join(f"{one:.2f}" for one in cores_used)
        + f" | {longest:.2f} s{f', {failed} failed' if failed else ''} | "
        + ", ".join(f"{one:.0f}" for one in memory)
        + f" | {took:.1f} s, {code} | "
        + ", ".join(f"{answer.replace('|', '/')}: {count}" for answer, count in common)
        + " |"
    )
    print(row, flush=True)
    return Result(row, good, mean / max(alone, 1) / bar, mean / max(alone, 1), longest, memory, took)


@dataclasses.dataclass
class Result:
    row: str
    good: bool
    of_bar: float  # what others kept, 1: as much as they should
    share: float
    longest: float  # of the probes
    memory: list
    took: float  # SIGTERM


HEAD = (
    "| attack | calls/s before, mean and least during; bar | cores of server, attackers, client, others | longest probe "
    "| memory, MiB | SIGTERM | answers |\n|---|---|---|---|---|---|---|"
)
PAGE = ROOT / "tests/chaos/README.md"
BEGIN, END = "<!-- written by tests/chaos/attacks.py --page -->\n", "<!-- end -->\n"


def summary(results, worst):
    """The rows whose others kept least of their due, or that miss a bar, and one row for all the rest."""
    results = sorted(results, key=lambda one: (one.good, one.of_bar))
    shown = max(worst, sum(not one.good for one in results))
    rows = [one.row for one in results[:shown]]
    rest = results[shown:]
    if rest:
        rows.append(
            f"| the other {len(rest)} | {min(one.share for one in rest):.0%} kept at least, "
            f"{min(one.of_bar for one in rest):.1f} times the bar | | at most "
            f"{max(one.longest for one in rest):.2f} s | at most {max(one.memory[1] for one in rest):.0f}, and back within "
            f"{max(one.memory[2] - one.memory[0] for one in rest):.0f} | at most {max(one.took for one in rest):.1f} s, 0 | |"
        )
    return rows


def write_page(rows, arguments, loads):
    """The rows between the page's marks, below a line that says how they were taken."""
    taken = (
        f"{sum('the other ' not in row for row in rows)} rows of {arguments.seconds} s for each attack, "
        f"{f'{arguments.limit} MiB' if CGROUP.exists() else 'no limit of memory'}, "
        f"{len(os.sched_getaffinity(0))} cores, load before {loads[0]:.1f}, after {loads[1]:.1f}:\n\n"
    )
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END, 1)[1]
    PAGE.write_text(before + BEGIN + "\n" + taken + "\n".join([HEAD, *rows]) + "\n\n" + END + after)


def uncovered(attacks):
    """Calls of the role table that no attack names."""
    table = (ROOT / "server/access/roles.cc").read_text()
    rules = re.findall(r'^    \{"((?:GET |POST )?/[^"]*)"', table, re.MULTILINE)
    covered = {call for attack in attacks for call in attack.covers}
    unknown = sorted(covered - set(rules))
    if unknown:
        sys.exit(f"no rule of the role table: {unknown}")
    return [rule for rule in rules if rule not in covered]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=lambda path: pathlib.Path(path).resolve(), default=ROOT / "build/bin")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--limit", type=int, default=512, help="MiB of the cgroup; 0: none")
    parser.add_argument("--worst", type=int, default=12, help="rows at the end")
    parser.add_argument("--page", action="store_true", help="write the rows into the page")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    from attack_calls import make_models
    from attack_list import ATTACKS

    if arguments.list:
        missing = uncovered(ATTACKS)
        print(
            "\n".join(f"no attack on {call}" for call in missing) or f"{len(ATTACKS)} attacks cover every call"
        )
        sys.exit(bool(missing))
    if arguments.limit:
        with contextlib.suppress(OSError):
            CGROUP.mkdir(exist_ok=True)
            (CGROUP / "memory.limit_in_bytes").write_text(str(arguments.limit * MIB))
    results = []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        make_models(arguments.programs, pathlib.Path(folder))
        print(HEAD)
        for attack in ATTACKS:
            if not arguments.names or attack.name in arguments.names:
                results.append(try_attack(attack, arguments, folder))
    rows = summary(results, arguments.worst)
    if len(results) > arguments.worst:
        print("\n" + "\n".join(rows))
    if arguments.page:
        write_page(rows, arguments, (load, os.getloadavg()[0]))
    with contextlib.suppress(OSError):
        CGROUP.rmdir()
    sys.exit(not all(one.good for one in results))


if __name__ == "__main__":
    main()
