"""Compares Beamwright with other runtimes on this machine and writes bench/results.md.

    ./dev bench            # everything
    ./dev bench --quick    # ten minutes: one thread, fewer and shorter rounds
    ./dev bench --only small,traffic    # renews these sections of the page

Builds nothing: `./dev bench` builds the programs, and the peers' environment from bench/requirements.txt.
"""

import argparse
import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from harness import machine, measure, ours, page
from harness.measure import Outcome, Workload
from workloads import decoding, frames, operators, serving, streams, traffic

LARGE_AVX2 = "large-avx2"
SECTIONS = ("operators", "small", "large", LARGE_AVX2, "serving", "traffic", "frames", *streams.SECTIONS)

AVX2_NOTE = """Nothing wider than AVX2 is used, by `--most-isa avx2` of `beamwright-bench`, and OV_CPU_MAX_ISA and ONEDNN_MAX_CPU_ISA
of OpenVINO, which emulates bf16 then; its products in f32 use AVX-512 all the same. ONNX Runtime has no such switch and is
left out."""


def engine_workloads(section: str, folder: Path, threads: int, at_least: float) -> Iterator[Workload]:
    if section == "operators":
        for group in (operators.lstm_loops, operators.bf16_lstm_loops, operators.tiny_loop,
                      operators.gather_trees, operators.embedding_sums):
            yield from group(threads, at_least)
    elif section == "small":
        yield from decoding.small_search(decoding.small(folder), folder, threads, at_least)
    else:
        model = decoding.large(folder)
        for precision in decoding.precisions():
            yield from decoding.large_step(model, folder, threads, at_least, precision)
            yield from decoding.large_search(model, folder, threads, at_least, precision)


def engine_section(section: str, folder: Path, threads: list[int], rounds: int,
                   quick: bool) -> page.Lines:
    outcomes = []
    for number in threads:
        for workload in engine_workloads(section, folder, number, 0.15 if quick else 0.4):
            outcomes.append(measure.measure(workload, rounds))
            show(outcomes[-1])
            workload.sides.clear()  # their sessions
            gc.collect()
    return page.engine(outcomes, rounds, measure.clock)


def frames_section(folder: Path, rounds: int, quick: bool) -> page.Lines:
    outcomes = []
    for workload in frames.workloads(folder, 1.0 if quick else 4.0, quick):
        outcomes.append(measure.measure(workload, rounds))
        show(outcomes[-1])
    return page.engine(outcomes, rounds, "cpu")


def serving_section(folder: Path, quick: bool) -> page.Lines:
    model, seconds = decoding.small(folder), 3 if quick else 8
    served = serving.compare(model, folder, 1 if quick else 3, seconds)
    return page.servers(served, serving.call_cost(model, folder, seconds),
                        serving.overload(model, folder, 3 if quick else 5, seconds))


def traffic_section(folder: Path, threads: list[int], quick: bool) -> page.Lines:
    return page.mixed_traffic({
        number: traffic.measure(folder, number, 10 if quick else 25,
                                (0.9,) if quick else (0.8, 0.9, 1.0, 1.1))
        for number in (threads[-1:] if quick else threads)})


def streams_section(section: str, folder: Path, rounds: int, quick: bool) -> page.Lines:
    if section == streams.CROWD_SECTION:
        return page.crowd(streams.crowd(folder))
    return page.spoken(streams.measure(streams.MODELS[section], folder, rounds, 3 if quick else 6))


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
    parser.add_argument("--threads", help="of every side; a run for each number (default: 1,2; quick: "
                        "1, and 2 under traffic)")
    parser.add_argument("--rounds", type=int, help="default: 5, quick 3")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: CPU time in place of time passed, for one thread and a busy machine; "
                        "not for servers")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"some of {','.join(SECTIONS)}")
    parser.add_argument("--page", type=Path, default=ours.ROOT / "bench/results.md",
                        help="where the page goes")
    args = parser.parse_args()
    if unknown := set(args.only.split(",")) - set(SECTIONS):
        parser.error(f"--only: there is no section {', '.join(sorted(unknown))}")
    if args.clock == "cpu" and args.threads != "1":
        parser.error("--clock cpu goes with --threads 1: CPU time of several threads counts their waiting")
    return args


def main() -> None:
    args = arguments()
    threads = [int(number) for number in (args.threads or "1,2").split(",")]
    engine_threads = threads[:1] if args.quick and not args.threads else threads
    measure.clock = args.clock
    folder = ours.ROOT / "build/bench"
    folder.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    for section in args.only.split(","):
        if section == LARGE_AVX2 and not machine.held_to_avx2():
            # OpenVINO looks at its environment once, when it is loaded.
            subprocess.run([sys.executable, __file__, "--only", section, *(["--quick"] if args.quick else []),
                            *(["--threads", args.threads] if args.threads else []),
                            *(["--rounds", str(args.rounds)] if args.rounds else []),
                            "--clock", args.clock, "--page", args.page], env=os.environ | machine.AVX2, check=True)
            continue
        origin = page.Origin(" ".join(["./dev bench", *sys.argv[1:]]), machine.Neighbours())
        models = {"serving": decoding.small, "traffic": traffic.model}
        if section in models and not serving.same_answers(models[section](folder)):
            raise SystemExit(f"{section}: we and the peer give different answers: nothing to compare")
        if section == "serving":
            lines = serving_section(folder, args.quick)
        elif section == "traffic":
            lines = traffic_section(folder, threads, args.quick)
        elif section == "frames":
            lines = frames_section(folder, args.rounds or 3, args.quick)
        elif section in streams.SECTIONS and not streams.has_files(section, folder):
            print(f"{section} is left out: {folder / 'streams' / streams.MODELS[section].folder} has no files of icefall's exporter")
            continue
        elif section in streams.SECTIONS:
            lines = streams_section(section, folder, args.rounds or 3, args.quick)
        else:
            # A large model takes long: fewer rounds say as much.
            rounds = args.rounds or (3 if args.quick else 5) - section.startswith("large")
            lines = engine_section(section, folder, engine_threads, rounds, args.quick)
            if section == LARGE_AVX2:
                lines += [AVX2_NOTE, ""]
        # Each when it is done: what a run that breaks off has measured is kept.
        page.renew(args.page, {section: origin.lines() + lines})
        print(f"{section}: written after {(time.monotonic() - start) / 60:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
