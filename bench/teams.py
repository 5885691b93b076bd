"""Which setting of the server's streams is the fastest: sources a second with 1, 8, 32 and 128 in flight, of a large model
up to 32.

    build/venv-peers/bin/python bench/teams.py [--rounds 5] [--seconds 3] [--models gru-256,g2p-en,...] [--page]

Serves a small model, the default one, a medium one and a large one in three precisions: with one thread, with two in as many
streams as there is work for (`--inference-streams 0`), in one stream and in two. Settings take turns. Prints the table;
--page puts it into bench/results.md.
"""

import argparse
import random
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness import machine, ours, serving
from harness.serving import Load

FOLDER = ours.ROOT / "build/bench"
CONCURRENCIES = (1, 8, 32, 128)
BY_WORK = "streams by work"
THREADS = 2
SETTINGS: dict[str, tuple[object, ...]] = {
    "1 thread": (1,), BY_WORK: (THREADS, "--inference-streams", 0), "1 stream": (THREADS, "--inference-streams", 1),
    f"{THREADS} streams": (THREADS, "--inference-streams", THREADS)}
TIE = 0.95  # of the best: what rounds of one setting differ by


@dataclass
class Served:
    name: str
    bundle: Path
    sources: Path
    flags: list[object]
    precision: str = "f32"
    concurrencies: tuple[int, ...] = CONCURRENCIES
    # Calls of one length that are in flight together end together, and of a large model only a few such groups do in the
    # time that there is: a number of groups is timed then, 0 if not.
    groups: int = 0
    # Sources a second by setting and number in flight, one a round.
    rates: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    def rate(self, setting: str, concurrency: int) -> float:
        return statistics.median(self.rates[setting, concurrency])

    def ratio(self, concurrency: int) -> float:
        """Of streams by work to the best other setting: the median of the rounds' own ratios."""
        rounds = zip(*(self.rates[setting, concurrency] for setting in SETTINGS if setting != BY_WORK))
        return statistics.median(own / max(others) for own, others
                                 in zip(self.rates[BY_WORK, concurrency], rounds))


def _ids(name: str, vocabulary: int, length: int) -> Path:
    random.seed(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"teams-{name}.txt"
    path.write_text("".join(" ".join(str(random.randint(2, vocabulary - 1)) for _ in range(length)) + "\n"
                            for _ in range(200)), encoding="utf-8")
    return path


def _random(name: str, vocabulary: int, length: int, steps: int, *shape: object) -> Served:
    return Served(name, ours.random_bundle(FOLDER / name, "--vocab", vocabulary, *shape),
                  _ids(name, vocabulary, length),
                  ["--ids", "--beam-size", 4, "--max-length", steps, "--stop", "never"])


def models(names: list[str]) -> Iterator[Served]:
    for name in names:
        if name == "g2p-en":
            yield Served(name, ours.ROOT / "models/g2p-en/1", ours.ROOT / "models/g2p-en/words-test.txt",
                         ["--beam-size", 5])
        elif name == "gru-256":
            yield _random(name, 74, 8, 12, "--cell", "gru", "--layers", 1, "--hidden", 256, "--embed", 256)
        elif name == "traffic":
            yield _random(name, 8000, 30, 30, "--cell", "lstm", "--layers", 2, "--hidden", 512, "--embed", 512,
                          "--attention")
        else:
            served = _random("large", 32000, 30, 25, "--cell", "lstm", "--layers", 2, "--hidden", 1024, "--embed",
                             512, "--attention")
            served.name, served.precision = f"large, {name}", name
            served.concurrencies, served.groups = CONCURRENCIES[:3], 2
            yield served


def run_round(served: Served, seconds: float, number: int) -> None:
    names = list(SETTINGS)
    for setting in names if number % 2 == 0 else reversed(names):
        threads, *flags = SETTINGS[setting]
        with serving.beamwright(served.bundle, threads, "--precision", served.precision, *flags) as server:
            for concurrency in served.concurrencies:
                flags = ["--concurrency", concurrency, *served.flags]
                if served.groups:
                    calls = max(6, served.groups * concurrency)
                    load = Load(server, served.sources, 600, *flags, "--timeout", "600s", "--requests", calls,
                                warmup=0, ids=False)
                else:
                    load = Load(server, served.sources, seconds, *flags, ids=False)
                report = load.report()
                served.rates.setdefault((setting, concurrency), []).append(report["sources_per_second"])


def table(all_served: list[Served], rounds: int) -> list[str]:
    lines = [f"Sources a second, closed loop, {THREADS} threads but for the first column; server and load generator share the",
             f"machine. Medians of {rounds} rounds. *{BY_WORK}*: `--inference-streams 0`; the last column is its rate over that of the",
             f"best other setting, the median of the rounds' ratios; from {TIE:g} on it counts as the fastest.", "",
             "| model | in flight | " + " | ".join(SETTINGS) + " | by work over the best other |",
             "|---|---|" + "---|" * (len(SETTINGS) + 1)]
    for served in all_served:
        for concurrency in served.concurrencies:
            ratio = served.ratio(concurrency)
            cells = " | ".join(f"{served.rate(setting, concurrency):,.1f}" for setting in SETTINGS)
            lines.append(f"| {served.name} | {concurrency} | {cells} | {ratio:.2f}"
                         f"{'' if ratio >= TIE else ': **not the fastest**'} |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--models", default="gru-256,g2p-en,traffic,f32,bf16,int8",
                        help="gru-256, g2p-en, traffic, and the large one's precisions")
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    neighbours = machine.Neighbours()
    all_served = list(models(args.models.split(",")))
    for number in range(args.rounds):
        for served in all_served:
            run_round(served, args.seconds, number)
    lines = table(all_served, args.rounds)
    print("\n".join([*lines, neighbours.sentence()]))
    if args.page:
        from harness import page  # what peers need is needed for it
        origin = page.Origin(" ".join(["build/venv-peers/bin/python bench/teams.py", *sys.argv[1:]]), neighbours)
        page.renew(ours.ROOT / "bench/results.md", {"teams": origin.lines() + lines})


if __name__ == "__main__":
    main()
