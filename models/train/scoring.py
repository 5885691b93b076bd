"""Error rates of n-best lists against references. An answer is right if it equals any reference."""

import re
from dataclasses import dataclass

from data import Tokens


def distance(a: Tokens, b: Tokens) -> int:
    """Levenshtein distance."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def plain(tokens: Tokens) -> Tokens:
    """Without marks: AH0 is AH."""
    return tuple(re.sub(r"(?<=\D)\d$", "", token) for token in tokens)


@dataclass
class Tally:
    """Counts for one way of comparing (with marks, or without)."""

    marks: bool
    entries: int = 0
    wrong: int = 0  # the first answer
    wrong_any: int = 0  # all of the first `any_of`
    errors: int = 0  # token errors of the first answer against the closest reference
    tokens: int = 0
    any_of: int = 5

    def add(self, answers: list[Tokens], references: list[Tokens]) -> None:
        """`answers`: best first, at least one."""
        if not self.marks:
            answers = [plain(answer) for answer in answers]
            references = [plain(reference) for reference in references]
        self.entries += 1
        self.wrong += answers[0] not in references
        self.wrong_any += not any(answer in references for answer in answers[:self.any_of])
        errors, tokens = min((distance(answers[0], r), len(r)) for r in references)
        self.errors += errors
        self.tokens += tokens

    @property
    def error(self) -> float:
        return self.wrong / self.entries

    @property
    def any_error(self) -> float:
        return self.wrong_any / self.entries

    @property
    def token_error(self) -> float:
        return self.errors / self.tokens
