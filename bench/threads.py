"""What another thread brings: tokens a second with 1, 2, 4, ... threads, as far as the machine has CPUs.

    python3 bench/threads.py [--rounds 3] [--seconds 2] [--threads 1,2] [--binary build/bin/beamwright-bench]

Runs `beamwright-bench decode` with as many streams as there is work for, the server's default, and with 1, 2, 4, 8 and 16
streams; settings take turns. Prints a table of Markdown: medians of the rounds, CPU seconds a wall second, the share of the
threads' time that was used, and the default's tokens a second over those of the best setting. It needs NumPy.
"""

import argparse
import os
import statistics
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


def _measure(command: list[object]) -> tuple[float, float]:
    """Tokens a second, and CPU seconds a second."""
    case = ours.run_json(command)[0]
    return case["tokens_per_second"], case["cpu_seconds"] / case["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--threads", help="numbers of threads, separated by commas; unset: powers of two up to the CPUs")
    parser.add_argument("--binary", type=Path, default=ours.BIN / "beamwright-bench")
    args = parser.parse_args()
    cpus = len(os.sched_getaffinity(0))
    counts = [int(count) for count in args.threads.split(",")] if args.threads else [
        1 << power for power in range(10) if 1 << power <= cpus]
    print("| model, requests in flight | threads | tokens/s | over 1 thread | CPU s a second | busy | over the best number of "
          "streams |\n|---|---|---|---|---|---|---|")
    for name, shape, flags, loads in CASES:
        bundle, sources = _bundle(name, shape)
        for in_flight in loads:
            alone = 0.0
            for threads in counts:
                settings = [DEFAULT, *(streams for streams in (1, 2, 4, 8, 16) if streams <= threads and threads > 1)]
                rounds: dict[int, list[tuple[float, float]]] = {streams: [] for streams in settings}
                for _ in range(args.rounds):
                    for streams in settings:
                        rounds[streams].append(_measure([
                            args.binary, "decode", "--json", "--model", bundle, *sources, *flags, "--concurrency", in_flight,
                            "--threads", threads, "--streams", streams, "--seconds", args.seconds]))
                rates = {streams: statistics.median(rate for rate, _ in rounds[streams]) for streams in settings}
                cpu = statistics.median(cpu for _, cpu in rounds[DEFAULT])
                rate = rates[DEFAULT]
                alone = alone or rate / threads
                best = rate / max(rates.values())
                print(f"| {name}, {in_flight} | {threads} | {rate:,.0f} | {rate / alone:.2f} | {cpu:.2f} | {cpu / threads:.0%} | "
                      f"{best:.2f} |", flush=True)


if __name__ == "__main__":
    main()
