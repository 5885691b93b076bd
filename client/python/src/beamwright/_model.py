"""A model in this process: the same calls and answers as a client's, without a server."""

from __future__ import annotations

import math
import os
import pathlib
import weakref
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _answers, _bulk, _calls, _programs, _wire
from ._engine import Handle
from ._errors import ArgumentTypeError, BeamwrightError, RpcError
from ._in_order import handed_out, in_order
from ._options import DECODE_OPTIONS, SCORE_OPTIONS
from ._requests import set_source_or_prompt
from ._types import Alignment, Decoded, ModelDescription, Scored, SourceLike, TargetLike

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._options import DecodeOptions, ScoreOptions

# Longer than anybody waits, and what C's int64 of milliseconds holds.
_LONGEST = 1e12


class Model:
    """A model that this process decodes with, for any number of threads.

    Answers are those of a server of the same version, bit for bit. Close it, or use it in a with statement.
    It needs libbeamwright.so. A process that is forked after a model was loaded gets a ForkError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        threads: int = 0,
        precision: Literal["f32", "bf16", "int8", "auto"] | None = None,
        max_rows: int = 0,
        timeout: float = math.inf,
        check: bool = True,
    ) -> None:
        """Loads the model.

        Args:
            path: A bundle, or the folder of a model, whose newest version is taken. "models/g2p-en", where
                there is no such folder, is the model of the installed package, if it brings one.
            threads: Threads that compute; 0: as many as this process may use.
            precision: How weights are kept (docs/numerics.md); None: as the bundle says.
            max_rows: Most hypotheses that are stepped together; 0: 1024. Callers beyond wait.
            timeout: Seconds that a call may take.
            check: Replay golden requests of the bundle first, as a server does; without it the model is loaded
                sooner.

        Raises:
            EngineError: The library is not installed.
            NotFoundError: There is no model at this path.
            InvalidArgumentError, FailedPreconditionError: The bundle is wrong; the message says where.
        """
        for name, value in (("threads", threads), ("max_rows", max_rows)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ArgumentTypeError(f"{name} is {value!r}; a whole number is expected")
        if precision is not None and not isinstance(precision, str):
            raise ArgumentTypeError(f"precision is {precision!r}; a name is expected")
        try:
            folder = pathlib.Path(path)
        except TypeError:
            raise ArgumentTypeError(f"path is {type(path).__name__}; a folder is expected") from None
        self._timeout = timeout
        self._timeout_ms(None)
        if not folder.exists():
            folder = _programs.model(folder) or folder
        self.path = folder
        self._handle = Handle(str(folder), threads, max_rows, precision, 0 if check else -1)
        self._end = weakref.finalize(self, self._handle.close)
        self._end.atexit = False  # threads of others may still decode then
        self._summary = self.describe()

    @property
    def name(self) -> str:
        """The model's name."""
        return self._summary.summary.name

    @property
    def version(self) -> str:
        """Its version."""
        return self._summary.summary.version

    @property
    def numerics(self) -> str:
        """The numerics class: answers of equal class are equal bit for bit."""
        return self._summary.numerics

    def __repr__(self) -> str:
        closed = ", closed" if self._handle.closed else ""
        return f"Model({self.name!r}, version {self.version}, {self.numerics}{closed})"

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(
            f"a model does not go to another process: load it there, beamwright.Model({str(self.path)!r})"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the model when the calls that are under way have ended; later ones raise ClientClosedError."""
        self._end()

    def describe(self) -> ModelDescription:
        """The model's description: vocabularies, inputs, configuration."""
        return _answers.model_description(self._handle.describe())

    @_calls.with_options(DECODE_OPTIONS)
    def decode(
        self,
        source: SourceLike | None = None,
        *,
        prompt: TargetLike | None = None,
        state: bytes | None = None,
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
            timeout: Seconds.
            **options: What is left out, or None, is as the model says.

        Raises:
            InvalidArgumentError: An option or the source is wrong; `violations` names the fields.
            DeadlineExceededError: The time was up.
        """
        request = _calls.decode_request("decode", None, None, options)
        text = set_source_or_prompt(request.sources.add(), request.options, source, prompt, state)
        response = self._call("decode", request, _wire.DecodeResponse, timeout)
        return _answers.decoded(_answers.only(response, "decoded"), text, response)

    @overload
    def decode_many(
        self,
        sources: Iterable[SourceLike],
        *,
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
        timeout: float | None = None,
        batch_size: int = _bulk.BATCH_SIZE,
        max_in_flight: int = _bulk.MAX_IN_FLIGHT,
        on_error: Literal["raise", "return"] = "raise",
        progress: bool = False,
        **options: Unpack[DecodeOptions],
    ) -> Iterator[Decoded] | Iterator[Decoded | BeamwrightError]:
        """Decodes any number of sources; answers come in their order. As Client.decode_many.

        Args:
            sources: Any iterable; of each element the same as for decode.
            timeout: Seconds for each batch.
            batch_size: Sources that are handed over together, 1 to 4096.
            max_in_flight: Batches that are decoded at the same time, 1 to 256.
            on_error: "raise": the first source that fails ends the iteration, with its `index` in
                the exception. "return": the exception replaces its answer.
            progress: Show a bar, if tqdm is installed.
            **options: As for decode.
        """
        _calls.check_sources(sources)
        _calls.check_bulk(batch_size, max_in_flight, on_error)
        request = _calls.decode_request("decode_many", None, None, options)
        self._timeout_ms(timeout)
        answers = self._answers(iter(sources), request, timeout, batch_size, max_in_flight)
        return handed_out(answers, on_error, _bulk.Progress(progress, sources))

    def _answers(
        self, sources: Iterator[Any], template: Any, timeout: float | None, size: int, most: int
    ) -> Generator[Decoded | BeamwrightError, None]:
        process = os.getpid()
        pool = ThreadPoolExecutor(most, "beamwright")

        def start(batch: _bulk.Batch) -> Future[Any]:
            return pool.submit(self._call, "decode", batch.request, _wire.DecodeResponse, timeout)

        try:
            yield from in_order(sources, template, size, most, start=start, answers_of=self._answers_of)
        finally:
            if os.getpid() == process:
                pool.shutdown()

    def _answers_of(self, batch: _bulk.Batch) -> list[Decoded | BeamwrightError]:
        try:
            response = batch.call.result()
        except RpcError as error:
            return batch.failures(error)
        return batch.answers(response)

    @_calls.with_options(SCORE_OPTIONS)
    def score(
        self,
        source: SourceLike,
        *targets: TargetLike,
        timeout: float | None = None,
        **options: Unpack[ScoreOptions],
    ) -> Scored:
        """Scores given targets of a source: to the bit what a search reports for them.

        Args:
            source: As for decode.
            *targets: 1 to 256 of them, as text or token ids.
            timeout: Seconds.
            **options: What is left out, or None, is as the model says.
        """
        request, text = _calls.score_request(source, targets, None, None, options)
        response = self._call("score", request, _wire.ScoreResponse, timeout)
        return _answers.scored(_answers.only(response, "scored"), text, response)

    def align(
        self, source: SourceLike, target: TargetLike, *, soft: bool = False, timeout: float | None = None
    ) -> Alignment:
        """Returns the source position of each token of a target, by the model's attention.

        Args:
            source: As for decode.
            target: Text or token ids, without end token.
            soft: Return all weights as well.
            timeout: Seconds.
        """
        request, source_text, target_text = _calls.align_request(source, target, soft, None, None)
        response = self._call("align", request, _wire.AlignResponse, timeout)
        return _answers.aligned(_answers.only(response, "alignment"), source_text, target_text, response)

    def _timeout_ms(self, timeout: float | None) -> int:
        """As the library takes it: 0 is no limit."""
        limit = _calls.seconds(timeout, self._timeout)
        return 0 if limit is None or limit >= _LONGEST else math.ceil(limit * 1000)

    def _call(self, name: str, request: Any, response: Any, timeout: float | None) -> Any:
        return self._handle.call(name, request, response, self._timeout_ms(timeout))
