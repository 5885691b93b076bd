"""Beamwright beside its peers on this machine, and docs/benchmarks.md.

    ./dev bench            # everything
    ./dev bench --quick    # ten minutes: fewer and shorter rounds, one thread where models are large

Builds nothing: `./dev bench` builds the programs, and the peers' environment from bench/requirements.txt.
"""

import argparse
import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from harness import machine, measure, ours, page
from harness.measure import Outcome, Workload
from workloads import decoding, operators, serving, traffic

SECTIONS = ("operators", "small", "large", "serving", "traffic")


def engine_workloads(sections: set[str], folder: Path, threads: int,
                     at_least: float) -> Iterator[Workload]:
    if "operators" in sections:
        for group in (operators.lstm_loops, operators.tiny_loop, operators.gather_trees,
                      operators.embedding_sums):
            yield from group(threads, at_least)
    if "small" in sections:
        yield from decoding.small_search(decoding.small(folder), folder, threads, at_least)
    if "large" in sections:
        model = decoding.large(folder)
        for precision in ours.decode_precisions():
            yield from decoding.large_step(model, folder, threads, at_least, precision)
            yield from decoding.large_search(model, folder, threads, at_least, precision)


def show(outcome: Outcome) -> None:
    sides = ", ".join(f"{side} {outcome.shown(side)}" for side in outcome.seconds)
    ratio = outcome.ratio()
    print(f"{outcome.workload.name}, {outcome.workload.threads} thread(s): {sides} {outcome.workload.unit}"
          f"{f'; {ratio:.2f} times the best peer' if ratio else ''}, noise {100 * outcome.noise():.0f} %",
          flush=True)
    for side, why in outcome.failures.items():
        print(f"  {side} failed: {why}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="ten minutes")
    parser.add_argument("--threads", default="1,2", help="of every side; a run for each number")
    parser.add_argument("--rounds", type=int, help="default: 5, quick 3")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: CPU time in place of time passed, for one thread and a busy machine; "
                        "not for servers")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"some of {','.join(SECTIONS)}")
    parser.add_argument("--page", type=Path, default=ours.ROOT / "docs/benchmarks.md",
                        help="where the page goes")
    args = parser.parse_args()
    if unknown := set(args.only.split(",")) - set(SECTIONS):
        parser.error(f"--only: there is no section {', '.join(sorted(unknown))}")
    if args.clock == "cpu" and args.threads != "1":
        parser.error("--clock cpu goes with --threads 1: CPU time of several threads counts their waiting")
    return args


def main() -> None:
    args = arguments()
    sections = set(args.only.split(","))
    threads = [int(number) for number in args.threads.split(",")]
    measure.clock = args.clock
    rounds = args.rounds or (3 if args.quick else 5)
    at_least = 0.15 if args.quick else 0.4
    folder = ours.ROOT / "build/bench"
    folder.mkdir(parents=True, exist_ok=True)
    results = page.Results(command=" ".join(["./dev bench", *sys.argv[1:]]),
                           clock=args.clock,
                           date=time.strftime("%Y-%m-%d"), rounds=rounds)
    neighbours = machine.Neighbours()
    start = time.monotonic()
    for number in threads:
        for workload in engine_workloads(sections, folder, number, at_least):
            # A step of a large model takes long: fewer rounds say as much.
            outcome = measure.measure(workload, max(2, rounds // 2) if "32k" in workload.name or
                              "the same" in workload.name else rounds)
            show(outcome)
            results.outcomes.append(outcome)
            workload.sides.clear()  # their sessions
            gc.collect()
    for section, model in (("serving", decoding.small), ("traffic", traffic.model)):
        if section in sections and not serving.same_answers(model(folder)):
            raise SystemExit(f"{section}: we and the peer give different answers: nothing to compare")
    if "serving" in sections:
        small = decoding.small(folder)
        results.served = serving.compare(small, folder, 1 if args.quick else 3, 3 if args.quick else 8)
        results.call_cost = serving.call_cost(small, folder, 3 if args.quick else 8)
        results.overload = serving.overload(small, folder, 3 if args.quick else 10)
        print(results.call_cost, results.overload, flush=True)
        for side in results.served.sides():
            rates = [f"{results.served.median(side, c, lambda r: r['sources_per_second']):,.0f}"
                     for c in serving.CONCURRENCIES if (side, c) in results.served.reports]
            print(f"server {side}: {', '.join(rates)} words/s at {serving.CONCURRENCIES} in flight", flush=True)
    if "traffic" in sections:
        for number in threads[-1:] if args.quick else threads:
            run = traffic.measure(folder, number, 10 if args.quick else 25,
                                  (0.9,) if args.quick else (0.8, 0.9, 1.0, 1.1))
            results.traffic[number] = run
            print(f"traffic, {number} thread(s): {run}", flush=True)
    results.neighbours = neighbours.sentence()
    results.minutes = (time.monotonic() - start) / 60
    page.write(args.page, results, page_of_scaling())
    print(f"wrote {args.page} after {results.minutes:.1f} minutes")


def page_of_scaling() -> list[str]:
    """The section that bench/scaling.py wrote last, kept as it is."""
    page_file = ours.ROOT / "docs/benchmarks.md"
    text = page_file.read_text(encoding="utf-8") if page_file.exists() else ""
    place = text.find("## How cost grows")
    return text[place:].splitlines() if place >= 0 else []


if __name__ == "__main__":
    main()
