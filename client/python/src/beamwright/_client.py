"""The client for threads; made by generate.py from _aio.py: do not edit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import grpc

from . import _answers, _bulk, _calls, _recognize, _wire
from ._base import BaseClient
from ._calls import check_process, seconds
from ._connection import Connection, Settings
from ._errors import BeamwrightError, Code, RpcError, make_error
from ._in_order import handed_out, in_order
from ._options import DECODE_OPTIONS, SCORE_OPTIONS
from ._requests import set_source_or_prompt
from ._retries import StreamTries
from ._types import (
    Alignment,
    Decoded,
    Health,
    ModelDescription,
    ModelSummary,
    Recognition,
    RecognizeUpdate,
    Scored,
    SourceLike,
    StreamUpdate,
    TargetLike,
    Translation,
)

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from ._options import DecodeOptions, ScoreOptions


class DecodeStream(Iterator[StreamUpdate]):
    """The messages of a stream as they come; the last one has the answer. Closing it ends the call."""

    def __init__(
        self,
        start: Callable[[float | None], Any],
        source: str | None,
        settings: Settings,
        timeout: float | None,
    ) -> None:
        self._tries = StreamTries(settings, timeout)
        self._start = start
        self._call = start(timeout)
        self._messages = iter(self._call)
        self._source = source
        self._settings = settings
        self._process = os.getpid()
        self._result: Decoded | None = None

    def __next__(self) -> StreamUpdate:
        check_process(self._process)
        while True:
            try:
                message = next(self._messages)
                break
            except grpc.RpcError as error:
                failure = self._settings.error_of(error)
                wait = self._tries.wait(failure)
                if wait is None:
                    raise failure from None
            time.sleep(wait)
            if self._tries.over:  # closed meanwhile
                raise failure
            self._call = self._start(self._tries.left())
            self._messages = iter(self._call)
        self._tries.end()
        update = _answers.stream_update(message, self._source)
        self._result = update.result or self._result
        return update

    def result(self) -> Decoded:
        """The whole answer; reads what is left of the stream."""
        for _ in self:
            pass
        if self._result is None:
            raise make_error(Code.INTERNAL, "the stream ended without an answer")
        return self._result

    def close(self) -> None:
        """Ends the call, if it is under way."""
        self._tries.end()
        self._call.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RecognizeStream(Iterator[RecognizeUpdate]):
    """The messages of a recognition as they come. Closing it ends the call."""

    def __init__(self, call: Any, requests: _recognize.Kept, settings: Settings) -> None:
        self._call = call
        self._messages = iter(call)
        self._requests = requests
        self._settings = settings
        self._process = os.getpid()
        self._gathered = _recognize.Gathered()

    def __next__(self) -> RecognizeUpdate:
        check_process(self._process)
        try:
            return self._gathered.take(next(self._messages))
        except grpc.RpcError as error:
            raise self._requests.failure(error, self._settings) from None

    def result(self) -> Recognition:
        """All segments; reads what is left of the stream."""
        for _ in self:
            pass
        return self._gathered.result()

    def close(self) -> None:
        """Ends the call, if it is under way."""
        self._call.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client(BaseClient):
    """A client of a Beamwright server, for any number of threads.

    Its arguments: help(beamwright.Client.__init__). Close it, or use it in a with statement.
    """

    _connection: Connection

    def _connect(self) -> Connection:
        return Connection(self._settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the calls that are under way; calls from here on raise ClientClosedError."""
        self._connection.close()

    @_calls.with_options(DECODE_OPTIONS)
    def decode(
        self,
        source: SourceLike | None = None,
        *,
        prompt: TargetLike | None = None,
        state: bytes | None = None,
        model: str | None = None,
        version: str | int | None = None,
        timeout: float | None = None,
        **options: Unpack[DecodeOptions],
    ) -> Decoded:
        """Decodes one source.

        Args:
            source: Text; token ids; an array: whole numbers of one axis are ids, any other is
                features [length, ...]; Features; Picture; WithInputs; or DecoderInputs.
            prompt: In the source's place, of a model without an encoder: text or token ids that the
                answers go on from; "" to begin anew.
            state: With a prompt: the `state` of an earlier answer (`return_state`), behind which the
                prompt is read.
            model: The model's name.
            version: Its version or a label.
            timeout: Seconds.
            **options: What is left out, or None, is as the model says.

        Raises:
            InvalidArgumentError: An option or the source is wrong; `violations` names the fields.
            NotFoundError: There is no such model.
            ResourceExhaustedError: The server is full, or the source too large for it.
            UnavailableError: No server answers.
            DeadlineExceededError: The time was up.
        """
        request = self._decode_request("decode", model, version, options)
        text = set_source_or_prompt(request.sources.add(), request.options, source, prompt, state)
        response = self._call(_wire.DECODE, request, timeout)
        return _answers.decoded(_answers.only(response, "decoded"), text, response)

    @overload
    def decode_many(
        self,
        sources: Iterable[SourceLike],
        *,
        model: str | None = None,
        version: str | int | None = None,
        timeout: float | None = None,
        batch_size: int = _bulk.BATCH_SIZE,
        max_in_flight: int = _bulk.MAX_IN_FLIGHT,
        on_error: Literal["raise"] = "raise",
        progress: bool = False,
        **options: Unpack[DecodeOptions],
    ) -> Iterator[Decoded]: ...
    @overload
    def decode_many(
        self,
        sources: Iterable[SourceLike],
        *,
        model: str | None = None,
        version: str | int | None = None,
        timeout: float | None = None,
        batch_size: int = _bulk.BATCH_SIZE,
        max_in_flight: int = _bulk.MAX_IN_FLIGHT,
        on_error: Literal["return"],
        progress: bool = False,
        **options: Unpack[DecodeOptions],
    ) -> Iterator[Decoded | BeamwrightError]: ...
    @_calls.with_options(DECODE_OPTIONS)
    def decode_many(
        self,
        sources: Iterable[SourceLike],
        *,
        model: str | None = None,
        version: str | int | None = None,
        timeout: float | None = None,
        batch_size: int = _bulk.BATCH_SIZE,
        max_in_flight: int = _bulk.MAX_IN_FLIGHT,
        on_error: Literal["raise", "return"] = "raise",
        progress: bool = False,
        **options: Unpack[DecodeOptions],
    ) -> Iterator[Decoded] | Iterator[Decoded | BeamwrightError]:
        """Decodes any number of sources; answers come in their order.

        Sources are taken as they are needed: at most batch_size * max_in_flight of them ahead of
        the answer that is waited for. Each is answered on its own, so that one that fails does not
        concern the others. A fault of every call (an unknown model, no server) ends the iteration
        in any case.

        Args:
            sources: Any iterable; of each element the same as for decode.
            model: The model's name.
            version: Its version or a label.
            timeout: Seconds for each call, from when it is sent.
            batch_size: Sources of a call, 1 to 4096; a call of more than 1 MiB is sent earlier.
                With 1, and max_in_flight 1, each source is answered before the next is taken.
            max_in_flight: Calls under way at the same time, 1 to 256.
            on_error: "raise": the first source that fails ends the iteration, with its `index` in
                the exception. "return": the exception replaces its answer.
            progress: Show a bar, if tqdm is installed.
            **options: As for decode.
        """
        _calls.check_sources(sources)
        _calls.check_bulk(batch_size, max_in_flight, on_error)
        request = self._decode_request("decode_many", model, version, options)
        seconds(timeout, self._settings.timeout)
        answers = in_order(
            iter(sources),
            request,
            batch_size,
            max_in_flight,
            start=lambda batch: self._start(batch, timeout),
            answers_of=lambda batch: self._answers_of(batch, timeout),
        )
        return handed_out(answers, on_error, _bulk.Progress(progress, sources))

    def _start(self, batch: _bulk.Batch, timeout: float | None) -> Any:
        return self._connection.begin(_wire.DECODE, batch.request, seconds(timeout, self._settings.timeout))

    def _answers_of(self, batch: _bulk.Batch, timeout: float | None) -> list[Decoded | BeamwrightError]:
        answers = self._answers_of_call(batch)
        longest = seconds(timeout, self._settings.timeout)
        for _ in range(self._settings.max_attempts - 1):
            again = batch.again(answers, self._settings.retried_codes, longest)
            if again is None:
                break
            time.sleep(again.wait)
            again.batch.call = self._start(again.batch, timeout)
            again.put(answers, self._answers_of_call(again.batch))
        return answers

    def _answers_of_call(self, batch: _bulk.Batch) -> list[Decoded | BeamwrightError]:
        try:
            response = self._connection.finish(batch.call)
        except RpcError as error:
            return batch.failures(error)
        return batch.answers(response)

    @_calls.with_options(DECODE_OPTIONS)
    def stream(
        self,
        source: SourceLike | None = None,
        *,
        prompt: TargetLike | None = None,
        state: bytes | None = None,
        provisional: bool = False,
        model: str | None = None,
        version: str | int | None = None,
        timeout: float | None = None,
        **options: Unpack[DecodeOptions],
    ) -> DecodeStream:
        """Decodes one source and reports, while the search runs, which tokens can no longer change.

        Args:
            source: As for decode.
            prompt: As for decode.
            state: As for decode.
            provisional: Also report the best hypothesis so far, which may change.
            model: The model's name.
            version: Its version or a label.
            timeout: Seconds, for all of it.
            **options: As for decode.

        Returns:
            An iterator over messages, the last of which has the answer; `result()` reads them all.
        """
        request = self._decode_request("stream", model, version, options, _wire.StreamDecodeRequest())
        request.provisional = bool(provisional)
        text = set_source_or_prompt(request.source, request.options, source, prompt, state)

        def start(left: float | None) -> Any:
            return self._connection.stub(_wire.STREAM_DECODE)(
                request, timeout=left, metadata=self._settings.metadata
            )

        return DecodeStream(start, text, self._settings, seconds(timeout, self._settings.timeout))

    @_calls.with_options(DECODE_OPTIONS)
    def recognize(
        self,
        source: Any,
        *,
        sample_rate: int | None = None,
        endpoint: Mapping[str, int] | bool = False,
        provisional: bool = False,
        language: str = "",
        model: str | None = None,
        version: str | int | None = None,
        timeout: float | None = None,
        **options: Unpack[DecodeOptions],
    ) -> RecognizeStream:
        """Recognises sound, or frames, while they are sent.

        Args:
            source: The path of a recording; an array of samples, int16 or floats up to 1; Features;
                or an iterable of such arrays or Features, which are sent as they come.
            sample_rate: Samples a second, of arrays; 16000 if not given.
            endpoint: True ends segments at pauses; a mapping says when: silence_ms, pause_ms, max_segment_ms.
            provisional: Also report the best hypothesis so far, which may change.
            language: What Whisper or Canary hears, such as "de"; "auto": Whisper hears it.
            model: The model's name.
            version: Its version or a label.
            timeout: Seconds, for all of it.
            **options: As for decode.

        Returns:
            An iterator over messages; `result()` reads them all and has the segments.
        """
        config = self._decode_request("recognize", model, version, options, _wire.RecognizeConfig())
        config.language = language
        requests = _recognize.Kept(
            _recognize.requests_of(source, _recognize.Pieces(sample_rate), config, endpoint, provisional)
        )
        call = self._connection.stub(_wire.RECOGNIZE)(
            iter(requests),
            timeout=seconds(timeout, self._settings.timeout),
            metadata=self._settings.metadata,
        )
        return RecognizeStream(call, requests, self._settings)

    @_calls.with_options(DECODE_OPTIONS)
    def transcribe(
        self,
        source: Any,
        *,
        sample_rate: int | None = None,
        endpoint: Mapping[str, int] | bool = False,
        language: str = "",
        model: str | None = None,
        version: str | int | None = None,
        timeout: float | None = None,
        **options: Unpack[DecodeOptions],
    ) -> Recognition:
        """Recognises a recording and waits for all of it.

        Args:
            source: As for recognize.
            sample_rate: Samples a second, of arrays; 16000 if not given.
            endpoint: As for recognize: long recordings become segments.
            language: As for recognize.
            model: The model's name.
            version: Its version or a label.
            timeout: Seconds, for all of it.
            **options: As for decode.

        Returns:
            The source's segments; `text` is that of all of them.
        """
        return self.recognize(
            source,
            sample_rate=sample_rate,
            endpoint=endpoint,
            language=language,
            model=model,
            version=version,
            timeout=timeout,
            **options,
        ).result()

    @_calls.with_options(SCORE_OPTIONS)
    def score(
        self,
        source: SourceLike,
        *targets: TargetLike,
        model: str | None = None,
        version: str | int | None = None,
        timeout: float | None = None,
        **options: Unpack[ScoreOptions],
    ) -> Scored:
        """Scores given targets of a source: to the bit what a search reports for them.

        Args:
            source: As for decode.
            *targets: 1 to 256 of them, as text or token ids.
            model: The model's name.
            version: Its version or a label.
            timeout: Seconds.
            **options: What is left out, or None, is as the model says.
        """
        request, text = _calls.score_request(
            source, targets, model or self._model, self._version_of(version), options
        )
        response = self._call(_wire.SCORE, request, timeout)
        return _answers.scored(_answers.only(response, "scored"), text, response)

    def align(
        self,
        source: SourceLike,
        target: TargetLike,
        *,
        soft: bool = False,
        model: str | None = None,
        version: str | int | None = None,
        timeout: float | None = None,
    ) -> Alignment:
        """Returns the source position of each token of a target, by the model's attention.

        Args:
            source: As for decode.
            target: Text or token ids, without end token.
            soft: Return all weights as well.
            model: The model's name.
            version: Its version or a label.
            timeout: Seconds.

        Raises:
            InvalidArgumentError: The model has no attention, or source or target are wrong.
        """
        request, source_text, target_text = _calls.align_request(
            source, target, soft, model or self._model, self._version_of(version)
        )
        response = self._call(_wire.ALIGN, request, timeout)
        return _answers.aligned(_answers.only(response, "alignment"), source_text, target_text, response)

    @overload
    def translate(
        self,
        texts: str,
        *,
        source: str,
        target: str,
        alternatives: int = 0,
        text_format: Literal["plain", "html", "xml", "srt", "vtt", "po"] = "plain",
        glossary: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Translation: ...
    @overload
    def translate(
        self,
        texts: list[str] | tuple[str, ...],
        *,
        source: str,
        target: str,
        alternatives: int = 0,
        text_format: Literal["plain", "html", "xml", "srt", "vtt", "po"] = "plain",
        glossary: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> list[Translation]: ...
    def translate(
        self,
        texts: str | Iterable[str],
        *,
        source: str,
        target: str,
        alternatives: int = 0,
        text_format: Literal["plain", "html", "xml", "srt", "vtt", "po"] = "plain",
        glossary: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Translation | list[Translation]:
        """Translates a text, or a list of texts, by the server's translation models.

        Args:
            texts: A text, whose translation is returned, or texts, for a list of translations. Lines
                and white space are kept.
            source: The texts' language, as a BCP 47 tag, or "auto": it is found out.
            target: The language to translate to.
            alternatives: Further translations of each text, 0 to 16.
            text_format: What of a text is translated; markup is carried over.
            glossary: Terms and their translations, for languages with a direct model.
            timeout: Seconds.

        Raises:
            InvalidArgumentError: There is no such language, or no model for the two.
        """
        request = _calls.translate_request(
            texts, source, target, alternatives=alternatives, text_format=text_format, glossary=glossary
        )
        answers = _answers.translations(self._call(_wire.TRANSLATE, request, timeout))
        return answers[0] if isinstance(texts, str) else answers

    def translate_document(
        self,
        document: bytes,
        *,
        source: str,
        target: str,
        document_format: Literal["docx", "odt"],
        glossary: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """Translates an office file, which keeps its formats, pictures and all else that is no text.

        Args:
            document: The file.
            source: Its language, as a BCP 47 tag, or "auto": it is found out.
            target: The language to translate to.
            document_format: What kind of file it is.
            glossary: As for translate.
            timeout: Seconds.

        Raises:
            InvalidArgumentError: It is no such file, or there is no model for the two languages.
        """
        request = _calls.document_request(
            document, source, target, document_format=document_format, glossary=glossary
        )
        response = self._call(_wire.TRANSLATE, request, timeout)
        return bytes(response.document)

    def models(self, *, timeout: float | None = None) -> tuple[ModelSummary, ...]:
        """The models that are served, and those that load."""
        response = self._call(_wire.LIST_MODELS, _wire.ListModelsRequest(), timeout)
        return tuple(map(_answers.model_summary, response.models))

    def describe(
        self,
        model: str | None = None,
        *,
        version: str | int | None = None,
        timeout: float | None = None,
    ) -> ModelDescription:
        """The server's description of a model: state, vocabularies, inputs, configuration."""
        request = _calls.describe_request(model or self._model, self._version_of(version))
        return _answers.model_description(self._call(_wire.DESCRIBE_MODEL, request, timeout))

    def health(self, service: str = "", *, timeout: float | None = None) -> Health:
        """Health of the server, or of one service by its full name; NotFoundError without such a one."""
        request = _wire.HealthCheckRequest(service=service)
        return _answers.health(self._call(_wire.HEALTH, request, timeout))

    def _call(self, method: _wire.Method, request: Any, timeout: float | None) -> Any:
        return self._connection.call(method, request, seconds(timeout, self._settings.timeout))
