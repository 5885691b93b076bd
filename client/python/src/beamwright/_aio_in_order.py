"""Calls of asyncio, answered in the order of their sources."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

from ._bulk import Batch, Nothing, Progress
from ._calls import check_process
from ._errors import BeamwrightError
from ._types import Decoded


async def in_order(
    sources: AsyncIterator[Any],
    template: Any,
    size: int,
    most: int,
    *,
    start: Callable[[Batch], Any],
    answers_of: Callable[[Batch], Awaitable[list[Decoded | BeamwrightError]]],
) -> AsyncGenerator[Decoded | BeamwrightError, None]:
    """Answers in the order of their sources, with a limited number of batches under way.

    `start` begins the call of a batch and returns a future of it, which `answers_of` waits for.
    """
    process = os.getpid()
    under_way: deque[Batch] = deque()
    taken = 0
    more = True
    try:
        while more or under_way:
            while more and len(under_way) < most and not (under_way and under_way[0].call.done()):
                batch = Batch(template, taken)
                while not batch.is_full(size):
                    try:
                        batch.add(await anext(sources))
                    except StopAsyncIteration:
                        more = False
                        break
                taken += len(batch)
                if len(batch):
                    batch.call = start(batch) if batch.request.sources else Nothing()
                    under_way.append(batch)
            if under_way:
                answers = await answers_of(under_way[0])
                under_way.popleft()
                for answer in answers:
                    yield answer
    finally:
        if os.getpid() == process:  # in a forked process their locks may be held for ever
            for batch in under_way:
                batch.call.cancel()


async def handed_out(
    answers: AsyncGenerator[Decoded | BeamwrightError, None], on_error: str, progress: Progress
) -> AsyncIterator[Any]:
    """The answers, or the first exception among them raised; in this process alone."""
    process = os.getpid()
    try:
        async for answer in answers:
            if on_error == "raise" and isinstance(answer, BeamwrightError):
                raise answer
            progress.step()
            yield answer
            check_process(process)
    finally:
        progress.close()
        if os.getpid() == process:
            await answers.aclose()
