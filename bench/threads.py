"""What another thread brings: tokens a second with 1, 2, 4, ... threads, as far as the machine has CPUs.

    python3 bench/threads.py [--rounds 3] [--seconds 2] [--threads 1,2] [--binary build/bin/beamwright-bench]

Runs `beamwright-bench decode` with as many streams as there is work for, the server's default, and with 1, 2, 4, 8 and 16
streams; settings take turns. Prints a table of Markdown: medians of the rounds, CPU seconds a wall second, the share of the
threads' time that was used, and the default's tokens a second over those of the best setting. It needs NumPy.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from harness import ours

FOLDER = ours.ROOT / "build/bench"
DEFAULT = 0  # streams as work is
# Name, bundle, flags and requests in flight.
CASES = (
    ("GRU-256, V 74, beam 4", ("--cell", "gru", "--layers", 1, "--hidden", 256, "--embed", 256, "--vocab", 74),
     ("--random", "200:8", "--beam", 4, "--max-length", 12, "--fixed-length"), (1, 16, 128)),
    ("g2p-en, int8, beam 5", None, ("--precision", "int8", "--beam", 5), (1, 16, 128)),
    ("2 x LSTM-1024, V 32,000, beam 4", ("--cell", "lstm", "--layers", 2, "--hidden", 1024, "--embed", 512, "--attention",
                                         "--vocab", 32000),
     ("--random", "64:30", "--beam", 4, "--max-length", 25, "--fixed-length"), (1, 8, 32)),
)


def _bundle(name: str, shape: tuple[object, ...] | None) -> tuple[Path, list[object]]:
    if shape is None:
        model = ours.ROOT / "models/g2p-en/1"
        return model, ["--sources", model.parent / "words-test.txt"]
    return ours.random_bundle(FOLDER / f"threads-{name.split(',')[0].replace(' ', '')}", *shape), []


def _peer(bundle: Path, flags: tuple[object, ...], in_flight: int, threads: int,
          seconds: float) -> Callable[[], tuple[float, float]]:
    """What _measure gives, of ONNX Runtime."""
    from workloads import decoding  # noqa: PLC0415, its packages are needed here alone

    def of(flag: str) -> int:
        return int(flags[flags.index(flag) + 1])

    model = decoding.Model(bundle, of("--beam"), of("--max-length"))
    peers = decoding.Peers(model, FOLDER)
    session = decoding.ort_session(peers.graph("search"), threads)
    feed = decoding._search_feed(peers.form, in_flight, model.beam)  # noqa: SLF001

    def run() -> tuple[float, float]:
        wall, cpu, runs = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - wall < seconds:
            session.run(None, feed)
            runs += 1
        took = time.perf_counter() - wall
        return runs * in_flight * model.steps / took, (time.process_time() - cpu) / took
    return run


def _measure(command: list[object]) -> tuple[float, float]:
    """Tokens a second, and CPU seconds a second."""
    case = ours.run_json(command)[0]
    return case["tokens_per_second"], case["cpu_seconds"] / case["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--threads", help="numbers of threads, separated by commas; unset: powers of two up to the CPUs")
    parser.add_argument("--peer", action="store_true", help="measure ONNX Runtime as well")
    parser.add_argument("--binary", type=Path, default=ours.BIN / "beamwright-bench")
    args = parser.parse_args()
    cpus = len(os.sched_getaffinity(0))
    counts = [int(count) for count in args.threads.split(",")] if args.threads else [
        1 << power for power in range(10) if 1 << power <= cpus]
    columns = ["model, requests in flight", "threads", "tokens/s", "over 1 thread", "CPU s a second", "busy",
               "over the best number of streams"]
    if args.peer:
        columns += ["ONNX Runtime: tokens/s", "CPU s a second", "times"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name, shape, flags, loads in CASES:
        bundle, sources = _bundle(name, shape)
        for in_flight in loads:
            alone = 0.0
            for threads in counts:
                settings = [DEFAULT, *(streams for streams in (1, 2, 4, 8, 16) if streams <= threads and threads > 1)]
                rounds: dict[int, list[tuple[float, float]]] = {streams: [] for streams in settings}
                # The ensemble of the default model has no graph with a search in it.
                peer = _peer(bundle, flags, in_flight, threads, args.seconds) if args.peer and shape is not None else None
                of_peer = []
                for _ in range(args.rounds):
                    if peer is not None:
                        of_peer.append(peer())
                        time.sleep(0.1)  # until its threads sleep
                    for streams in settings:
                        rounds[streams].append(_measure([
                            args.binary, "decode", "--json", "--model", bundle, *sources, *flags, "--concurrency", in_flight,
                            "--threads", threads, "--streams", streams, "--seconds", args.seconds]))
                rates = {streams: statistics.median(rate for rate, _ in rounds[streams]) for streams in settings}
                cpu = statistics.median(cpu for _, cpu in rounds[DEFAULT])
                rate = rates[DEFAULT]
                alone = alone or rate / threads
                best = rate / max(rates.values())
                cells = [f"{name}, {in_flight}", f"{threads}", f"{rate:,.0f}", f"{rate / alone:.2f}", f"{cpu:.2f}",
                         f"{cpu / threads:.0%}", f"{best:.2f}"]
                if of_peer:
                    theirs, their_cpu = (statistics.median(values) for values in zip(*of_peer, strict=True))
                    cells += [f"{theirs:,.0f}", f"{their_cpu:.2f}", f"{rate / theirs:.2f}"]
                elif args.peer:
                    cells += ["-", "-", "-"]
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
