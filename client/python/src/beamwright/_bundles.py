"""Trained models into bundles: what from_torch, from_keras and from_onnx share.

`beamwright-graph init` writes the bundle and prints what it guessed. Then the bundle is loaded and decodes; the
framework says what it thinks of each token of the answer, and both have to agree.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from . import _programs
from ._errors import ArgumentTypeError, EngineError, ExportError

if TYPE_CHECKING:
    from ._client import Client
    from ._model import Model
    from ._types import ModelDescription

Path = str | os.PathLike[str]
# A file (one token a line, or a SentencePiece model), or the tokens; None: no text, only ids or features.
Vocabulary = Path | Sequence[str] | None
GRAPH_VARIABLE = "BEAMWRIGHT_GRAPH_PROGRAM"
# Largest difference of a token's log-probability between the framework and Beamwright.
TOLERANCE = 1e-3
_CHECKED_STEPS = 20
# What from_torch, from_keras and from_onnx take alike.
_ARGUMENTS = """
    vocabularies: Of source and target: files with one token a line or SentencePiece models, lists of
        tokens, or None for ids and features.
    out: The folder to make, as "models/spell/1".
    begin: Target token that the first step reads; None: found in the vocabulary.
    end: Target token, or tokens, that end an answer, in the same form.
    name: The model's name; None: that of the folder.
    flags: More of `beamwright-graph init`'s, as ["--state", "h=h_next"].
"""
F = TypeVar("F", bound=Callable[..., Any])


def documented(function: F) -> F:
    """Describes these arguments, too, behind the function's own."""
    own, raises, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\nRaises:")
    function.__doc__ = own + _ARGUMENTS.rstrip() + raises + rest
    return function


# The framework's log-probability of each of the tokens, given the source and those before it: (source
# [length, ...], tokens as the decoder reads them, begin token first, description) -> one for all but the first.
Reference = Callable[[Any, Sequence[int], "ModelDescription"], Sequence[float]]


@dataclass(frozen=True)
class Bundle:
    """A bundle that was written, tried and compared. As text it is a paragraph that says so."""

    path: pathlib.Path
    """Its folder: what `serve` and `Model` take."""
    guesses: tuple[str, ...]
    """What was concluded from the graphs, with the reason of each."""
    notes: tuple[str, ...] = ()
    """What to check: what an export fixed, what no file contains."""
    checked: str = ""
    """What was compared with the framework, and how large the difference was."""

    def __str__(self) -> str:
        parts = [f"{self.path} is a bundle that loads and decodes.", self.checked or "Nothing was compared."]
        if self.guesses:
            parts.append(f"Guessed: {'; '.join(self.guesses)}.")
        if self.notes:
            parts.append(f"Look at: {'; '.join(self.notes)}.")
        return " ".join(parts)


def vocabulary_file(vocabulary: Vocabulary, folder: pathlib.Path, name: str) -> pathlib.Path | None:
    """The file of a vocabulary; one is written for tokens."""
    if vocabulary is None:
        return None
    if isinstance(vocabulary, (str, os.PathLike)):
        path = pathlib.Path(vocabulary)
        if not path.is_file():
            raise ExportError(f"the {name} vocabulary: there is no file {path}")
        return path
    tokens = list(vocabulary)
    for place, token in enumerate(tokens):
        if not isinstance(token, str) or not token or "\n" in token:
            raise ArgumentTypeError(
                f"the {name} vocabulary: token {place} is {token!r}; a text of one line is expected"
            )
    path = folder / f"{name}.vocab"
    path.write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    return path


def with_begin(vocabularies: Any, begin: str | int | None, one_hot: int) -> tuple[Vocabulary, Vocabulary]:
    """The pair; a begin that is not among the tokens which a step takes one-hot is one more, of zeros."""
    source, target = pair_of(vocabularies)
    if not one_hot or target is None or not isinstance(begin, str):
        return source, target
    if isinstance(target, (str, os.PathLike)):
        tokens = pathlib.Path(target).read_text(encoding="utf-8").splitlines()
    else:
        tokens = list(target)
    return (source, target) if begin in tokens or len(tokens) != one_hot else (source, [*tokens, begin])


def pair_of(vocabularies: Any) -> tuple[Vocabulary, Vocabulary]:
    """Source and target vocabulary."""
    if (
        isinstance(vocabularies, (str, bytes))
        or not isinstance(vocabularies, (tuple, list))
        or len(vocabularies) != 2
    ):
        raise ArgumentTypeError(
            "vocabularies is a pair: that of the source and that of the target, or None for either"
        )
    return vocabularies[0], vocabularies[1]


def run_init(
    graphs: Sequence[pathlib.Path], vocabularies: Any, out: pathlib.Path, flags: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Writes the bundle; returns what was guessed and what to look at."""
    program = _programs.find("beamwright-graph", [GRAPH_VARIABLE])
    with tempfile.TemporaryDirectory(prefix="beamwright-") as scratch:
        command = [program, "init", *graphs, "--out", out, *flags]
        for name, vocabulary in zip(("source", "target"), pair_of(vocabularies), strict=True):
            if (path := vocabulary_file(vocabulary, pathlib.Path(scratch), name)) is not None:
                command += [f"--{name}-vocab", path]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    lines = [line.split(None, 1) for line in done.stdout.splitlines() if " " in line]
    if done.returncode != 0:
        raise ExportError(f"no bundle was made of these graphs: {(done.stderr or done.stdout).strip()}")
    kept: dict[str, list[str]] = {"guess": [], "note": [], "unknown": []}
    for kind, text in lines:
        if not text.endswith(": as given"):
            kept.get(kind, []).append(text)
    return kept["guess"], [*kept["note"], *kept["unknown"]]


@contextlib.contextmanager
def opened(bundle: pathlib.Path) -> Iterator[Model | Client]:
    """The bundle in this process, or behind a server where the library is not installed."""
    from ._model import Model

    try:
        model = Model(bundle)
    except EngineError:
        from ._server import serve

        with serve(bundle) as server, server.client() as client:
            yield client
    else:
        with model:
            yield model


def compare(
    bundle: pathlib.Path,
    sources: Sequence[Any],
    reference: Reference,
    framework: str,
    ids_of: Callable[[Any], Any] = lambda source: source,
) -> str:
    """Decodes the sources and asks the framework about each token; ExportError where they disagree.

    ids_of: a source as the bundle takes it.
    """
    largest, count = 0.0, 0
    with opened(bundle) as model:
        described = model.describe()
        begin = begin_of(described, bundle)
        for source in sources:
            answer = model.decode(
                ids_of(source), beam_size=1, n_best=1, max_length=_CHECKED_STEPS, min_length=0
            )
            best = answer.best
            expected = reference(source, [begin, *best.tokens], described)
            for place, (own, theirs) in enumerate(zip(best.token_log_probs, expected, strict=True)):
                largest, count = max(largest, abs(own - theirs)), count + 1
                if not abs(own - theirs) <= TOLERANCE:
                    raise ExportError(
                        f"{bundle} was written, and it decodes otherwise than {framework}: token {place} of "
                        f"the answer {list(best.tokens)} has the log-probability {own:.6f}, with {framework} "
                        f"{theirs:.6f}. Look at the guesses in {bundle / 'model.textproto'}."
                    )
    return (
        f"Its answers to {len(sources)} source{'s' if len(sources) > 1 else ''} agree with {framework}: "
        f"{count} log-probabilities differ by {largest:.1e} at most."
    )


def begin_of(described: ModelDescription, bundle: pathlib.Path) -> int:
    """The id that the first step reads."""
    return _id_of(described.config["target"].get("begin_token", ""), described, bundle)


def ends_of(described: ModelDescription, bundle: pathlib.Path) -> list[int]:
    """The ids that end an answer."""
    return [_id_of(token, described, bundle) for token in described.config["target"].get("end_tokens", [])]


def _id_of(token: str, described: ModelDescription, bundle: pathlib.Path) -> int:
    """The id of a token of the target's, as the description writes it."""
    target = described.config["target"]
    file = target.get("vocabulary", "")
    if not file or target.get("form") == "TEXT_FORM_SENTENCEPIECE":
        if not token.isdigit():
            raise ExportError(f"the token {token!r} is not an id; pass check=False to leave the comparison out")
        return int(token)
    content = (bundle / file).read_text(encoding="utf-8")
    if file.endswith(".json"):  # a tokenizer's
        tokenizer = json.loads(content)
        added = {one["content"]: one["id"] for one in tokenizer["added_tokens"]}
        pieces = tokenizer["model"]["vocab"]
        if not isinstance(pieces, dict):  # of Unigram: [text, score] each
            pieces = {text: number for number, (text, _) in enumerate(pieces)}
        return int(added.get(token, pieces.get(token, -1)))
    return int(content.split("\n").index(token))


def log_probs_of(scores: Any, kind: str) -> Any:
    """Log-probabilities of a row of scores, by what the bundle says of them."""
    import numpy as np

    scores = np.asarray(scores, np.float64)
    if kind == "LOGITS_KIND_LOG_PROBS":
        return scores
    if kind == "LOGITS_KIND_PROBS":
        return np.log(scores)
    shifted = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def flags_of(
    begin: str | int | None, end: str | int | Sequence[str | int] | None, name: str | None
) -> list[str]:
    """What the caller says instead of leaving it to be guessed."""
    flags = [] if begin is None else ["--begin", str(begin)]
    for token in [end] if isinstance(end, (str, int)) else end or []:
        flags += ["--end", str(token)]
    return flags if name is None else [*flags, "--name", name]
