"""Traffic as it is: requests of mixed length that arrive when they like.

Sources of 1 to 60 tokens, evenly spread; the output is as long as the source. The peer is
bench/peers/decode_server.py with one batch at a time: dynamic batches, sorted by length, padded and masked,
finished requests taken out. First each server's capacity is measured with 64 requests always in flight; then
both get Poisson arrivals at 80 % of the peer's capacity, and each its own highest rate. Short requests
(up to 10 tokens) come from a separate load generator: two Poisson streams are one.
"""

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from harness import ours, serving
from harness.measure import OURS
from harness.serving import Load, Server
from workloads.decoding import Model

LONGEST, SHORT = 60, 10
PEER = "dynamic batching, sorted, ONNX Runtime"
KEEPS_UP = 0.95  # of what is offered, answered in time: then a rate is sustained
TAIL = 1.05      # in time: within this multiple of the time in which the calls were due


@dataclass
class Open:
    """One run with Poisson arrivals."""
    rate: float        # calls a second offered
    tokens: float      # a second
    kept_up: float     # of what was offered, answered in time
    short_p99_ms: float
    all_p99_ms: float  # of the longer requests


@dataclass
class Traffic:
    capacity: dict[str, float] = field(default_factory=dict)  # tokens/s with 64 in flight
    at_load: dict[str, Open] = field(default_factory=dict)    # at 80 % of the peer's capacity
    best: dict[str, Open] = field(default_factory=dict)       # the highest rate that was sustained
    failure: str = ""


def model(folder: Path) -> Model:
    return Model(ours.random_bundle(folder / "traffic", "--cell", "lstm", "--layers", 2, "--hidden", 512,
                                    "--embed", 512, "--attention", "--vocab", 8000), 4, LONGEST)


def _write(path: Path, lengths: list[int]) -> Path:
    path.write_text("".join(" ".join(str(random.randint(2, 7999)) for _ in range(length)) + "\n"
                            for length in lengths), encoding="utf-8")
    return path


def _sources(folder: Path) -> dict[str, Path]:
    random.seed(5)
    lengths = [1 + i % LONGEST for i in range(10 * LONGEST)]
    random.shuffle(lengths)
    return {"all": _write(folder / "traffic-all.txt", lengths),
            "short": _write(folder / "traffic-short.txt", [n for n in lengths if n <= SHORT]),
            "long": _write(folder / "traffic-long.txt", [n for n in lengths if n > SHORT])}


class Runs:
    def __init__(self, server: Server, sources: dict[str, Path], beam: int, seconds: float) -> None:
        self.server = server
        self.sources = sources
        self.seconds = seconds
        self.flags = ["--beam-size", beam, "--max-length-factor", 1, "--max-length-offset", 0, "--stop",
                      "never", "--timeout", "120s"]

    def capacity(self) -> tuple[float, float]:
        """Calls and tokens a second, 64 in flight."""
        report = Load(self.server, self.sources["all"], self.seconds, "--concurrency", 64,
                      *self.flags, warmup=3).report()
        return report["calls_per_second"], report["tokens_per_second"]

    def open(self, rate: float) -> Open:
        share = SHORT / LONGEST
        loads = {kind: Load(self.server, self.sources[kind], self.seconds, "--rate", rate * part,
                            "--arrival-seed", seed, *self.flags, warmup=3)
                 for kind, part, seed in (("short", share, 1), ("long", 1 - share, 2))}
        reports = {kind: load.report() for kind, load in loads.items()}
        elapsed = max(report["elapsed_seconds"] for report in reports.values())
        offered = sum(report["answered_calls"] + report["skipped_calls"] +
                      sum(report["failed_calls"].values()) for report in reports.values())
        tokens = sum(r["tokens_per_second"] * r["elapsed_seconds"] for r in reports.values())
        answered = sum(report["answered_calls"] for report in reports.values())
        return Open(rate, tokens / elapsed, answered / offered * min(1, TAIL * self.seconds / elapsed),
                    reports["short"]["latency_ms"]["p99"], reports["long"]["latency_ms"]["p99"])

    def highest(self, capacity: float, steps: tuple[float, ...]) -> Open:
        """The highest of these shares of the capacity that is kept up."""
        found = None
        for share in steps:
            run = self.open(share * capacity)
            if found is not None and run.kept_up < KEEPS_UP:
                break
            found = run
        return found


def measure(folder: Path, threads: int, seconds: float, steps: tuple[float, ...]) -> Traffic:
    traffic = Traffic()
    chosen = model(folder)
    sources = _sources(folder)
    starts: dict[str, Callable[[], AbstractContextManager[Server]]] = {
        PEER: lambda: serving.python_server(chosen.bundle, chosen.beam, 1, threads, "--batch", 16,
                                            "--window", 2),
        OURS: lambda: serving.beamwright(chosen.bundle, threads)}
    at_load = 0.0
    try:
        for side, start in starts.items():
            with start() as server:
                runs = Runs(server, sources, chosen.beam, seconds)
                calls, traffic.capacity[side] = runs.capacity()
                at_load = at_load or 0.8 * calls
                traffic.at_load[side] = runs.open(at_load)
                traffic.best[side] = runs.highest(calls, steps)
    except RuntimeError as error:
        traffic.failure = str(error).splitlines()[0]
    return traffic
