"""Which streams that failed are started again."""

from __future__ import annotations

import random
import time

from ._connection import Settings
from ._errors import Code, RpcError

_FIRST_WAIT = 0.05
_LONGEST_WAIT = 1.0


class StreamTries:
    """The tries of one stream. What fails before its first message may be tried again.

    gRPC retries calls of one answer by the channel's policy; why not streams, _connection.py says.
    """

    def __init__(self, settings: Settings, timeout: float | None) -> None:
        self._settings = settings
        self._made = 1
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self.over = False

    def end(self) -> None:
        """No further try: a message has come, or the stream was closed."""
        self.over = True

    def left(self) -> float | None:
        """Seconds that the next try may take; None is no limit."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def wait(self, error: RpcError) -> float | None:
        """Seconds until the next try after this failure; None: no further try."""
        full = error.code == Code.RESOURCE_EXHAUSTED
        if (
            self.over
            or self._made >= self._settings.max_attempts
            or error.code not in self._settings.retried_codes
            or (full and error.retry_after is None)  # never fits
        ):
            return None
        wait = error.retry_after
        if wait is None:
            wait = random.uniform(0.8, 1.2) * min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (self._made - 1))
        left = self.left()
        if left is not None and wait >= left:
            return None
        self._made += 1
        return wait
