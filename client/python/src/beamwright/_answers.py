"""Answers of the server into the package's types, and its errors into exceptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from . import _wire
from ._errors import BeamwrightError, Code, FieldViolation, RpcError, make_error
from ._types import (
    Alignment,
    Decoded,
    FinishReason,
    Health,
    Hypothesis,
    LatticeStep,
    MemberPart,
    ModelDescription,
    ModelSummary,
    Scored,
    ScoredTarget,
    ScorerPart,
    StableTokens,
    Streaming,
    StreamUpdate,
    TensorInfo,
    TopTokens,
    Translation,
    Word,
)

_FINISH_REASONS = (
    FinishReason.UNSPECIFIED,
    FinishReason.EOS,
    FinishReason.LENGTH,
    FinishReason.DEADLINE,
    FinishReason.SHUTDOWN,
    FinishReason.END_OF_SOURCE,
    FinishReason.STOP,
)
# One range of sources with a reported error; a call has no further ones.
_MOST_SOURCES = 1 << 16
_HEALTH = (Health.UNKNOWN, Health.SERVING, Health.NOT_SERVING, Health.SERVICE_UNKNOWN)


def _matrix(message: Any) -> Any:
    import numpy as np

    matrix = np.array(message.values, dtype=np.float32).reshape(message.rows, message.columns)
    matrix.flags.writeable = False
    return matrix


def word(message: Any) -> Word:
    """Of a message Word."""
    return Word(
        message.text,
        message.begin_ms if message.HasField("begin_ms") else None,
        message.end_ms if message.HasField("end_ms") else None,
        message.confidence,
        message.posterior if message.HasField("posterior") else None,
        message.first_token,
        message.num_tokens,
    )


def hypothesis(message: Any) -> Hypothesis:
    """Of a message Hypothesis."""
    reason = message.finish_reason
    return Hypothesis(
        message.text,
        tuple(message.tokens),
        tuple(message.token_log_probs),
        message.log_prob,
        message.score,
        _FINISH_REASONS[reason] if reason < len(_FINISH_REASONS) else FinishReason.UNSPECIFIED,
        message.prefix_length,
        message.prefix_log_prob,
        message.reward,
        message.coverage,
        tuple(message.alignment),
        _matrix(message.attention) if message.HasField("attention") else None,
        tuple(TopTokens(tuple(top.tokens), tuple(top.log_probs)) for top in message.top_tokens),
        tuple(ScorerPart(part.name, part.weight, part.log_prob) for part in message.scorer_parts),
        tuple(MemberPart(part.weight, part.log_prob) for part in message.member_parts),
        tuple(message.token_frames),
        tuple(message.token_durations),
        message.alignment_log_prob,
        message.full_log_prob if message.HasField("full_log_prob") else None,
        tuple(map(word, message.words)),
    )


def decoded(message: Any, source: str | None, response: Any) -> Decoded:
    """Of a message Decoded, and its response."""
    return Decoded(
        tuple(map(hypothesis, message.hypotheses)),
        source,
        message.source_length,
        message.steps,
        tuple(message.unknown_positions),
        tuple(
            LatticeStep(tuple(step.parents), tuple(step.tokens), tuple(step.log_probs), step.num_live)
            for step in message.lattice.steps
        )
        if message.HasField("lattice")
        else (),
        message.queue_ms,
        message.compute_ms,
        message.first_token_ms,
        response.model,
        response.version,
        response.numerics,
        message.state,
        message.cached_prefix_length,
    )


def stream_update(message: Any, source: str | None) -> StreamUpdate:
    """Of a message StreamDecodeResponse."""
    return StreamUpdate(
        tuple(
            StableTokens(tuple(stable.tokens), stable.position, stable.text, stable.sample)
            for stable in message.stable
        ),
        hypothesis(message.provisional) if message.HasField("provisional") else None,
        decoded(message.decoded, source, message) if message.HasField("decoded") else None,
    )


def scored(message: Any, source: str | None, response: Any) -> Scored:
    """Of a message Scored, and its response."""
    return Scored(
        tuple(ScoredTarget(hypothesis(one.hypothesis), one.perplexity) for one in message.targets),
        source,
        message.source_length,
        tuple(message.unknown_positions),
        message.queue_ms,
        message.compute_ms,
        response.model,
        response.version,
        response.numerics,
    )


def translations(response: Any) -> list[Translation]:
    """Of a TranslateResponse."""
    return [
        Translation(
            one.text,
            tuple(one.alternatives),
            one.source_language or response.source_language,
            response.target_language,
        )
        for one in response.translations
    ]


def aligned(message: Any, source: str | None, target: str | None, response: Any) -> Alignment:
    """Of a message Alignment, and its response."""
    return Alignment(
        tuple(message.tokens),
        tuple(message.positions),
        _matrix(message.attention) if message.HasField("attention") else None,
        source,
        target,
        message.source_length,
        response.model,
        response.version,
        response.numerics,
    )


def model_summary(message: Any) -> ModelSummary:
    """Of a message ModelSummary."""
    return ModelSummary(
        message.name,
        message.version,
        message.description,
        message.ready,
        message.reason,
        tuple(message.labels),
        message.not_in_memory,
    )


def _tensor_info(message: Any) -> TensorInfo:
    return TensorInfo(message.name, message.dtype, tuple(message.shape), message.has_default)


def _streaming(message: Any) -> Streaming:
    return Streaming(
        message.chunk,
        message.shift,
        message.frames,
        message.look_ahead,
        message.chunk_ms,
        message.shift_ms,
        message.look_ahead_ms,
        message.state_bytes,
    )


def model_description(message: Any) -> ModelDescription:
    """Of a message ModelDescription."""
    from google.protobuf import json_format

    has_encoder = message.HasField("encoder_input")
    return ModelDescription(
        model_summary(message.summary),
        message.numerics,
        message.source_vocabulary_size,
        message.target_vocabulary_size,
        _tensor_info(message.encoder_input) if has_encoder else None,
        tuple(map(_tensor_info, message.memory)),
        tuple(map(_tensor_info, message.states)),
        message.encoder_batching.together if message.HasField("encoder_batching") else None,
        message.step_batching.together if message.HasField("step_batching") else None,
        message.source_length_axis,
        json_format.MessageToDict(message.config, preserving_proto_field_name=True),
        tuple(map(_tensor_info, message.further_inputs)),
        _streaming(message.streaming) if message.HasField("streaming") else None,
        message.length_batching.together if message.HasField("length_batching") else None,
    )


def health(message: Any) -> Health:
    """Of a message HealthCheckResponse."""
    return _HEALTH[message.status] if message.status < len(_HEALTH) else Health.UNKNOWN


def result_of(result: Any, outcome: str) -> Any:
    """The answer in a result, or an exception that the server gave for it or that it deserves."""
    if result.HasField(outcome):
        return getattr(result, outcome)
    if result.HasField("error"):
        return error_of_status(result.error)
    return make_error(Code.INTERNAL, "the server's result is neither an answer nor an error")


def only(response: Any, outcome: str) -> Any:
    """The answer to the one source of a call; raises what it failed with."""
    if len(response.results) != 1:
        raise make_error(Code.INTERNAL, f"the server gave {len(response.results)} results for one source")
    result = result_of(response.results[0], outcome)
    if isinstance(result, RpcError):
        raise result
    return result


def _detail(status: Any, kind: Any) -> Any:
    """The detail of a google.rpc.Status that is of a message type, or None."""
    for detail in status.details:
        if detail.type_url.rpartition("/")[2] == kind.DESCRIPTOR.full_name:
            try:
                return kind.FromString(detail.value)
            except Exception:  # what cannot be read is not there
                return None
    return None


def error_of_status(status: Any, index: int | None = None) -> RpcError:
    """The exception for a google.rpc.Status."""
    info = _detail(status, _wire.ErrorInfo)
    wait = _detail(status, _wire.RetryInfo)
    fields = _detail(status, _wire.BadRequest)
    error = make_error(
        status.code,
        status.message,
        reason=info.reason if info else "",
        metadata=dict(info.metadata) if info else {},
        retry_after=wait.retry_delay.seconds + wait.retry_delay.nanos / 1e9 if wait else None,
        violations=[FieldViolation(one.field, one.description) for one in fields.field_violations]
        if fields
        else (),
        index=index,
    )
    of_sources = _detail(status, _wire.SourceErrors)
    if of_sources is not None:
        error.source_errors = {
            place: error_of_status(one.error, place)
            if one.HasField("error")
            else make_error(
                status.code,
                status.message,
                reason=error.reason,
                metadata=error.metadata,
                retry_after=error.retry_after,
                violations=error.violations,
                index=place,
            )
            for one in of_sources.errors
            for part in one.sources
            for place in range(part.first, part.first + min(part.count, _MOST_SOURCES))
        }
        error._of_sources = True  # also where the server had no room for one of them
    return error


def error_of_call(
    code: int, message: str | None, trailers: Iterable[tuple[str, Any]] | None, address: str
) -> RpcError:
    """The exception for a call that failed."""
    for key, value in trailers or ():
        if key == "grpc-status-details-bin":
            try:
                status = _wire.Status.FromString(value)
            except Exception:  # a proxy's, perhaps
                break
            if status.code == code:
                return error_of_status(status)
    text = message or ""
    if code == Code.UNAVAILABLE:
        text = _why_unreachable(text, address)
    elif code == Code.DEADLINE_EXCEEDED:
        text = f"no answer from {address} within the timeout ({text})"
    return make_error(code, text)


def _why_unreachable(text: str, address: str) -> str:
    """What gRPC says of a connection, with what to look at; any other text as it is."""
    low = text.lower()
    if "handshake" in low:
        return (
            f"TLS with {address} failed ({text}); does the server speak TLS, and are tls_ca, tls_cert and "
            "tls_server_name the right ones?"
        )
    if "parsing http/2" in low or "http1" in low:
        return f"no gRPC is spoken at {address} ({text}); is this the port of HTTP?"
    if "resolution failed" in low or "errors resolving" in low:
        return f"the host of {address} is not known ({text})"
    if "connect" in low or "socket closed" in low:
        return (
            f"no server answers at {address} ({text}); is it running, is this its port of gRPC, and does it "
            "speak TLS?"
        )
    return text


def fails_every_call(error: BeamwrightError) -> bool:
    """Whether a call that failed with this would fail for any other sources too."""
    if not isinstance(error, RpcError):
        return True
    if error.code != Code.UNAVAILABLE and error._of_sources:
        return False
    return error.code in {
        Code.CANCELLED,
        Code.INVALID_ARGUMENT,
        Code.NOT_FOUND,
        Code.PERMISSION_DENIED,
        Code.UNAUTHENTICATED,
        Code.FAILED_PRECONDITION,
        Code.UNIMPLEMENTED,
        Code.UNAVAILABLE,
    }


def errors_of_sources(error: RpcError, count: int) -> Sequence[RpcError]:
    """The error of each source of a call that failed; the call's, where no other is known."""
    return [
        error.source_errors.get(place)
        or make_error(
            error.code,
            error.message,
            reason=error.reason,
            metadata=error.metadata,
            retry_after=error.retry_after,
            violations=error.violations,
        )
        for place in range(count)
    ]
