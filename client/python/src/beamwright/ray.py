"""Decodes a Dataset of Ray over servers: `pip install 'beamwright[ray]'`.

    import ray
    import beamwright.ray

    lines = ray.data.read_text("lines/")
    answers = beamwright.ray.decode(lines, "dns:///replicas.example:8001", workers=8, beam_size=5)
    answers.write_parquet("answers/")

Ray cuts the data into blocks, moves them to workers, which it starts, and decodes a block again whose worker
or machine is lost. Nothing of that is done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from . import _bulk, _calls
from ._client import Client
from ._errors import ArgumentTypeError, BeamwrightError, RpcError, invalid
from ._options import DECODE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Unpack

    from ._options import DecodeOptions

# Of lines of text: tens of calls, a few seconds of work.
BATCH_SIZE = 1024


@_calls.with_options(DECODE_OPTIONS)
def decode(
    dataset: Any,
    address: str | None = None,
    *,
    workers: int,
    column: str = "text",
    model: str | None = None,
    version: str | int | None = None,
    client: Mapping[str, Any] | None = None,
    max_in_flight: int = _bulk.MAX_IN_FLIGHT,
    batch_size: int = BATCH_SIZE,
    num_cpus: float = 0.25,
    on_error: Literal["column", "raise"] = "column",
    **options: Unpack[DecodeOptions],
) -> Any:
    """A Dataset with what the sources of another one are decoded to; Ray runs it when it is read.

    Each row keeps its columns and gets `decoded`, the best hypothesis' text, `score`, its score, `error`,
    why there is none (else empty), and where n_best is above 1 `hypotheses`, all texts, best first. The order
    of the rows is Ray's.

    Args:
        dataset: A ray.data.Dataset.
        address: As for Client. Each worker has a client of its own.
        workers: How many work side by side.
        column: The sources: texts, or lists of token ids.
        model: The model's name.
        version: Its version or a label.
        client: Further arguments of Client, such as tls_ca (a path on the workers' machines, or bytes),
            service_config and timeout.
        max_in_flight: Calls of a worker under way at the same time, 1 to 256; each has 32 sources.
        batch_size: Rows that a worker is given at once: what is decoded again if it dies.
        num_cpus: Processors that Ray sets aside for each worker, which mostly waits for servers. What all
            workers leave must suffice for what makes the dataset: else Ray waits for ever.
        on_error: "column": a source that fails has its reason in the column `error`. "raise": it ends the run.
            A fault of every call (an unknown model, no server) does so in any case.
        **options: As for Client.decode.

    Raises:
        ArgumentTypeError, InvalidArgumentError: What is wrong with the arguments, before anything is started.
    """
    from ray.data import ActorPoolStrategy, Dataset

    if not isinstance(dataset, Dataset):
        raise ArgumentTypeError(f"dataset is {type(dataset).__name__}; a ray.data.Dataset is expected")
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise invalid("workers", f"{workers!r} is not a whole number from 1")
    if on_error not in {"column", "raise"}:
        raise invalid("on_error", f'{on_error!r} is neither "column" nor "raise"')
    _calls.check_bulk(_bulk.BATCH_SIZE, max_in_flight, "return")
    _calls.decode_request("decode", model, version, options)
    arguments = {"address": address, "model": model, "version": version, **(client or {})}
    Client(**arguments).close()  # says what is wrong with them; calls nobody
    return dataset.map_batches(
        _Worker,
        fn_constructor_args=(arguments, column, max_in_flight, on_error, options),
        batch_size=batch_size,
        batch_format="numpy",
        num_cpus=num_cpus,
        compute=ActorPoolStrategy(size=workers),
    )


class _Worker:
    """What Ray makes once for each worker, and gives batches to."""

    def __init__(
        self,
        arguments: dict[str, Any],
        column: str,
        max_in_flight: int,
        on_error: str,
        options: dict[str, Any],
    ) -> None:
        self._client = Client(**arguments)
        self._column = column
        self._max_in_flight = max_in_flight
        self._on_error = on_error
        self._options = options

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch, an array for each column, with those of the answers."""
        import numpy as np

        if self._column not in batch:
            raise invalid("column", f"there is no column {self._column!r}; there are {sorted(batch)}")
        sources = [one.item() if isinstance(one, np.generic) else one for one in batch[self._column]]
        texts: list[str] = []
        scores: list[float] = []
        errors: list[str] = []
        lists: list[list[str]] = []
        for answer in self._client.decode_many(
            sources, max_in_flight=self._max_in_flight, on_error="return", **self._options
        ):
            if isinstance(answer, RpcError):
                answer.index = None  # counted in this batch: of no use to who sees the dataset
            if isinstance(answer, BeamwrightError):
                if self._on_error == "raise":
                    raise answer
                texts.append("")
                scores.append(float("nan"))
                errors.append(str(answer))
                lists.append([])
            else:
                texts.append(answer.text)
                scores.append(answer.best.score)
                errors.append("")
                lists.append([one.text for one in answer])
        # Never null: a block without any error has columns of the same types as the others.
        made = {
            "decoded": np.array(texts, object),
            "score": np.array(scores),
            "error": np.array(errors, object),
        }
        if (self._options.get("n_best") or 1) > 1:
            made["hypotheses"] = np.empty(len(lists), object)
            made["hypotheses"][:] = lists
        return {**batch, **made}
