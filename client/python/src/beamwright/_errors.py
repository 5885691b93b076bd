"""What goes wrong, as exceptions."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Code(enum.IntEnum):
    """Status codes, as gRPC numbers them."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


_NUMBER = r"(-?[\d.]+(?:e[-+]?\d+)?)"
_RANGE = re.compile(rf"(?:outside|allowed is) \[{_NUMBER}, {_NUMBER}([\])])")
_MINIMUM = re.compile(rf"is below {_NUMBER}")
_MAXIMUM = re.compile(rf"is above {_NUMBER}|limit of {_NUMBER}|at most {_NUMBER}")


class FieldViolation(NamedTuple):
    """A field of a request that is wrong."""

    field: str
    """Its path in the request, as `options.beam_size` or `sources[2].ids[0]`."""
    description: str
    """What is wrong with it, and what is allowed."""

    @property
    def minimum(self) -> float | None:
        """The smallest value allowed, where the description names one."""
        return self._bound(_MINIMUM, 0)

    @property
    def maximum(self) -> float | None:
        """The largest value allowed, where the description names one."""
        return self._bound(_MAXIMUM, 1)

    def _bound(self, alone: re.Pattern[str], side: int) -> float | None:
        if found := _RANGE.search(self.description):
            # Open ranges are of whole numbers: "outside [0, 30)".
            return float(found[1 + side]) - (side if found[3] == ")" else 0)
        if found := alone.search(self.description):
            return float(next(bound for bound in found.groups() if bound is not None))
        return None


class BeamwrightError(Exception):
    """Everything that this package raises on its own account."""


class ArgumentTypeError(BeamwrightError, TypeError):
    """An argument is of a type that makes no sense there. Nothing was sent."""


class ClientClosedError(BeamwrightError, RuntimeError):
    """A client, or a model, was used after it was closed."""


class ForkError(BeamwrightError, RuntimeError):
    """A client, or a model, was used in a process that was forked from one in which its threads ran."""


class EngineError(BeamwrightError):
    """The library for decoding in process is not there, or not the one that this package needs."""


class ExportError(BeamwrightError):
    """No bundle could be made of a model, or the bundle answers otherwise than the model."""


class ServerError(BeamwrightError):
    """The server program could not be found, did not start, or ended."""

    log: str
    """The end of what it wrote."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message, log)
        self.message = message
        self.log = log

    def __str__(self) -> str:
        return f"{self.message}\n{self.log}".rstrip()


class RpcError(BeamwrightError):
    """A call, or one source of it, failed.

    Each code has a separate class where a program may want to act on it; all others are plain
    `RpcError`.
    """

    code: Code
    message: str
    """What the server, or gRPC, says."""
    reason: str
    """One word for programs, as QUEUE_FULL; docs/operations.md lists them. Empty without one."""
    metadata: Mapping[str, str]
    """What belongs to the reason, as `needed_bytes`."""
    violations: Sequence[FieldViolation]
    """The fields that are wrong, where the server names them."""
    retry_after: float | None
    """Seconds after which trying again makes sense, by what the server says."""
    index: int | None
    """The source that failed, counted from 0 in the order given; None: the call as a whole."""
    source_errors: Mapping[int, RpcError]
    """Of a call that failed because each of its sources did: their errors by index."""
    # Set where the server reports sources, even if it had no room for any of their errors.
    _of_sources: bool = False

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[FieldViolation] = (),
        retry_after: float | None = None,
        index: int | None = None,
        source_errors: Mapping[int, RpcError] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.retry_after = retry_after
        self.index = index
        self.source_errors = dict(source_errors or {})

    def __str__(self) -> str:
        source = "" if self.index is None else f"source {self.index}: "
        return f"{source}{self.code.name}: {self.message}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @property
    def fields(self) -> tuple[str, ...]:
        """The paths of the fields that are wrong."""
        return tuple(violation.field for violation in self.violations)

    def __reduce__(self) -> Any:  # `code` and what is named go through pickle, too
        return _rebuild, (int(self.code), self.message, dict(self.__dict__))


def _rebuild(code: int, message: str, state: dict[str, Any]) -> RpcError:
    error = make_error(code, message)
    error.__dict__.update(state)
    return error


class InvalidArgumentError(RpcError, ValueError):
    """The request is wrong; `violations` says which fields. Sent by the server, or found here."""


class NotFoundError(RpcError, LookupError):
    """There is no such model or version."""


class FailedPreconditionError(RpcError):
    """Nothing is left that the search may choose, or the server is not set up for what was asked."""


class UnauthenticatedError(RpcError):
    """No credentials, or wrong ones."""


class PermissionDeniedError(RpcError):
    """The credentials lack the role for this call."""


class ResourceExhaustedError(RpcError):
    """The server is full (`retry_after` is set), or the request never fits (it is None)."""


class UnavailableError(RpcError):
    """No server answers, or it is loading or leaving. The client has tried again already."""


class DeadlineExceededError(RpcError, TimeoutError):
    """The answer did not come within the timeout."""


class CallCancelledError(RpcError):
    """The call was cancelled."""


class UnimplementedError(RpcError):
    """The server does not know this call: it is another program, or an older version."""


class InternalError(RpcError):
    """A fault of the model or of the server."""


_CLASSES: Mapping[Code, type[RpcError]] = {
    Code.CANCELLED: CallCancelledError,
    Code.INVALID_ARGUMENT: InvalidArgumentError,
    Code.DEADLINE_EXCEEDED: DeadlineExceededError,
    Code.NOT_FOUND: NotFoundError,
    Code.PERMISSION_DENIED: PermissionDeniedError,
    Code.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    Code.FAILED_PRECONDITION: FailedPreconditionError,
    Code.UNIMPLEMENTED: UnimplementedError,
    Code.INTERNAL: InternalError,
    Code.UNAVAILABLE: UnavailableError,
    Code.UNAUTHENTICATED: UnauthenticatedError,
}


def make_error(code: int, message: str, **details: Any) -> RpcError:
    """The exception for a code; one that is not known is UNKNOWN."""
    try:
        known = Code(code)
    except ValueError:
        known = Code.UNKNOWN
    return _CLASSES.get(known, RpcError)(known, message, **details)


def invalid(field: str, description: str, index: int | None = None) -> InvalidArgumentError:
    """An error of a value that was found before anything was sent."""
    return InvalidArgumentError(
        Code.INVALID_ARGUMENT,
        f"{field}: {description}",
        reason="INVALID_REQUEST",
        violations=[FieldViolation(field, description)],
        index=index,
    )
