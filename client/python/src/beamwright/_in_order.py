"""Calls, answered in the order of their sources; made by generate.py from _aio_in_order.py: do not edit."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any

from ._bulk import Batch, Nothing, Progress
from ._calls import check_process
from ._errors import BeamwrightError
from ._types import Decoded


def in_order(
    sources: Iterator[Any],
    template: Any,
    size: int,
    most: int,
    *,
    start: Callable[[Batch], Any],
    answers_of: Callable[[Batch], list[Decoded | BeamwrightError]],
) -> Generator[Decoded | BeamwrightError, None]:
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
                        batch.add(next(sources))
                    except StopIteration:
                        more = False
                        break
                taken += len(batch)
                if len(batch):
                    batch.call = start(batch) if batch.request.sources else Nothing()
                    under_way.append(batch)
            if under_way:
                answers = answers_of(under_way[0])
                under_way.popleft()
                yield from answers
    finally:
        if os.getpid() == process:  # in a forked process their locks may be held for ever
            for batch in under_way:
                batch.call.cancel()


def handed_out(
    answers: Generator[Decoded | BeamwrightError, None], on_error: str, progress: Progress
) -> Iterator[Any]:
    """The answers, or the first exception among them raised; in this process alone."""
    process = os.getpid()
    try:
        for answer in answers:
            if on_error == "raise" and isinstance(answer, BeamwrightError):
                raise answer
            progress.step()
            yield answer
            check_process(process)
    finally:
        progress.close()
        if os.getpid() == process:
            answers.close()
