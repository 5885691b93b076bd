#!/usr/bin/env python3
"""Three replicas on separate addresses, and what their clients see while one of them is harmed.

Usage: fleet.py BIN LOAD ENVOY MODEL [--rounds N] [--rate CALLS] [--attempt SECONDS] [--only BALANCING:FAULT,...]

In separate namespaces: each replica has a network namespace and an address on one bridge. LOAD, the project's own
client, calls at a rate, whatever the answers do: with deploy/grpc/round_robin.json, which balances in the client, and
through Envoy with deploy/envoy/envoy.yaml. Every fault strikes N times, one replica after the other. Prints a table, in
Markdown: calls; lost, those without an answer; wrong and double answers; calls that took longer than a second, and for
how long after the fault there were such. Exits with 1 if any call was lost, wrong or answered twice.
"""

import argparse
import contextlib
import dataclasses
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import sandbox

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLOW_MS = 1000
# How long it has to serve again after a fault.
PATIENCE = 90


def becomes(question, what):
    until = time.monotonic() + PATIENCE
    while not question():
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(0.05)


def answers(envoy, log):
    if envoy.poll() is not None:
        raise RuntimeError(log.read_text()[-2000:])
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", 9001), timeout=1):
        return True
    return False


def sh(*command):
    subprocess.run(list(map(str, command)), check=True, capture_output=True)


class Replica:
    """A server in a network namespace."""

    def __init__(self, number, bin_folder, repository, scratch):
        self.space, self.link = f"replica{number}", f"veth{number}"
        self.address = f"10.77.0.{10 + number}"
        self.bin, self.repository, self.log = bin_folder, repository, scratch / f"replica{number}.log"
        self.process, self.more = None, []
        sh("ip", "netns", "add", self.space)
        sh("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        sh("ip", "link", "set", self.link, "master", "bridge0", "up")
        for command in (["addr", "add", f"{self.address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"],
                        ["link", "set", "lo", "up"]):
            sh("ip", "-n", self.space, *command)

    def start(self, program="beamwright-server"):
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.space}", self.bin / program, "--model-repository", self.repository,
                 "--model-control", "poll", "--repository-poll-interval", "200ms", "--golden-requests", "4",
                 "--threads", "1", "--drain-delay", "3s", "--drain-timeout", "10s", "--admin-address", "none",
                 "--grpc-address", f"{self.address}:8001", "--http-address", f"{self.address}:8000", "--metrics-address",
                 f"{self.address}:8002", *self.more],
                stdout=log, stderr=log)

    def page(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.address}:8002{path}", timeout=1) as reply:
                return reply.read().decode()
        except OSError:
            return ""

    def ready(self):
        if self.process.poll() is not None:
            raise RuntimeError(self.log.read_text()[-2000:])
        return self.page("/readyz") != ""

    def serves(self, version):
        text = self.page("/metrics")
        return f'beamwright_model_state{{model="g2p-en",version="{version}",state="ready"}} 1' in text

    def end(self, how):
        self.process.send_signal(how)
        code = self.process.wait(60)
        if how == signal.SIGTERM and code != 0:
            raise RuntimeError(f"exit code {code}\n{self.log.read_text()[-2000:]}")

    def restart(self, program="beamwright-server"):
        self.start(program)
        becomes(self.ready, f"{self.space} does not get ready")


class Fleet:
    def __init__(self, arguments, scratch):
        self.arguments, self.scratch = arguments, scratch
        self.bin = arguments.bin.resolve()
        self.version = 1
        self.repository = scratch / "models"
        shutil.copytree(arguments.model / "1", self.repository / "g2p-en/1")
        # What a new release is: another file, with other settings.
        self.next = scratch / "bin"
        self.next.mkdir()
        shutil.copy(self.bin / "beamwright-server", self.next / "beamwright-server")
        sh("mount", "-t", "tmpfs", "tmpfs", "/run")
        sh("ip", "link", "add", "bridge0", "type", "bridge")
        sh("ip", "addr", "add", "10.77.0.1/24", "dev", "bridge0")
        sh("ip", "link", "set", "bridge0", "up")
        self.replicas = [Replica(number, self.bin, self.repository, scratch) for number in (1, 2, 3)]
        for replica in self.replicas:
            replica.start()
        for replica in self.replicas:
            becomes(replica.ready, "a replica does not get ready")

    # The faults. Each returns when the replica that was harmed serves again.

    def killed(self, replica):
        replica.end(signal.SIGKILL)
        time.sleep(1)
        replica.restart()

    def drained(self, replica):
        replica.end(signal.SIGTERM)
        replica.restart()

    def slow(self, replica):
        """A tenth of its time on the processor, for three seconds."""
        until = time.monotonic() + 3
        while time.monotonic() < until:
            replica.process.send_signal(signal.SIGSTOP)
            time.sleep(0.18)
            replica.process.send_signal(signal.SIGCONT)
            time.sleep(0.02)

    def partitioned(self, replica):
        """Packets to it and from it vanish, without an error."""
        sh("ip", "link", "set", replica.link, "nomaster")
        time.sleep(5)
        sh("ip", "link", "set", replica.link, "master", "bridge0")
        becomes(replica.ready, f"{replica.space} is not reached again")

    def frozen(self, replica):
        replica.process.send_signal(signal.SIGSTOP)
        time.sleep(5)
        replica.process.send_signal(signal.SIGCONT)
        becomes(replica.ready, f"{replica.space} does not go on")

    def new_model(self, _):
        self.version += 1
        half = self.scratch / "half"
        shutil.copytree(self.arguments.model / "1", half)
        half.rename(self.repository / f"g2p-en/{self.version}")
        for replica in self.replicas:
            becomes(lambda replica=replica: replica.serves(self.version), "the new version is not served")
        shutil.rmtree(self.repository / f"g2p-en/{self.version - 1}")

    def new_program(self, _):
        """A rollout: one after the other gives way to the other program."""
        for replica in self.replicas:
            replica.end(signal.SIGTERM)
            replica.bin = self.next if replica.bin == self.bin else self.bin
            replica.more = ["--max-rows", "512"] if replica.bin == self.next else []
            replica.restart()

    FAULTS = {"killed": killed, "drained": drained, "slow": slow, "partitioned": partitioned, "frozen": frozen,
              "new model version": new_model, "new program": new_program}

    def config(self, name, before, after):
        """A copy of a file of deploy/ with the given time for one attempt."""
        text = (ROOT / "deploy" / name).read_text(encoding="utf-8")
        head, tail = text.split(before)
        path = self.scratch / pathlib.Path(name).name
        path.write_text(f"{head}{before}{self.arguments.attempt}{tail[tail.index(after):]}", encoding="utf-8")
        return path

    @contextlib.contextmanager
    def balancing(self, kind):
        """Yields the target and the service config of clients that balance so."""
        if kind == "client":
            addresses = ",".join(f"{replica.address}:8001" for replica in self.replicas)
            yield f"ipv4:{addresses}", self.config("grpc/round_robin.json", '"perAttemptRecvTimeout": "', "s")
            return
        endpoint = "- endpoint: {address: {socket_address: {address: %s, port_value: 8001}}}"
        path = self.config("envoy/envoy.yaml", "per_try_timeout: ", "s")
        config = path.read_text(encoding="utf-8")
        there = endpoint % "beamwright-replicas"
        indent = config.split(there)[0].rsplit("\n", 1)[1]
        here = f"\n{indent}".join(endpoint % replica.address for replica in self.replicas)
        path.write_text(config.replace(there, here), encoding="utf-8")
        with (self.scratch / "envoy.log").open("w") as log:
            envoy = subprocess.Popen([self.arguments.envoy, "--config-path", path, "--concurrency", "1",
                                      "--log-level", "warning"], stdout=log, stderr=log)
        try:
            becomes(lambda: answers(envoy, self.scratch / "envoy.log"), "Envoy does not start")
            yield "127.0.0.1:9001", "-"
        finally:
            envoy.kill()
            envoy.wait()

    def run(self, kind, fault, rounds):
        """What the clients saw (a Call each), when each fault struck and when it was over, in seconds."""
        struck = []
        with self.balancing(kind) as (target, config):
            load = subprocess.Popen([self.arguments.load, target, config, str(self.arguments.rate)],
                                    stdout=(self.scratch / "calls").open("w"), stderr=subprocess.PIPE, text=True)
            try:
                said = load.stderr.readline()
                if said != "calling\n":
                    raise RuntimeError(f"the load does not start: {said}")
                time.sleep(0.5)
                for number in range(rounds):
                    begin = time.time()
                    self.FAULTS[fault](self, self.replicas[number % 3])
                    struck.append((begin, time.time()))
                    # Clients that lost a connection try again within five seconds at most.
                    time.sleep(1)
                load.send_signal(signal.SIGTERM)
                load.wait(200)  # a call may take a minute
            finally:
                load.kill()
                load.wait()
        lines = (self.scratch / "calls").read_text().splitlines()
        return [Call.of(line) for line in lines], struck


@dataclasses.dataclass
class Call:
    due: float
    took_ms: int
    code: str
    answers: int
    right: bool
    message: str

    @staticmethod
    def of(line):
        due, took, code, _, answers, right, *message = line.split(" ", 6)
        return Call(int(due) / 1000, int(took), code, int(answers), right == "1", " ".join(message))


def disturbed(calls, struck):
    """For how long after a fault calls that were due took longer than SLOW_MS: the longest of all rounds."""
    ends = [begin for begin, _ in struck[1:]] + [float("inf")]
    return max((call.due - begin for (begin, _), end in zip(struck, ends)
                for call in calls if begin <= call.due < end and call.took_ms > SLOW_MS), default=0)


def row(kind, fault, calls, struck):
    lost = [call for call in calls if call.code != "OK"]
    wrong = [call for call in calls if call.code == "OK" and not call.right]
    twice = [call for call in calls if call.answers != 1]
    late = [call for call in calls if call.took_ms > SLOW_MS]
    median = sorted(call.took_ms for call in calls)[len(calls) // 2]
    print(f"| {kind} | {fault} | {len(struck)} | {len(calls):,} | {len(lost)} | {len(wrong)} | {len(twice)} | "
          f"{median} ms | {len(late)} | {max(call.took_ms for call in calls) / 1000:.1f} s | "
          f"{disturbed(calls, struck):.1f} s |", flush=True)
    for call in lost[:5]:
        print(f"lost: due {call.due:.3f}, {call.took_ms} ms, {call.code}: {call.message}", file=sys.stderr)
    for begin, end in struck if lost else []:
        print(f"struck: {begin:.3f} to {end:.3f}", file=sys.stderr)
    return not (lost or wrong or twice)


def wanted(arguments):
    pairs = [(kind, fault) for kind in ("client", "Envoy") for fault in Fleet.FAULTS]
    if not arguments.only:
        return pairs
    chosen = [tuple(pair.split(":", 1)) for pair in arguments.only.split(",")]
    unknown = [":".join(pair) for pair in chosen if pair not in pairs]
    if unknown:
        sys.exit(f"unknown: {unknown}; there are {[':'.join(pair) for pair in pairs]}")
    return chosen


def main():
    parser = argparse.ArgumentParser()
    for name in ("bin", "load", "envoy", "model"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rate", type=float, default=40)
    parser.add_argument("--attempt", type=int, default=2)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    pairs = wanted(arguments)
    if not arguments.envoy.exists():
        print(f"{arguments.envoy} is missing: ./dev test installs it")
        sys.exit(77)
    sandbox.enter()
    good = True
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(arguments, pathlib.Path(folder))
        print("| balancing | fault | rounds | calls | lost | wrong | answered twice | median | longer than 1 s | longest | "
              "longer than 1 s until |\n|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
        for kind, fault in pairs:
            good &= row(kind, fault, *fleet.run(kind, fault, arguments.rounds))
    print("no call lost, none answered wrongly or twice" if good else "calls were lost, or answered wrongly or twice")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
