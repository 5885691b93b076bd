"""Requests of both clients, and the signatures that help() and notebooks show."""

from __future__ import annotations

import inspect
import math
import operator
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from . import _requests, _wire
from ._errors import ArgumentTypeError, ForkError, invalid
from ._options import DECODE_OPTIONS, SCORE_OPTIONS
from ._rule import Rule

F = TypeVar("F", bound=Callable[..., Any])


def with_options(rules: Mapping[str, Rule]) -> Callable[[F], F]:
    """Shows the options as keyword arguments where programs look at a function while it runs.

    Type checkers know them by `Unpack`; help() and completion in notebooks do not read it.
    """

    def wrap(function: F) -> F:
        signature = inspect.signature(function)
        named = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        options = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=f"{rule.type} | None"
            )
            for name, rule in rules.items()
        ]
        function.__signature__ = signature.replace(parameters=[*named, *options])  # type: ignore[attr-defined]
        lines = [f"    {name}: {rule.text}" for name, rule in rules.items()]
        # Without indentation, as newer Pythons keep it anyway.
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Options:", *lines])
        return function

    return wrap


def decode_request(
    call: str, model: object, version: object, options: Mapping[str, Any], request: Any = None
) -> Any:
    """A DecodeRequest or StreamDecodeRequest without its source."""
    request = _wire.DecodeRequest() if request is None else request
    _requests.set_model(request, model, version)
    if options:
        _requests.set_options(request.options, options, DECODE_OPTIONS, call)
    return request


def score_request(
    source: object,
    targets: tuple[object, ...],
    model: object,
    version: object,
    options: Mapping[str, Any],
) -> tuple[Any, str | None]:
    """A ScoreRequest, and the source if it is text."""
    request = _wire.ScoreRequest()
    _requests.set_model(request, model, version)
    if not targets:
        raise ArgumentTypeError("score() is given no target; write score(source, target, ...)")
    one = request.sources.add()
    text = _requests.set_source(one.source, source)
    for place, target in enumerate(targets):
        _requests.set_target(one.targets.add(), target, f"target {place}")
    if options:
        _requests.set_options(request.options, options, SCORE_OPTIONS, "score")
    return request, text


def align_request(
    source: object, target: object, soft: bool, model: object, version: object
) -> tuple[Any, str | None, str | None]:
    """An AlignRequest, and source and target if they are text."""
    request = _wire.AlignRequest(soft=bool(soft))
    _requests.set_model(request, model, version)
    pair = request.pairs.add()
    source_text = _requests.set_source(pair.source, source)
    return request, source_text, _requests.set_target(pair.target, target, "target")


TEXT_FORMATS = {"plain": 1, "html": 2, "xml": 3, "srt": 4, "vtt": 5, "po": 6}
DOCUMENT_FORMATS = {"docx": 7, "odt": 8}


def translate_request(
    texts: object, source: object, target: object, *, alternatives: object, text_format: str, glossary: Any
) -> Any:
    """A TranslateRequest; one text is a list of one."""
    request = _wire.TranslateRequest()
    for name, value in (("source", source), ("target", target)):
        if not isinstance(value, str):
            raise ArgumentTypeError(f"{name} is {value!r}; a language's tag is expected, such as 'en'")
    if isinstance(texts, bytes) or not hasattr(texts, "__iter__"):
        raise ArgumentTypeError(f"texts is {type(texts).__name__}; a text or a list of texts is expected")
    if isinstance(alternatives, bool) or not hasattr(alternatives, "__index__"):
        raise ArgumentTypeError(f"alternatives is {alternatives!r}; a whole number is expected")
    for place, text in enumerate([texts] if isinstance(texts, str) else texts):
        if not isinstance(text, str):
            raise ArgumentTypeError(f"texts[{place}] is {type(text).__name__}; a text is expected")
        request.texts.append(text)
    if text_format not in TEXT_FORMATS:
        raise invalid("text_format", f"{text_format!r} is not known; known are {', '.join(TEXT_FORMATS)}")
    request.format = TEXT_FORMATS[text_format]
    for term, translation in (glossary or {}).items():
        request.glossary.add(source=term, target=translation)
    request.source_language = source
    request.target_language = target
    if not 0 <= operator.index(alternatives) <= 16:
        raise invalid("alternatives", f"{alternatives} is outside [0, 16]")
    request.alternatives = operator.index(alternatives)
    return request


def document_request(
    document: object, source: object, target: object, *, document_format: str, glossary: Any
) -> Any:
    """A TranslateRequest of an office file."""
    if not isinstance(document, bytes):
        raise ArgumentTypeError(f"document is {type(document).__name__}; the bytes of a file are expected")
    if document_format not in DOCUMENT_FORMATS:
        raise invalid(
            "document_format", f"{document_format!r} is not known; known are {', '.join(DOCUMENT_FORMATS)}"
        )
    request = translate_request((), source, target, alternatives=0, text_format="plain", glossary=glossary)
    request.format = DOCUMENT_FORMATS[document_format]
    request.document = document
    return request


def describe_request(model: object, version: object) -> Any:
    """A DescribeModelRequest."""
    request = _wire.DescribeModelRequest()
    _requests.set_model(request, model, version)
    return request


def seconds(timeout: float | None, default: float) -> float | None:
    """A call's timeout: None is no limit."""
    value = default if timeout is None else timeout
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentTypeError(f"timeout is {value!r}; seconds are expected")
    if not value > 0:
        raise invalid("timeout", f"{value} is not above 0 seconds; math.inf is no limit")
    return None if math.isinf(value) else value


def check_process(process: int) -> None:
    """ForkError in another process than the one that a call or an iterator began in."""
    if os.getpid() != process:
        raise ForkError("an iterator over answers does not go on in a forked process; start one there")


def check_bulk(batch_size: object, max_in_flight: object, on_error: object) -> None:
    """Refuses what decode_many can't work with."""
    for name, value, most in (
        ("batch_size", batch_size, 4096),
        ("max_in_flight", max_in_flight, 256),
    ):
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ArgumentTypeError(f"{name} is {value!r}; a whole number is expected")
        if not 1 <= operator.index(value) <= most:
            raise invalid(name, f"{value} is outside [1, {most}]")
    if on_error not in ("raise", "return"):
        raise invalid("on_error", f"{on_error!r} is not known; known are 'raise' and 'return'")


def check_sources(sources: object) -> None:
    """Refuses one source where many are expected, and what is no iterable."""
    if isinstance(sources, (str, bytes)):
        raise ArgumentTypeError("sources is a single text; decode takes one source, decode_many a list of them")
    if not hasattr(sources, "__iter__") and not hasattr(sources, "__aiter__"):
        raise ArgumentTypeError(f"sources is {type(sources).__name__}; an iterable is expected")
