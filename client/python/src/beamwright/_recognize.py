"""Requests and answers of a source that is recognised while it is sent."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import grpc

from . import _answers, _requests, _sound, _wire
from ._errors import ArgumentTypeError, Code, invalid, make_error
from ._types import Features, Recognition, RecognizedSegment, RecognizeUpdate, StableTokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._connection import Settings

_SECONDS = 0.1  # of sound in a piece
_FRAMES = 32  # of features
_PCM16, _F32 = 1, 2
_ENDPOINT = ("silence_ms", "pause_ms", "max_segment_ms")


def config_request(
    sample_rate: int | None, endpoint: Mapping[str, int] | bool, provisional: bool, config: Any
) -> Any:
    """The first request, of a RecognizeConfig that has model and options."""
    config.provisional = bool(provisional)
    if sample_rate is not None:
        if isinstance(sample_rate, bool) or not isinstance(sample_rate, int):
            raise ArgumentTypeError(f"sample_rate is {sample_rate!r}; a whole number is expected")
        config.audio.sample_rate = sample_rate
    if endpoint:
        config.endpoint.SetInParent()
    for name, value in ({} if isinstance(endpoint, bool) else endpoint).items():
        if name not in _ENDPOINT:
            raise invalid("endpoint", f"there is no {name!r}; there are {', '.join(_ENDPOINT)}")
        setattr(config.endpoint, name, value)
    return _wire.RecognizeRequest(config=config)


class Pieces:
    """A source cut into requests. Its first piece decides the kind of samples."""

    def __init__(self, sample_rate: int | None) -> None:
        self._rate = sample_rate
        self._dtype: Any = None

    def opened(self, source: Any) -> Any:
        """A path as the samples of its file, whose rate it has; anything else as it is."""
        if not isinstance(source, (str, os.PathLike)):
            return source
        self._rate, samples = _sound.read(source)
        return samples

    def config(self, first: Any, config: Any, endpoint: Any, provisional: bool) -> Any:
        """The first request, by what the first piece is."""
        import numpy as np

        if isinstance(first, Features):
            return config_request(None, endpoint, provisional, config)
        array = np.asarray(first)
        if array.dtype.name not in ("int16", "float32", "float64") or array.ndim != 1:
            raise ArgumentTypeError(
                f"source: {array.dtype}{list(array.shape)} is not sound; samples are one array of int16 or "
                "floats, frames are beamwright.Features"
            )
        self._dtype = np.dtype("<i2" if array.dtype.name == "int16" else "<f4")
        request = config_request(self._rate or 16000, endpoint, provisional, config)
        request.config.audio.samples = _PCM16 if array.dtype.name == "int16" else _F32
        return request

    def requests(self, piece: Any) -> Iterator[Any]:
        """A piece as requests of a size that the server takes."""
        import numpy as np

        if isinstance(piece, Features):
            values = np.asarray(piece.values)
            for at in range(0, len(values), _FRAMES):
                request = _wire.RecognizeRequest()
                _requests.set_tensor(request.features, values[at : at + _FRAMES], "source")
                yield request
            return
        samples = np.ascontiguousarray(np.asarray(piece).astype(self._dtype, copy=False))
        step = max(int((self._rate or 16000) * _SECONDS), 1)
        for at in range(0, len(samples), step):
            yield _wire.RecognizeRequest(audio=samples[at : at + step].tobytes())


def _is_whole(source: Any) -> bool:
    return isinstance(source, Features) or hasattr(source, "dtype")


def requests_of(source: Any, pieces: Pieces, config: Any, endpoint: Any, provisional: bool) -> Iterator[Any]:
    """All requests of a call. What is wrong with the source is raised before the call begins."""
    source = pieces.opened(source)
    if not _is_whole(source) and not isinstance(source, Iterable):
        raise ArgumentTypeError(
            f"source is {type(source).__name__}; a path, an array of samples, Features or pieces of them "
            "are allowed"
        )
    parts = iter((source,) if _is_whole(source) else source)
    first = next(parts, None)
    if first is None:
        raise invalid("source", "has no piece")
    start = pieces.config(first, config, endpoint, provisional)

    def all_of() -> Iterator[Any]:
        yield start
        yield from pieces.requests(first)
        for part in parts:
            yield from pieces.requests(part)

    return all_of()


async def async_requests_of(
    source: Any, pieces: Pieces, config: Any, endpoint: Any, provisional: bool
) -> AsyncIterator[Any]:
    """The same of a source whose pieces come asynchronously, or at once."""
    if not isinstance(source, AsyncIterable):
        for request in requests_of(source, pieces, config, endpoint, provisional):
            yield request
        return
    begun = False
    async for part in source:
        if not begun:
            yield pieces.config(part, config, endpoint, provisional)
            begun = True
        for request in pieces.requests(part):
            yield request
    if not begun:
        raise invalid("source", "has no piece")


class Kept:
    """Requests, and what their source raised: all that gRPC says of that is that the call was cancelled."""

    def __init__(self, requests: Any) -> None:
        self._requests = requests
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._requests
        except Exception as error:
            self.error = error
            raise

    def failure(self, error: BaseException, settings: Settings) -> BaseException:
        """The exception of a call that ended with this one of gRPC's, or was cancelled."""
        if self.error is not None:
            return self.error
        return settings.error_of(error) if isinstance(error, grpc.RpcError) else error

    async def __aiter__(self) -> AsyncIterator[Any]:
        try:
            async for request in self._requests:
                yield request
        except Exception as error:
            self.error = error
            raise


def segment(message: Any) -> RecognizedSegment:
    """Of a message RecognizedSegment."""
    return RecognizedSegment(
        message.number,
        tuple(map(_answers.hypothesis, message.hypotheses)),
        message.first_frame,
        message.num_frames,
        message.begin_ms,
        message.end_ms,
        tuple(map(_answers.word, message.words)),
    )


def update(message: Any) -> RecognizeUpdate:
    """Of a message RecognizeResponse."""
    stable = message.stable
    return RecognizeUpdate(
        tuple(map(segment, message.segments)),
        StableTokens(tuple(stable.tokens), stable.position, stable.text, stable.sample)
        if message.HasField("stable")
        else None,
        _answers.hypothesis(message.provisional) if message.HasField("provisional") else None,
        message.HasField("summary"),
    )


class Gathered:
    """The segments so far."""

    def __init__(self) -> None:
        self._segments: list[RecognizedSegment] = []
        self._summary: Any = None

    def take(self, message: Any) -> RecognizeUpdate:
        news = update(message)
        self._segments.extend(news.segments)
        if news.is_last:
            self._summary = message.summary
        return news

    def result(self) -> Recognition:
        if self._summary is None:
            raise make_error(Code.INTERNAL, "the stream ended without an answer")
        summary = self._summary
        return Recognition(
            tuple(self._segments),
            summary.num_frames,
            summary.frame_ms,
            summary.model,
            summary.version,
            summary.numerics,
            summary.language,
        )
