"""Reads a pronouncing dictionary, splits it, makes batches of one source length each.

Two tasks come from one lexicon: `g2p` says words, `p2g` spells pronunciations. An entry is a source
with all its references; both sides are sequences of tokens (characters or phonemes).
"""

import argparse
import hashlib
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

UNKNOWN = "<unk>"
BEGIN = "<s>"
END = "</s>"
TASKS = ("g2p", "p2g")

# Target padding: the loss ignores it, and the model never has a token for it.
IGNORE = -100

Tokens = tuple[str, ...]
Entries = dict[Tokens, list[Tokens]]


def read_lexicon(path: Path) -> list[tuple[str, Tokens]]:
    """Pairs of word and phonemes, in the file's order, each pair once.

    A line is a word, white space, and phonemes separated by white space; `word(2)` is another way
    to say `word`, and what follows ` #` is a comment (CMUdict's form). Words are lower-cased.
    """
    pairs: dict[tuple[str, Tokens], None] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        word, *phonemes = re.split(r"\s#", line)[0].split() or [""]
        word = re.sub(r"(?<=.)\(\d+\)$", "", word).lower()
        if not word:
            continue
        if not phonemes:
            raise SystemExit(f"{path}:{number}: '{word}' has no phonemes; "
                             "a line is a word and its phonemes")
        pairs[word, tuple(phonemes)] = None
    if not pairs:
        raise SystemExit(f"{path}: no entry")
    return list(pairs)


def entries(task: str, pairs: list[tuple[str, Tokens]]) -> Entries:
    found: Entries = {}
    for word, phonemes in pairs:
        source, target = (tuple(word), phonemes) if task == "g2p" else (phonemes, tuple(word))
        found.setdefault(source, []).append(target)
    return found


def part_of(task: str, source: Tokens) -> str:
    """Depends on the source alone, so that a grown or reordered lexicon never moves an entry."""
    text = "".join(source) if task == "g2p" else " ".join(source)
    bucket = int.from_bytes(hashlib.sha256(f"{task}-en:{text}".encode()).digest()[:4], "big") % 100
    return "dev" if bucket < 2 else "test" if bucket < 10 else "train"


def split(task: str, path: Path) -> dict[str, Entries]:
    parts: dict[str, Entries] = {"train": {}, "dev": {}, "test": {}}
    for source, targets in entries(task, read_lexicon(path)).items():
        parts[part_of(task, source)][source] = targets
    for part, found in parts.items():
        if not found:
            raise SystemExit(f"{path}: no entry falls into the {part} part; "
                             "a lexicon needs a few hundred entries")
    return parts


class Factors(NamedTuple):
    """A token is the sum of two rows of one table: its base and its mark."""

    base: list[int]  # [tokens] row of the base
    mark: list[int]  # [tokens] row of the mark, or of "no mark"
    rows: int


@dataclass(frozen=True)
class Vocabularies:
    """Tokens by id."""

    source: list[str]
    target: list[str]

    @staticmethod
    def of(train: Entries) -> "Vocabularies":
        sources = {token for source in train for token in source}
        targets = {token for said in train.values() for target in said for token in target}
        return Vocabularies([UNKNOWN, *sorted(sources)], [BEGIN, END, *sorted(targets)])

    def arrays(self) -> dict[str, list[str]]:
        """As a checkpoint holds them; `read_vocabularies` is the inverse."""
        return {"vocabulary.source": self.source, "vocabulary.target": self.target}

    def factors(self) -> Factors:
        """A final digit is a mark (stress, tone, length): AH0 is AH with mark 0."""
        parts = [re.fullmatch(r"(\D+)(\d)", token) for token in self.target]
        names = [part[1] if part else token for part, token in zip(parts, self.target)]
        bases = list(dict.fromkeys([BEGIN, END, *sorted(set(names))]))
        marks = ["", *sorted({part[2] for part in parts if part})]
        return Factors([bases.index(name) for name in names],
                       [len(bases) + marks.index(part[2] if part else "") for part in parts],
                       len(bases) + len(marks))


def read_vocabularies(arrays: dict[str, Any]) -> Vocabularies:
    """`arrays`: of NumPy."""
    return Vocabularies(arrays["vocabulary.source"].tolist(), arrays["vocabulary.target"].tolist())


class Codec:
    """Tokens to ids and back."""

    def __init__(self, vocabularies: Vocabularies) -> None:
        self.source = {token: i for i, token in enumerate(vocabularies.source)}
        self.target_tokens = vocabularies.target
        self.target = {token: i for i, token in enumerate(self.target_tokens)}
        self.begin, self.end = self.target[BEGIN], self.target[END]
        self.unknown = self.source[UNKNOWN]

    def source_ids(self, source: Tokens) -> list[int]:
        return [self.source.get(token, self.unknown) for token in source]

    def target_ids(self, target: Tokens) -> list[int]:
        return [self.target[token] for token in target]


class Batch(NamedTuple):
    source: list[list[int]]  # [rows][length], exact: no padding
    inputs: list[list[int]]  # [rows][time] begin token and target, padded with the end token
    labels: list[list[int]]  # [rows][time] target and end token, padded with IGNORE


def batches(train: Entries, codec: Codec, rows: int, rng: random.Random,
            unknown_rate: float = 0.002) -> Iterator[Batch]:
    """One epoch in random order. Rows of a batch have one source length and similar target lengths.

    A few source tokens turn into the unknown token, which the lexicon itself never contains.
    """
    by_length: dict[int, list[tuple[Tokens, Tokens]]] = {}
    for source, targets in train.items():
        for target in targets:
            by_length.setdefault(len(source), []).append((source, target))
    plan = []
    for pairs in by_length.values():
        keyed = [(len(target) + rng.uniform(-0.5, 0.5), rng.random(), source, target)
                 for source, target in pairs]
        keyed.sort()
        plan += [keyed[i:i + rows] for i in range(0, len(keyed), rows)]
    rng.shuffle(plan)
    for chunk in plan:
        time = 1 + max(len(target) for *_, target in chunk)
        sources, inputs, labels = [], [], []
        for *_, source, target in chunk:
            ids = codec.target_ids(target)
            padding = time - len(ids) - 1
            sources.append([codec.unknown if rng.random() < unknown_rate else i
                            for i in codec.source_ids(source)])
            inputs.append([codec.begin, *ids] + [codec.end] * padding)
            labels.append([*ids, codec.end] + [IGNORE] * padding)
        yield Batch(sources, inputs, labels)


def main() -> None:
    """Writes sources of the test part as text, one a line in a fixed random order."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--task", choices=TASKS, default="g2p")
    parser.add_argument("--lexicon", type=Path, required=True)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    joint = "" if args.task == "g2p" else " "
    lines = sorted(joint.join(source) for source in split(args.task, args.lexicon)["test"])
    random.Random(1).shuffle(lines)
    args.out.write_text("".join(line + "\n" for line in lines[:args.count]), encoding="utf-8")


if __name__ == "__main__":
    main()
