"""What the generated table of options says of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Rule(NamedTuple):
    """How an option's value is checked and put into a message."""

    kind: str
    type: str
    text: str
    minimum: float | None = None
    maximum: float | None = None
    choices: Mapping[str, int] = {}
