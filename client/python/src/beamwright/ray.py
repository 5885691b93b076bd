"""Decodes a Dataset of Ray, over servers or in its workers. It needs `pip install 'ray[data]'`.

    import ray
    import beamwright.ray

    lines = ray.data.read_text("lines/")
    answers = beamwright.ray.decode(lines, "dns:///replicas.example:8001", workers=8, beam_size=5)
    answers.write_parquet("answers/")

With `path="models/g2p-en"` in place of the address each worker loads the model and decodes by itself: without a
server, but with beamwright-engine and the model on every machine.

Ray cuts the data into blocks, moves them to workers, which it starts, and decodes a block again whose worker
or machine is lost. Nothing of that is done here.
"""

from __future__ import annotations

import inspect
import os
import pathlib
from typing import TYPE_CHECKING, Any, Literal

from . import _bulk, _calls
from ._client import Client
from ._errors import ArgumentTypeError, BeamwrightError, RpcError, invalid
from ._model import Model
from ._options import DECODE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Unpack

    from ._options import DecodeOptions

# Of lines of text: tens of calls, a few seconds of work.
BATCH_SIZE = 1024
# Processors of a worker that waits for servers, and of one that decodes.
WAITING_CPUS = 0.25
DECODING_CPUS = 1.0


@_calls.with_options(DECODE_OPTIONS)
def decode(
    dataset: Any,
    address: str | None = None,
    *,
    workers: int,
    path: str | os.PathLike[str] | None = None,
    column: str = "text",
    model: str | None = None,
    version: str | int | None = None,
    client: Mapping[str, Any] | None = None,
    engine: Mapping[str, Any] | None = None,
    max_in_flight: int = _bulk.MAX_IN_FLIGHT,
    batch_size: int = BATCH_SIZE,
    num_cpus: float | None = None,
    on_error: Literal["column", "raise"] = "column",
    **options: Unpack[DecodeOptions],
) -> Any:
    """A Dataset with what the sources of another one are decoded to; Ray runs it when it is read.

    Each row keeps its columns and gets `decoded`, the best hypothesis' text, `score`, its score, `error`,
    why it failed (else empty), and where n_best is above 1 `hypotheses`, all texts, best first. The order
    of the rows is Ray's.

    Args:
        dataset: A ray.data.Dataset.
        address: As for Client. Each worker has a separate client.
        workers: How many work side by side.
        path: In place of address: as for Model, on the workers' machines. Each worker has a separate engine.
        column: The sources: texts, or lists of token ids.
        model: The model's name.
        version: Its version or a label.
        client: Further arguments of Client, such as tls_ca (a path on the workers' machines, or bytes),
            service_config and timeout.
        engine: With path, further arguments of Model, such as precision; threads are num_cpus.
        max_in_flight: Calls of a worker under way at the same time, 1 to 256; each has 32 sources.
        batch_size: Rows that a worker is given at once: what is decoded again if it dies.
        num_cpus: Processors that Ray sets aside for each worker; None: 0.25, for it mostly waits for servers;
            with path, 1. What all workers leave must suffice for what makes the dataset: else Ray waits for
            ever.
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
    if num_cpus is None:
        num_cpus = WAITING_CPUS if path is None else DECODING_CPUS
    if path is None:
        opened = _server(address, engine, {"model": model, "version": version, **(client or {})})
    else:
        given = {"address": address, "model": model, "version": version, "client": client}
        opened = _engine(path, given, {"threads": max(1, int(num_cpus)), **(engine or {})})
    return dataset.map_batches(
        _Worker,
        fn_constructor_args=(opened, column, max_in_flight, on_error, options),
        batch_size=batch_size,
        batch_format="numpy",
        num_cpus=num_cpus,
        compute=ActorPoolStrategy(size=workers),
    )


Opened = tuple["Callable[..., Client | Model]", Any, dict[str, Any]]


def _server(address: str | None, engine: Any, arguments: dict[str, Any]) -> Opened:
    """What a worker calls to have a client."""
    if engine is not None:
        raise invalid("engine", "is for decoding in the workers; there is no path")
    Client(address, **arguments).close()  # says what is wrong with them; makes no call
    return Client, address, arguments


def _engine(path: str | os.PathLike[str], given: dict[str, Any], arguments: dict[str, Any]) -> Opened:
    """What a worker calls to have an engine."""
    for name, value in given.items():
        if value is not None:
            raise invalid(name, "is for servers; with path no server is used")
    try:
        folder = pathlib.Path(path)
        inspect.signature(Model).bind(folder, **arguments)
    except TypeError as error:
        raise ArgumentTypeError(f"path and engine: {error}") from None
    # Workers run in separate folders; a model of the package is found from everywhere.
    return Model, folder.absolute() if folder.exists() else folder, arguments


class _Worker:
    """What Ray makes once for each worker, and gives batches to."""

    def __init__(
        self,
        opened: Opened,
        column: str,
        max_in_flight: int,
        on_error: str,
        options: dict[str, Any],
    ) -> None:
        make, place, arguments = opened
        self._decoder = make(place, **arguments)
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
        for answer in self._decoder.decode_many(
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
