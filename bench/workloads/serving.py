"""Servers side by side: one word a call, beam 5 over a GRU-256, five hypotheses back; server and load
generator share the machine. And the cost of a call without decoding."""

import random
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from harness import ours, serving
from harness.measure import OURS
from harness.serving import Load, Report, Server
from workloads.decoding import Model

CONCURRENCIES = (1, 32, 128)
ENGINE = "bw-engine"  # name of the threads that decode
WORD = 8  # symbols of a word


@dataclass
class Served:
    """Reports by side and concurrency, one a round; servers that did not start, and why."""
    reports: dict[tuple[str, int], list[Report]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, side: str, concurrency: int, value: Callable[[Report], float]) -> float:
        return statistics.median(map(value, self.reports[side, concurrency]))

    def sides(self) -> list[str]:
        return list(dict.fromkeys(side for side, _ in self.reports))


@dataclass
class CallCost:
    """CPU microseconds of a server for a call of one word."""
    echo: float = 0    # a callback service that answers at once, as fast as it can
    echo_at_rate: float = 0  # the same, called as often as ours
    rate: float = 0    # words a second of ours
    server: float = 0  # ours, all of it
    engine: float = 0  # of that, the engine's thread: decoding alone
    idle: float = 0    # CPU time of ours for a second without calls, in percent
    refusal: float = 0     # ours, for a call that finds the queue full
    calls_offered: float = 0  # a second, when that was measured
    echo_at_offered: float = 0  # the echo, called as often

    @property
    def outside_engine(self) -> float:
        return self.server - self.engine


@dataclass
class Overload:
    """Our server at its peak, at 80 % of it, and offered three times as much; server and load generator have a core each."""
    peak: float = 0              # words/s with 64 in flight
    p99_at_80: float = 0         # ms, Poisson arrivals, as all that follows
    goodput: float = 0           # words/s answered at three times the peak
    p99_accepted: float = 0      # ms
    p99_refused: float = 0       # ms
    p99_lag: float = 0           # ms by which the load generator was late
    memory_before: float = 0     # MB, when the overload began
    memory_after: float = 0


# Most words that wait and that run, in the run with overload: small, so that accepted ones are not late.
QUEUE, RUNNING = 64, 64


def words_file(folder: Path, count: int = 500) -> Path:
    random.seed(1)
    path = folder / "words.txt"
    path.write_text("".join(" ".join(str(random.randint(2, 73)) for _ in range(WORD)) + "\n"
                            for _ in range(count)), encoding="utf-8")
    return path


def search_flags(model: Model) -> list[object]:
    return ["--beam-size", model.beam, "--n-best", model.beam, "--max-length", model.steps, "--stop",
            "never"]


@dataclass
class Side:
    start: Callable[[], AbstractContextManager[Server]]
    inference_protocol: str = ""  # model name, where our own protocol is not spoken (or not to be used)


def _sides(model: Model) -> dict[str, Side]:
    bundle, beam = model.bundle, model.beam
    sides = {f"{OURS}, {threads} thread{'s'[:threads > 1]}":
                 Side(lambda threads=threads: serving.beamwright(bundle, threads)) for threads in (1, 2)}
    for name, streams in (("in 1 stream", 1), ("in 2 streams", 2)):
        sides[f"{OURS}, 2 threads {name}"] = Side(
            lambda streams=streams: serving.beamwright(bundle, 2, "--inference-streams", streams))
    sides |= {f"grpc.aio + ONNX Runtime, {n} process{'es' if n > 1 else ''}":
                  Side(lambda n=n: serving.python_server(bundle, beam, n, 1)) for n in (1, 2)}
    if serving.TRITON_PYTHON.exists():
        sides[f"{OURS}, 2 threads, Open Inference Protocol"] = Side(
            lambda: serving.beamwright(bundle, 2), bundle.name)
        sides |= {f"Triton, {n} instance{'s'[:n > 1]}, Open Inference Protocol":
                      Side(lambda n=n: serving.triton(bundle, beam, model.steps, n), "decode")
                  for n in (1, 2)}
    return sides


def _load(side: Side, server: Server, model: Model, words: Path, seconds: float,
          concurrency: int) -> Report:
    if not side.inference_protocol:
        return Load(server, words, seconds, "--concurrency", concurrency, *search_flags(model)).report()
    # Its own model takes no options.
    own = [] if side.inference_protocol == "decode" else search_flags(model)
    return Load(server, words, seconds, "--concurrency", concurrency, "--protocol", "infer-grpc",
                "--model", side.inference_protocol, *own).report()


def same_answers(model: Model) -> bool:
    """Whether we and the peer give the same hypotheses: else it is not the same work."""
    sources = ["5 6 7 8", "9 10 11 12 13 14 15", "16 17"]
    with serving.beamwright(model.bundle, 1) as own, \
            serving.python_server(model.bundle, model.beam, 1, 1) as peer:
        found = [serving.answers(server, sources, *search_flags(model)) for server in (own, peer)]
    return found[0] == found[1]


def compare(model: Model, folder: Path, rounds: int, seconds: float) -> Served:
    served = Served()
    words = words_file(folder)
    for _ in range(rounds):
        for name, side in _sides(model).items():
            if name in served.failures:
                continue
            try:
                with side.start() as server:
                    for concurrency in CONCURRENCIES:
                        report = _load(side, server, model, words, seconds, concurrency)
                        served.reports.setdefault((name, concurrency), []).append(report)
            except RuntimeError as error:
                served.failures[name] = str(error).splitlines()[0]
                print(f"{name} failed: {error}", flush=True)
    return served


def call_cost(model: Model, folder: Path, seconds: float) -> CallCost:
    words = words_file(folder)

    def used(server: Server, *flags: object) -> tuple[dict[str, float], Report]:
        """CPU microseconds by name of thread, and what was answered meanwhile."""
        Load(server, words, 1, *flags, warmup=0).report()
        before = server.cpu_seconds()
        report = Load(server, words, seconds, *flags, warmup=0).report()
        return {name: 1e6 * (now - before.get(name, 0)) for name, now in server.cpu_seconds().items()}, report

    def each_call(server: Server, *flags: object) -> float:
        threads, report = used(server, *flags)
        return sum(threads.values()) / report["answered_calls"]

    cost = CallCost()
    with serving.beamwright(model.bundle, 1) as server:
        threads, report = used(server, "--concurrency", 32, *search_flags(model))
        cost.rate = report["sources_per_second"]
        cost.server = sum(threads.values()) / report["answered_calls"]
        cost.engine = threads[ENGINE] / report["answered_calls"]
        before = sum(server.cpu_seconds().values())
        time.sleep(seconds)
        cost.idle = 100 * (sum(server.cpu_seconds().values()) - before) / seconds
    with serving.beamwright(model.bundle, 1, "--max-queue", 1, "--max-rows", model.beam) as server:
        cost.calls_offered = 3 * cost.rate
        threads, report = used(server, "--rate", cost.calls_offered, *search_flags(model))
        outside = sum(threads.values()) - threads[ENGINE]
        cost.refusal = ((outside - report["answered_calls"] * cost.outside_engine)
                        / sum(report["failed_calls"].values()))
    with serving.echo(model.steps, model.beam) as server:
        cost.echo = each_call(server, "--concurrency", 32)
        cost.echo_at_rate = each_call(server, "--rate", cost.rate)
        cost.echo_at_offered = each_call(server, "--rate", cost.calls_offered)
    return cost


def overload(model: Model, folder: Path, rounds: int, seconds: float) -> list[Overload]:
    """One a round, all with the same server."""
    words = words_file(folder)
    runs = []
    with serving.beamwright(model.bundle, 1, "--max-queue", QUEUE, "--max-rows", RUNNING * model.beam,
                            core=serving.SERVER_CORE) as server:
        def load(*flags: object) -> Report:
            return Load(server, words, seconds, *flags, *search_flags(model), core=serving.LOAD_CORE).report()

        for _ in range(rounds):
            run = Overload()
            run.peak = load("--concurrency", 64)["sources_per_second"]
            run.p99_at_80 = load("--rate", 0.8 * run.peak)["latency_ms"]["p99"]
            run.memory_before = server.resident_megabytes()
            over = load("--rate", 3 * run.peak)
            run.memory_after = server.resident_megabytes()
            run.goodput = over["sources_per_second"]
            run.p99_accepted = over["latency_ms"]["p99"]
            run.p99_refused = over["refused_ms"]["p99"]
            run.p99_lag = over["lag_ms"]["p99"]
            runs.append(run)
    return runs
