"""from_onnx: a bundle of ONNX files that are there."""

from __future__ import annotations

import importlib.util
import itertools
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _bundles
from ._errors import ExportError

if TYPE_CHECKING:
    from ._bundles import Bundle, Path, Vocabulary
    from ._types import ModelDescription


@_bundles.documented
def from_onnx(
    encoder: Path | None,
    decoder: Path,
    vocabularies: tuple[Vocabulary, Vocabulary],
    out: Path,
    *,
    example: Any = None,
    begin: str | int | None = None,
    end: str | int | Sequence[str | int] | None = None,
    name: str | None = None,
    flags: Sequence[str] = (),
) -> Bundle:
    """Makes a bundle of an encoder and a decoder in ONNX (or OpenVINO IR), and tries it.

    With an example its answers are compared with ONNX Runtime's, where that is installed.

    Args:
        encoder: The encoder's file; None for a decoder alone.
        decoder: The decoder's: one step with its states, or the whole target.
        example: A source, or a list of them: ids, or an array of features, without the axis of rows.

    Raises:
        ExportError: The graphs leave a choice open, do not make a model, or the bundle answers otherwise.
    """
    out = pathlib.Path(out)
    graphs = [pathlib.Path(path) for path in (encoder, decoder) if path is not None]
    said = [*_bundles.flags_of(begin, end, name), *flags]
    guesses, notes = _bundles.run_init(graphs, vocabularies, out, said)
    checked = ""
    if example is not None and encoder is not None:
        if importlib.util.find_spec("onnxruntime") is None:
            notes.append("onnxruntime is not installed, so its answers were not compared")
        else:
            reference = _Runtime(graphs[0], graphs[1])
            checked = _bundles.compare(out, _sources(example), reference, "ONNX Runtime")
    return _bundles.Bundle(out, tuple(guesses), tuple(notes), checked)


def _sources(example: Any) -> list[Any]:
    """A source or several as a list."""
    import numpy as np

    if isinstance(example, list) and example and isinstance(example[0], (list, tuple, np.ndarray)):
        return example
    return [example]


class _Runtime:
    """The files in ONNX Runtime, tied together as the bundle says."""

    def __init__(self, encoder: pathlib.Path, decoder: pathlib.Path) -> None:
        import onnxruntime

        self._encoder = onnxruntime.InferenceSession(str(encoder), providers=["CPUExecutionProvider"])
        self._decoder = onnxruntime.InferenceSession(str(decoder), providers=["CPUExecutionProvider"])

    def __call__(self, source: Any, tokens: Sequence[int], described: ModelDescription) -> list[float]:
        import numpy as np

        config = described.config["decoder"]
        if described.config.get("encoder", {}).get("length_kind") or any(
            "length_kind" in m for m in config.get("memory", [])
        ):
            raise ExportError("graphs that read lengths are not compared; leave the example out")
        results = self._encode(source)
        inputs = {one.name: one for one in self._decoder.get_inputs()}
        token = inputs.pop(config.get("token_input") or self._only_integers(inputs))
        feed = self._first_inputs(inputs, results, config)
        names = [one.name for one in self._decoder.get_outputs()]
        states = [(one["input"], one["output"]) for one in config.get("states", []) if one.get("output")]
        logits = config.get("logits_output") or names[0]
        kind = config.get("logits_kind", "LOGITS_KIND_LOGITS")
        integers = np.int64 if "int64" in token.type else np.int32
        if not states:  # the whole target at once
            read = np.asarray([tokens[:-1]], integers)
            (scores,) = self._decoder.run([logits], {token.name: read, **feed})
            rows = _bundles.log_probs_of(scores, kind).reshape(len(tokens) - 1, -1)
            return [float(row[after]) for row, after in zip(rows, tokens[1:], strict=True)]
        found = []
        for before, after in itertools.pairwise(tokens):
            read = np.full([1] * len(token.shape), before, integers)
            outputs = dict(zip(names, self._decoder.run(None, {token.name: read, **feed}), strict=True))
            found.append(float(_bundles.log_probs_of(outputs[logits], kind).reshape(-1)[after]))
            feed.update({state: outputs[following] for state, following in states})
        return found

    def _encode(self, source: Any) -> dict[str, Any]:
        import numpy as np

        (port, *more) = self._encoder.get_inputs()
        if more:
            raise ExportError("encoders of several inputs are not compared; leave the example out")
        kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float)": np.float32}
        values = np.asarray(source).astype(kinds.get(port.type, np.float32))[None]
        names = [one.name for one in self._encoder.get_outputs()]
        return dict(zip(names, self._encoder.run(None, {port.name: values}), strict=True))

    def _only_integers(self, inputs: dict[str, Any]) -> str:
        return next(name for name, port in inputs.items() if "int" in port.type)

    def _first_inputs(self, inputs: dict[str, Any], results: dict[str, Any], config: Any) -> dict[str, Any]:
        """The decoder's inputs besides the token, before the first step."""
        import numpy as np

        starts = {one["input"]: one for one in [*config.get("memory", []), *config.get("states", [])]}
        feed = {}
        for name, port in inputs.items():
            start = starts.get(name, {})
            if "constant" in start:
                shape = [extent if isinstance(extent, int) else 1 for extent in port.shape]
                feed[name] = np.full(shape, start["constant"], np.float32)
            elif (result := start.get("encoder_output") or name) in results:
                feed[name] = results[result]
            else:
                raise ExportError(f"nothing is known to feed the decoder's input {name!r} with")
        return feed
