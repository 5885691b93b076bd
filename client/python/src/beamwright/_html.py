"""Answers as HTML, for notebooks: no scripts, no files, colours that show on light and dark."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._types import Alignment, Hypothesis

_MOST_CELLS = 20_000


def _cell(content: object, tag: str = "td", style: str = "text-align:left") -> str:
    return f'<{tag} style="{style}">{html.escape(str(content))}</{tag}>'


def _table(head: Iterable[str], rows: Iterable[str]) -> str:
    columns = "".join(_cell(name, "th") for name in head)
    return f"<table><thead><tr>{columns}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _token_names(text: str | None, tokens: Sequence[int]) -> list[str]:
    """The words or else the characters of the text, if there is one for each token but an end token; or ids."""
    for names in ((text or "").split(), [*(text or "")]):
        if len(names) == len(tokens):
            return names
        if names and len(names) == len(tokens) - 1:
            return [*names, "(end)"]
    return [str(token) for token in tokens]


def _source_names(source: str | None, length: int) -> list[str]:
    for names in ([*(source or "")], (source or "").split()):
        if len(names) == length:
            return names
    return [str(position) for position in range(length)]


def _map(weights: Any, rows: Sequence[str], columns: Sequence[str]) -> str:
    """A table of one cell a weight, the darker the larger."""
    if weights.size > _MOST_CELLS:
        return f"<p>attention: {weights.shape[0]} x {weights.shape[1]} weights</p>"
    largest = float(weights.max()) if weights.size else 0.0
    body = []
    for name, values in zip(rows, weights.tolist(), strict=True):
        cells = [
            f'<td title="{value:.4f}" style="min-width:1.2em;background:'
            f'rgba(66,113,206,{value / largest if largest > 0 else 0:.3f})"></td>'
            for value in values
        ]
        body.append(f"<tr>{_cell(name, 'th')}{''.join(cells)}</tr>")
    return _table(["", *columns], body)


def hypotheses(answers: Sequence[Hypothesis], source: str | None) -> str:
    """The n-best list, and the attention of the best one where it is there."""
    rows = [
        "<tr>"
        + "".join(
            _cell(value)
            for value in (
                rank,
                f"{one.score:.4f}",
                f"{one.log_prob:.4f}",
                one,
                one.finish_reason.value,
            )
        )
        + "</tr>"
        for rank, one in enumerate(answers, 1)
    ]
    parts = [] if source is None else [f"<p><b>{html.escape(source)}</b></p>"]
    parts.append(_table(["rank", "score", "log-prob", "answer", "ended by"], rows))
    if answers and answers[0].attention is not None:
        best = answers[0]
        weights: Any = best.attention
        parts.append(
            _map(
                weights,
                _token_names(best.text, best.tokens),
                _source_names(source, weights.shape[1]),
            )
        )
    return "".join(parts)


def alignment(answer: Alignment) -> str:
    """The map of all weights, or one cell for each token's position."""
    names = _token_names(answer.target, answer.tokens)
    columns = _source_names(answer.source, answer.source_length)
    if answer.attention is not None:
        return _map(answer.attention, names, columns)
    places = [columns[position] if 0 <= position < len(columns) else position for position in answer.positions]
    rows = [
        f"<tr>{_cell(name)}{_cell(position)}{_cell(place)}</tr>"
        for name, position, place in zip(names, answer.positions, places, strict=True)
    ]
    return _table(["token", "position", "source"], rows)
