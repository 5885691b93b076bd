"""Writes words/MODEL.jsonl: words of the test part, and what a default model searched by frames must answer.

    word_answers.py REPOSITORY

As answers.py, whose searches and sums these are: ONNX Runtime, one word and one hypothesis at a time.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from answers import BEAM, Ctc, Labels, MARGIN, Row, Transducer, best, log_softmax, session

COUNT = 12


def ctc(folder: Path, word: np.ndarray) -> Ctc:
    return Ctc(session(folder / "encoder.onnx").run(None, {"source": word})[0][0].astype(np.float64), 0)


def transducer(folder: Path, word: np.ndarray) -> Transducer:
    frames = session(folder / "encoder.onnx").run(None, {"source": word})[0][0]
    predictor, joiner = session(folder / "predictor.onnx"), session(folder / "joiner.onnx")
    zeros = [np.zeros([1, 1, predictor.get_inputs()[1].shape[2]], np.float32)] * 2

    @cache
    def said(labels: Labels) -> list[np.ndarray]:
        """The predictor's output and its states behind these labels."""
        h, c = said(labels[:-1])[1:] if labels else zeros
        token = np.array([[labels[-1] if labels else 0]], np.int64)
        return predictor.run(["said", "h_next", "c_next"], {"token": token, "h": h, "c": c})

    @cache
    def row(t: int, labels: Labels) -> Row:
        return Row(log_softmax(joiner.run(None, {"frame": frames[t:t + 1], "said": said(labels)[0]})[0][0]))

    return Transducer(len(frames), row, 0, most=3)


def lines_of(folder: Path, build: Callable[[Path, np.ndarray], Ctc | Transducer], words: list[str]
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
    for name, build in (("g2p-en-ctc", ctc), ("g2p-en-transducer", transducer)):
        lines = list(lines_of(root / "models" / name, build, short))[:COUNT]
        file = root / "tests/frames/words" / f"{name}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        print(name, [(line["source"], line["full_log_prob"]) for line in lines], flush=True)


if __name__ == "__main__":
    main()
