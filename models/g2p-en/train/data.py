"""Reads the pronouncing dictionary, splits it by word, makes batches of one source length each."""

import argparse
import hashlib
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

UNKNOWN = "<unk>"
BEGIN = "<s>"
END = "</s>"

CHARACTERS = "'-." + "abcdefghijklmnopqrstuvwxyz"
VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split()
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH".split()
STRESSES = ("0", "1", "2")

# Target padding: the loss ignores it, and the model never has a token for it.
IGNORE = -100

Lexicon = dict[str, list[tuple[str, ...]]]


def source_vocabulary() -> list[str]:
    return [UNKNOWN, *CHARACTERS]


def target_vocabulary() -> list[str]:
    vowels = [vowel + stress for vowel in VOWELS for stress in STRESSES]
    return [BEGIN, END, *sorted(vowels + CONSONANTS)]


class Factors(NamedTuple):
    """A token is its base phoneme plus its stress; both are rows of one embedding table."""

    base: list[int]  # [tokens] row of the base phoneme
    stress: list[int]  # [tokens] row of the stress, or of "no stress"
    rows: int


def target_factors() -> Factors:
    bases = [BEGIN, END, *sorted(VOWELS + CONSONANTS)]
    no_stress = len(bases)
    base, stress = [], []
    for token in target_vocabulary():
        has_stress = token[-1] in STRESSES
        base.append(bases.index(token[:-1] if has_stress else token))
        stress.append(no_stress + 1 + STRESSES.index(token[-1]) if has_stress else no_stress)
    return Factors(base, stress, no_stress + 1 + len(STRESSES))


def read_lexicon(path: Path) -> Lexicon:
    """Words of our characters only, in the file's order; `word(2)` is another way to say `word`."""
    known_tokens = set(target_vocabulary())
    lexicon: Lexicon = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        word, *phonemes = line.split("#")[0].split() or [""]
        word = re.sub(r"\(\d+\)$", "", word).lower()
        if not word or not set(word) <= set(CHARACTERS) or not set(phonemes) <= known_tokens:
            continue
        pronunciations = lexicon.setdefault(word, [])
        if phonemes and tuple(phonemes) not in pronunciations:
            pronunciations.append(tuple(phonemes))
    return {word: said for word, said in lexicon.items() if said}


def part_of(word: str) -> str:
    """The split depends on the word alone, so a grown or reordered lexicon never moves a word."""
    bucket = int.from_bytes(hashlib.sha256(f"g2p-en:{word}".encode()).digest()[:4], "big") % 100
    return "dev" if bucket < 2 else "test" if bucket < 10 else "train"


def split(lexicon: Lexicon) -> dict[str, Lexicon]:
    parts: dict[str, Lexicon] = {"train": {}, "dev": {}, "test": {}}
    for word, pronunciations in lexicon.items():
        parts[part_of(word)][word] = pronunciations
    return parts


class Batch(NamedTuple):
    source: list[list[int]]  # [rows][length], exact: no padding
    inputs: list[list[int]]  # [rows][time] begin token and phonemes, padded with the end token
    labels: list[list[int]]  # [rows][time] phonemes and end token, padded with IGNORE


class Codec:
    """Text to ids and back."""

    def __init__(self) -> None:
        self.source = {token: i for i, token in enumerate(source_vocabulary())}
        self.target_tokens = target_vocabulary()
        self.target = {token: i for i, token in enumerate(self.target_tokens)}
        self.begin, self.end = self.target[BEGIN], self.target[END]
        self.unknown = self.source[UNKNOWN]

    def source_ids(self, word: str) -> list[int]:
        return [self.source.get(character, self.unknown) for character in word]

    def target_ids(self, phonemes: tuple[str, ...]) -> list[int]:
        return [self.target[phoneme] for phoneme in phonemes]


def batches(lexicon: Lexicon, codec: Codec, rows: int, rng: random.Random,
            unknown_rate: float = 0.002) -> Iterator[Batch]:
    """One epoch in random order. Rows of a batch have one source length and similar target lengths.

    A few characters turn into the unknown character, which the lexicon itself never contains.
    """
    by_length: dict[int, list[tuple[str, tuple[str, ...]]]] = {}
    for word, pronunciations in lexicon.items():
        for phonemes in pronunciations:
            by_length.setdefault(len(word), []).append((word, phonemes))
    plan = []
    for pairs in by_length.values():
        keyed = [(len(phonemes) + rng.uniform(-0.5, 0.5), rng.random(), word, phonemes)
                 for word, phonemes in pairs]
        keyed.sort()
        plan += [keyed[i:i + rows] for i in range(0, len(keyed), rows)]
    rng.shuffle(plan)
    for chunk in plan:
        time = 1 + max(len(phonemes) for *_, phonemes in chunk)
        source, inputs, labels = [], [], []
        for *_, word, phonemes in chunk:
            ids = codec.target_ids(phonemes)
            padding = time - len(ids) - 1
            source.append([codec.unknown if rng.random() < unknown_rate else i
                           for i in codec.source_ids(word)])
            inputs.append([codec.begin, *ids] + [codec.end] * padding)
            labels.append([*ids, codec.end] + [IGNORE] * padding)
        yield Batch(source, inputs, labels)


def main() -> None:
    """Writes words of the test part, one a line in a fixed random order."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--lexicon", type=Path, required=True)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    words = sorted(split(read_lexicon(args.lexicon))["test"])
    random.Random(1).shuffle(words)
    args.out.write_text("".join(word + "\n" for word in words[:args.count]), encoding="utf-8")


if __name__ == "__main__":
    main()
