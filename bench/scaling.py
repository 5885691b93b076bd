"""How cost grows: tokens/s against requests in flight, vocabulary, beam and source length.

    build/venv-peers/bin/python bench/scaling.py [--quick]

Runs `beamwright-bench decode` on bundles of random weights, writes docs/images/scaling.svg and the section of
bench/results.md that shows it. One axis is varied at a time, the others stay as in BASE.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import matplotlib

from harness import machine, ours, page

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  the backend comes first

FOLDER = ours.ROOT / "build/bench"
STEPS = 20
BASE = {"vocabulary": 8000, "beam": 4, "source": 30, "requests": 8}
AXES = {
    "requests": ("requests in flight", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
    "vocabulary": ("vocabulary", (1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000)),
    "beam": ("beam size", (1, 2, 4, 8, 16, 32)),
    "source": ("source length, tokens", (10, 30, 100, 300, 1000, 2000)),
}


@dataclass
class Point:
    value: int
    tokens_per_second: float
    step_ms: float
    attention: float  # share of the engine's time


def measure(values: dict[str, int], seconds: float, threads: int) -> Point:
    bundle = ours.random_bundle(
        FOLDER / f"scaling-{values['vocabulary']}", "--cell", "lstm", "--layers", 2, "--hidden", 256,
        "--embed", 256, "--attention", "--vocab", values["vocabulary"])
    case = ours.decode(bundle, "--random", f"32:{values['source']}", "--beam", values["beam"],
                       "--max-length", STEPS, "--fixed-length", "--concurrency", values["requests"],
                       "--threads", threads, "--seconds", seconds)[0]
    return Point(0, case["tokens_per_second"], case["step_ms_median"], case["shares"]["attention"])


def sweep(axis: str, seconds: float, threads: int) -> list[Point]:
    points = []
    for value in AXES[axis][1]:
        point = measure(BASE | {axis: value}, seconds, threads)
        point.value = value
        points.append(point)
        print(f"{axis} {value}, {threads} thread(s): {point.tokens_per_second:,.0f} tokens/s, "
              f"step {point.step_ms:.3f} ms", flush=True)
    return points


def draw(path: Path, results: dict[str, dict[int, list[Point]]]) -> None:
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "beamwright", "font.size": 10})
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    for plot, (axis, by_threads) in zip(axes.flat, results.items()):
        for threads, points in by_threads.items():
            plot.plot([point.value for point in points], [point.tokens_per_second for point in points],
                      marker="o", markersize=4, label=f"{threads} thread{'s'[:threads > 1]}")
        values = AXES[axis][1]
        plot.set_xscale("log", base=2)
        plot.set_xticks(values, [f"{v // 1000}k" if v >= 1000 and v % 1000 == 0 else str(v) for v in values])
        plot.minorticks_off()
        plot.set_ylim(bottom=0)
        plot.set_xlabel(AXES[axis][0])
        plot.set_ylabel("tokens/s")
        plot.grid(alpha=0.3)
        plot.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def table(axis: str, by_threads: dict[int, list[Point]]) -> list[str]:
    header = [AXES[axis][0]] + [f"{column}, {threads} thread{'s'[:threads > 1]}" for threads in by_threads
                                for column in ("tokens/s", "step ms", "attention")]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in zip(*by_threads.values()):
        cells = [cell for p in row for cell in (f"{p.tokens_per_second:,.0f}", f"{p.step_ms:.3f}",
                                                f"{100 * p.attention:.0f} %")]
        lines.append(f"| {row[0].value:,} | " + " | ".join(cells) + " |")
    return lines + [""]


def section(results: dict[str, dict[int, list[Point]]]) -> page.Lines:
    lines = [f"2 x LSTM-256 with attention, random weights, every request {STEPS} steps; unless varied:",
             f"{BASE['requests']} requests in flight, vocabulary {BASE['vocabulary']:,}, beam {BASE['beam']}, "
             f"sources of {BASE['source']} tokens.", "",
             "![tokens per second against requests in flight, vocabulary, beam size and source length]"
             "(../docs/images/scaling.svg)", ""]
    for axis, by_threads in results.items():
        lines += table(axis, by_threads)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="half a second a point")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--only", choices=AXES, help="print one axis; write nothing")
    args = parser.parse_args()
    origin = page.Origin("build/venv-peers/bin/python bench/scaling.py" + " --quick" * args.quick,
                         machine.Neighbours())
    seconds = 0.5 if args.quick else 2
    threads = [int(number) for number in args.threads.split(",")]
    results = {axis: {number: sweep(axis, seconds, number) for number in threads}
               for axis in ([args.only] if args.only else AXES)}
    if args.only:
        return
    draw(ours.ROOT / "docs/images/scaling.svg", results)
    page.renew(ours.ROOT / "bench/results.md", {"scaling": origin.lines() + section(results)})


if __name__ == "__main__":
    main()
