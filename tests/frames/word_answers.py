"""Writes words/MODEL.jsonl: words of the test part, and what a default model searched by frames must answer.

    word_answers.py REPOSITORY

As answers.py, whose searches and sums these are: ONNX Runtime, one word and one hypothesis at a time.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from answers import BEAM, Ctc, MARGIN, best, session

COUNT = 12


def ctc(folder: Path, word: np.ndarray) -> Ctc:
    return Ctc(session(folder / "encoder.onnx").run(None, {"source": word})[0][0].astype(np.float64), 0)


def lines_of(folder: Path, build: Callable[[Path, np.ndarray], Ctc], words: list[str]
             ) -> Iterator[dict[str, object]]:
    letters = (folder / "1/source.vocab").read_text(encoding="utf-8").splitlines()
    for word in words:
        model = build(folder / "1", np.array([[letters.index(letter) for letter in word]], np.int64))
        full = sorted(((model.score(labels), labels) for labels in best(model.decode(), 12)), reverse=True)
        if full[0][0] - full[1][0] <= MARGIN:
            continue
        asked = [labels for _, labels in full[:3]] + [full[0][1][::-1]]
        yield {"source": {"text": word}, "options": {"beam_size": BEAM, "n_best": 3},
               "tokens": list(full[0][1]), "full_log_prob": round(full[0][0], 6),
               "targets": [{"ids": {"ids": list(labels)}} for labels in asked],
               "log_probs": [round(model.score(labels), 6) for labels in asked]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path)
    root = parser.parse_args().repository
    words = (root / "models/g2p-en/words-test.txt").read_text(encoding="utf-8").split()
    short = [word for word in words if len(word) <= 9][:2 * COUNT]
    lines = list(lines_of(root / "models/g2p-en-ctc", ctc, short))[:COUNT]
    file = root / "tests/frames/words/g2p-en-ctc.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
