"""Word errors of what a network hears.

    scoring_digits.py WEIGHTS --people FOLDER --part dev|test [--show]
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from model_digits import BINS, TOKENS, Digits, greedy, labels, load
from people import recordings, strings
from sounds import SILENCE, features

sys.path.append(str(Path(__file__).resolve().parents[1]))
from scoring import distance  # noqa: E402

TAIL = 66  # features of silence that the server adds behind a source


@dataclass
class Errors:
    wrong: int = 0
    words: int = 0

    def add(self, digits: str, tokens: list[int]) -> None:
        # 'oh' and 'zero' are one digit.
        same = {11: 1}
        said = [same.get(token, token) for token in labels(digits)]
        self.wrong += distance(said, [same.get(token, token) for token in tokens])
        self.words += len(said)

    @property
    def rate(self) -> float:
        return self.wrong / max(self.words, 1)

    def __str__(self) -> str:
        return f"{self.wrong} of {self.words} words wrong ({self.rate:.1%})"


def heard(model: Digits, x: np.ndarray) -> list[int]:
    with torch.no_grad():
        return greedy(model(torch.from_numpy(x)[None])[0][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("--people", type=Path, required=True)
    parser.add_argument("--part", choices=["dev", "test"], default="dev")
    parser.add_argument("--show", action="store_true", help="what is heard wrong")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = load(args.weights)
    singles = recordings(args.people, args.part)
    by_person: dict[str, Errors] = {}
    for recording in singles + strings(singles, 10, 1):
        x = np.concatenate([features(recording.samples), np.full((TAIL, BINS), SILENCE, np.float32)])
        tokens = heard(model, x)
        errors = by_person.setdefault(recording.person, Errors())
        before = errors.wrong
        errors.add(recording.digits, tokens)
        if args.show and errors.wrong > before:
            print(f"  {recording.person}: {recording.digits} heard as {' '.join(TOKENS[token] for token in tokens)}")
    for person, errors in by_person.items():
        print(f"{person}: {errors}")
    for kind, chosen in (("recordings as they are", False), ("strings", True)):
        of_kind = [errors for person, errors in by_person.items() if person.endswith("strings") == chosen]
        print(f"{args.part}, {kind}: {Errors(sum(e.wrong for e in of_kind), sum(e.words for e in of_kind))}")


if __name__ == "__main__":
    main()
