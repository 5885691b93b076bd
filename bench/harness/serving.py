"""Servers as processes, and the load generator that drives them, on this machine's loopback."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.ours import BIN, ROOT

Report = dict[str, object]  # of `beamwright load-test --json`


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A process that answers on `address`."""

    def __init__(self, process: subprocess.Popen, port: int) -> None:
        self.process = process
        self.address = f"127.0.0.1:{port}"

    def wait_until_ready(self, seconds: float = 120) -> None:
        """Ours: its port is open before its models are loaded."""
        deadline = time.monotonic() + seconds
        while (done := subprocess.run([BIN / "beamwright", "health", "--server", self.address], check=False,
                                      capture_output=True, text=True)).returncode != 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.address} is not ready: {done.stdout}{done.stderr}")
            time.sleep(0.1)

    def resident_megabytes(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time of its threads so far by their name, children left out."""
        found: dict[str, float] = {}
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                name = (task / "comm").read_text().strip()
                seconds = int((task / "schedstat").read_text().split()[0]) / 1e9
            except OSError:  # the thread has ended
                continue
            found[name] = found.get(name, 0) + seconds
        return found


@contextmanager
def running(command: list[object], port: int, ready_seconds: float = 120) -> Iterator[Server]:
    """Yields once the port answers; ends the process and waits for it."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log,
                                   cwd=ROOT, start_new_session=True)
        try:
            deadline = time.monotonic() + ready_seconds
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > deadline:
                        log.seek(0)
                        raise RuntimeError(
                            f"{command[0]} did not start: {log.read().decode()[-500:]}") from None
                    time.sleep(0.05)
            yield Server(process, port)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT if "python" in str(command[0]) else signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


# Each has one core: the server the first one, the load generator the last.
SERVER_CORE, LOAD_CORE = 0, (os.cpu_count() or 1) - 1


def pinned(core: int | None, *command: object) -> list[object]:
    """A command on that core; None: on all of them."""
    return [*command] if core is None else ["taskset", "--cpu-list", core, *command]


@contextmanager
def beamwright(bundle: Path, threads: int, *flags: object, core: int | None = None) -> Iterator[Server]:
    port = free_port()
    with running(pinned(core, BIN / "beamwright-server", "--model-path", bundle, "--grpc-address",
                        f"127.0.0.1:{port}", "--http-address", "none", "--metrics-address", "none",
                        "--threads", threads, *flags), port) as server:
        server.wait_until_ready()
        yield server


@contextmanager
def python_server(bundle: Path, beam: int, processes: int, threads: int,
                  *flags: object) -> Iterator[Server]:
    """bench/peers/decode_server.py."""
    port = free_port()
    with running([sys.executable, ROOT / "bench/peers/decode_server.py", "--bundle", bundle, "--port",
                   port, "--beam", beam, "--processes", processes, "--threads", threads, *flags],
                  port) as server:
        time.sleep(2 if processes > 1 else 0.5)  # until every process listens
        yield server


# Made by hand (bench/peers/triton_server.py says how); without it Triton is left out.
TRITON_PYTHON = ROOT / "build/venv-triton/bin/python"


@contextmanager
def triton(bundle: Path, beam: int, steps: int, instances: int) -> Iterator[Server]:
    """bench/peers/triton_server.py."""
    port = free_port()
    with running([TRITON_PYTHON, ROOT / "bench/peers/triton_server.py", "--bundle", bundle, "--grpc-port",
                   port, "--http-port", free_port(), "--metrics-port", free_port(), "--beam", beam,
                   "--steps", steps, "--instances", instances], port) as server:
        time.sleep(10)  # its port is open before the model is loaded
        yield server


@contextmanager
def echo(tokens: int, hypotheses: int) -> Iterator[Server]:
    port = free_port()
    with running([BIN / "beamwright-bench-echo", "--port", port, "--tokens", tokens, "--hypotheses",
                   hypotheses], port) as server:
        yield server


class Load:
    """A run of `beamwright load-test` in the background."""

    def __init__(self, server: Server, sources: Path, seconds: float, *flags: object,
                 warmup: float = 1, ids: bool = True, core: int | None = None) -> None:
        command = pinned(core, BIN / "beamwright", "load-test", "--server", server.address, "--file", sources,
                         "--duration", f"{seconds}s", "--warmup", f"{warmup}s", "--json",
                         *(["--ids"] if ids else []), *flags)
        self.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def report(self) -> Report:
        out, error = self.process.communicate()
        if not out.startswith("{"):
            raise RuntimeError(f"load-test: {error.strip()}")
        report = json.loads(out)
        if report["answered_calls"] == 0:
            raise RuntimeError(f"load-test: no answer; first failure: {report['first_failure']}")
        return report


def answers(server: Server, sources: list[str], *flags: object) -> list[list[list[int]]]:
    """Tokens of each source's hypotheses, by `beamwright decode`."""
    done = subprocess.run([str(part) for part in (
        BIN / "beamwright", "decode", "--server", server.address, "--json", "--ids", *flags, *sources)],
        capture_output=True, text=True, check=True)
    return [[hypothesis["tokens"] for hypothesis in json.loads(line)["result"]["decoded"]["hypotheses"]]
            for line in done.stdout.splitlines()]
