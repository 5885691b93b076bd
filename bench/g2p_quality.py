"""Error rates of the default models as they are served, and of other programs on the same words.

Starts the server on a model, decodes the dev and test parts through the command-line client, and prints
Markdown tables. With --peers Phonetisaurus is trained on the same training words and g2p-en's network is
run, on the same test words, in the same run. models/train/g2p-en.md shows what it printed.

    ./dev g2p-quality [--model g2p-en|p2g-en] [--parts dev test] [--beams 1 4 8] [--threads N]
                      [--precisions f32 bf16 int8] [--peers]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "models/train"))
sys.path.insert(0, str(ROOT / "bench"))

import g2p_peers  # noqa: E402
from data import Entries, Tokens, split  # noqa: E402
from scoring import Tally  # noqa: E402

BIN = ROOT / "build/bin"
N_BEST = 5
# Forms of weights that the server can be asked for.
PRECISIONS = ("f32", "bf16", "int8", "auto")

Answers = dict[Tokens, list[Tokens]]


@contextmanager
def served(bundle: Path, threads: int, precision: str) -> Iterator[str]:
    """The address of a server of this bundle, which ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        ports = Path(folder) / "ports"
        server = subprocess.Popen(
            [BIN / "beamwright-server", "--model-path", bundle, "--grpc-address", "127.0.0.1:0",
             "--http-address", "none", "--metrics-address", "none",
             "--admin-address", "none",
             "--ports-file", ports, "--threads", str(threads), "--precision", precision],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while not ports.exists():
                if server.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the server did not start on {bundle}")
                time.sleep(0.05)
            yield f"127.0.0.1:{dict(map(str.split, ports.read_text().splitlines()))['grpc']}"
        finally:
            server.terminate()
            server.wait(timeout=30)


def decode(address: str, task: str, sources: list[Tokens], beam: int) -> tuple[Answers, float]:
    """N-best lists by source, and the seconds that the client took for all of them."""
    joint = "" if task == "g2p" else " "
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("".join(joint.join(source) + "\n" for source in sources))
        file.flush()
        started = time.monotonic()
        done = subprocess.run(
            [BIN / "beamwright", "decode", "--server", address, "--file", file.name, "--json",
             "--beam-size", str(beam), "--n-best", str(min(beam, N_BEST))],
            stdout=subprocess.PIPE, check=True, encoding="utf-8")
        seconds = time.monotonic() - started
    answers = {}
    lines = done.stdout.splitlines()
    if len(lines) != len(sources):
        raise SystemExit(f"{len(sources)} sources, {len(lines)} answers")
    for source, line in zip(sources, lines):
        found = json.loads(line)["result"]["decoded"]["hypotheses"]
        texts = [hypothesis.get("text", "") for hypothesis in found]
        answers[source] = [tuple(t.split() if task == "g2p" else t) for t in texts]
    return answers, seconds


def row(task: str, name: list[str], answers: Answers, part: Entries, rate: float) -> str:
    marked, unmarked = Tally(marks=True), Tally(marks=False)
    for source, references in part.items():
        for tally in (marked, unmarked):
            tally.add(answers[source] or [()], references)
    figures = []
    for figure in ("error", "any_error", "token_error"):
        # Letters bear no stress.
        for tally in (marked, unmarked) if task == "g2p" else (marked,):
            figures.append(f"{100 * getattr(tally, figure):.2f} %")
    return "| " + " | ".join([*name, str(marked.entries), *figures, f"{rate:.0f}"]) + " |"


def header(task: str, names: list[str]) -> str:
    figures = []
    for figure in ("error", "5-best", "token error"):
        figures += [figure, f"{figure} without stress"] if task == "g2p" else [figure]
    columns = [*names, "entries", *figures, "entries/s"]
    return "| " + " | ".join(columns) + " |\n" + "| --- " * len(columns) + "|"


def measure_ours(args: argparse.Namespace, task: str, parts: dict[str, Entries]) -> None:
    print(f"\n### {args.model}, {args.threads} threads\n")
    print(header(task, ["part", "precision", "beam"]))
    for precision in args.precisions:
        with served(args.bundle, args.threads, precision) as address:
            for part in args.parts:
                for beam in args.beams:
                    answers, seconds = decode(address, task, list(parts[part]), beam)
                    print(row(task, [part, precision, str(beam)], answers, parts[part],
                              len(answers) / seconds), flush=True)


def measure_peers(parts: dict[str, Entries]) -> None:
    """Programs for words to phonemes."""
    test = list(parts["test"])
    print("\n### Others, on the test part\n")
    print(header("g2p", ["program"]))
    for name, run in g2p_peers.PEERS.items():
        answers, seconds = run(parts["train"], test, N_BEST)
        print(row("g2p", [name], answers, parts["test"], len(answers) / seconds), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("g2p-en", "p2g-en"), default="g2p-en")
    parser.add_argument("--bundle", type=Path, help="another bundle of the same task")
    parser.add_argument("--lexicon", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=("train", "dev", "test"),
                        default=["dev", "test"])
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 4, 8])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["f32"])
    parser.add_argument("--peers", action="store_true", help="also measure other programs")
    args = parser.parse_args()
    args.bundle = args.bundle or ROOT / "models" / args.model
    task = args.model.removesuffix("-en")
    if args.peers and task != "g2p":
        parser.error("--peers are programs for words to phonemes: --model g2p-en")
    parts = split(task, args.lexicon)
    measure_ours(args, task, parts)
    if args.peers:
        measure_peers(parts)


if __name__ == "__main__":
    main()
