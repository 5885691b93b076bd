"""Many sources in calls of several: what Client and AsyncClient share."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Container, Generator
from typing import Any, NamedTuple

from . import _answers, _wire
from ._errors import BeamwrightError, Code, RpcError, make_error
from ._requests import located, set_source
from ._types import Decoded

BATCH_SIZE = 32
MAX_IN_FLIGHT = 4
# A call is sent earlier if its sources reach this many bytes.
BATCH_BYTES = 1 << 20


class Batch:
    """The sources of a call."""

    def __init__(self, template: Any, first: int) -> None:
        self.request = _wire.DecodeRequest()
        self.request.CopyFrom(template)
        self.call: Any = None
        self._first = first
        self._sources: list[str | BeamwrightError | None] = []
        self._num_bytes = 0

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, source: Any) -> None:
        """Takes a source, or keeps what is wrong with it in its place."""
        message = self.request.sources.add()
        try:
            self._sources.append(set_source(message, source))
        except BeamwrightError as error:
            del self.request.sources[-1]
            self._sources.append(located(error, self._first + len(self)))
            return
        self._num_bytes += message.ByteSize()

    def is_full(self, batch_size: int) -> bool:
        """Whether it should be sent."""
        return len(self) >= batch_size or self._num_bytes >= BATCH_BYTES

    def answers(self, response: Any) -> list[Decoded | BeamwrightError]:
        """What became of each source, in their order."""
        sent = len(self.request.sources)
        if len(response.results) != sent:
            wrong = f"the server gave {len(response.results)} results for {sent} sources"
            return self.failures(make_error(Code.INTERNAL, wrong))
        results = iter(response.results)
        answers: list[Decoded | BeamwrightError] = []
        for place, source in enumerate(self._sources):
            if isinstance(source, BeamwrightError):
                answers.append(source)
                continue
            result = _answers.result_of(next(results), "decoded")
            if isinstance(result, RpcError):
                result.index = self._first + place
                answers.append(result)
            else:
                answers.append(_answers.decoded(result, source, response))
        return answers

    def again(
        self, answers: list[Decoded | BeamwrightError], codes: Container[int], longest: float | None
    ) -> Again | None:
        """What to send again of a call that was answered in part: what the server asks to come back.

        Only what failed with one of the codes, and only if the waits that the server names are not
        longer than this number of seconds.
        """
        places = []
        wait = 0.0
        for place, answer in enumerate(answers):
            if (
                isinstance(answer, RpcError)
                and answer.code in codes
                and answer.retry_after is not None
                and (longest is None or answer.retry_after <= longest)
            ):
                places.append(place)
                wait = max(wait, answer.retry_after)
        if not places:
            return None
        batch = Batch(_wire.DecodeRequest(), 0)
        batch.request.CopyFrom(self.request)
        batch.request.ClearField("sources")
        sent = 0
        for place, source in enumerate(self._sources):
            if isinstance(source, BeamwrightError):
                continue
            if place in places:
                batch.request.sources.add().CopyFrom(self.request.sources[sent])
                batch._sources.append(source)
            sent += 1
        return Again(batch, places, wait, self._first)

    def failures(self, error: RpcError) -> list[Decoded | BeamwrightError]:
        """The same of a call that failed; raises what would fail every other call, too."""
        if _answers.fails_every_call(error):
            raise error
        errors = iter(_answers.errors_of_sources(error, len(self.request.sources)))
        answers: list[Decoded | BeamwrightError] = []
        for place, source in enumerate(self._sources):
            if isinstance(source, BeamwrightError):
                answers.append(source)
                continue
            of_source = next(errors)
            of_source.index = self._first + place
            answers.append(of_source)
        return answers


class Again(NamedTuple):
    """Sources of a call that are sent once more."""

    batch: Batch
    places: list[int]
    """Theirs among the sources of the call."""
    wait: float
    """Seconds, as the server asks for."""
    first: int

    def put(self, answers: list[Decoded | BeamwrightError], found: list[Decoded | BeamwrightError]) -> None:
        """What became of them, in the places of what they were refused with."""
        for place, answer in zip(self.places, found, strict=True):
            if isinstance(answer, RpcError):
                answer.index = self.first + place
            answers[place] = answer


class Progress:
    """A bar of tqdm's, or nothing."""

    def __init__(self, shown: bool, sources: Any) -> None:
        self._bar: Any = None
        if not shown:
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            warnings.warn("progress=True shows nothing without tqdm: pip install tqdm", stacklevel=4)
            return
        total = len(sources) if hasattr(sources, "__len__") else None
        self._bar = tqdm(total=total, unit="source")

    def step(self) -> None:
        """Counts an answer."""
        if self._bar is not None:
            self._bar.update(1)

    def close(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.close()


class Nothing:
    """Stands for the call of a batch none of whose sources can be sent."""

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return _wire.DecodeResponse()

    def __await__(self) -> Generator[Any, None, Any]:
        return self.result()
        yield  # a generator, as `await` wants it

    def cancel(self) -> None:
        pass


async def aiterate(sources: Any) -> AsyncIterator[Any]:
    """Any iterable as an asynchronous one."""
    if hasattr(sources, "__aiter__"):
        async for source in sources:
            yield source
        return
    for source in sources:
        yield source
