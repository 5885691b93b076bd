"""from_keras: a trained Keras encoder and decoder step, exported by tf2onnx, as a bundle."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _bundles
from ._errors import ExportError
from ._steps import Run, Steps

if TYPE_CHECKING:
    from ._bundles import Bundle, Path, Vocabulary

_OPSET = 17


@_bundles.documented
def from_keras(
    encoder: Any,
    decoder_step: Any,
    example: Any,
    vocabularies: tuple[Vocabulary, Vocabulary],
    out: Path,
    *,
    begin: str | int | None = None,
    end: str | int | Sequence[str | int] | None = None,
    name: str | None = None,
    length_axis: int = 1,
    flags: Sequence[str] = (),
) -> Bundle:
    """As from_torch, for Keras models: the inference models of its sequence-to-sequence examples.

        memory and first states = encoder(source)
        [scores, states] = decoder_step([token, memory and states])

    Keras 3 on TensorFlow is exported by tf2onnx; on PyTorch, by PyTorch. Sources are ids (an Embedding comes
    first), one-hot or features. A step that reads tokens one-hot may begin with a vector of zeros: give a
    `begin` that is no token of the target vocabulary.

    Args:
        encoder: The encoder, a keras.Model.
        decoder_step: The step, a keras.Model whose inputs are the token and what the encoder gives.
        example: A source as the encoder reads it, [1 or more rows, length, ...].
        length_axis: The axis of the example that is its length.

    Raises:
        ExportError: The models do not fit together, cannot be exported, or the bundle answers otherwise.
    """
    import keras

    one_hot = _one_hot_tokens(decoder_step)
    ids_of = _ids_of(vocabularies, example)
    backend = keras.backend.backend()
    if backend == "torch":
        import torch

        from ._torch import bundle_of

        tensor = torch.as_tensor(np.asarray(example))
        return bundle_of(
            _as_module(encoder),
            _as_module(decoder_step),
            tensor,
            vocabularies,
            out,
            begin=begin,
            end=end,
            name=name,
            length_axis=length_axis,
            flags=flags,
            one_hot=one_hot,
            ids_of=ids_of,
        )
    if backend != "tensorflow":
        raise ExportError(
            f"Keras runs on {backend}, which has no exporter; set KERAS_BACKEND=tensorflow or torch"
        )
    out = pathlib.Path(out)
    steps = Steps(
        _runner(encoder), _runner(decoder_step), np.asarray(example), length_axis=length_axis, one_hot=one_hot
    )
    with tempfile.TemporaryDirectory(prefix="beamwright-") as scratch:
        graphs = [pathlib.Path(scratch) / f"{which}.onnx" for which in ("encoder", "decoder")]
        source = {"source": {0: "rows", length_axis: "length"}}
        axes = steps.axes_of_inputs()
        _write(encoder, [steps.sources[0]], source, list(steps.axes_of_results()), graphs[0])
        values = [steps.tokens[0], *steps.inputs[0]]
        _write(decoder_step, values, {"token": {0: "rows"}, **axes}, steps.output_names, graphs[1])
        said = [*_bundles.flags_of(begin, end, name), *steps.flags(), *flags]
        pair = _bundles.with_begin(vocabularies, begin, one_hot)
        guesses, notes = _bundles.run_init(graphs, pair, out, said)
        checked = _bundles.compare(out, list(steps.sources[0][:1]), steps.reference, "Keras", ids_of)
    return _bundles.Bundle(out, (*steps.guesses, *guesses), tuple(notes), checked)


def _one_hot_tokens(step: Any) -> int:
    """How many floats a token of the step's is, where it is one-hot; else 0."""
    token = step.inputs[0]
    width = token.shape[-1] if len(token.shape) > 1 else None
    return int(width) if width is not None and width > 1 and "float" in str(token.dtype) else 0


def _ids_of(vocabularies: Any, example: Any) -> Callable[[Any], Any]:
    """What the bundle takes of a source: one-hot vectors of a vocabulary are ids there."""
    values = np.asarray(example)
    is_one_hot = values.ndim == 3 and values.dtype.kind == "f" and bool(np.isin(values, (0, 1)).all())
    if _bundles.pair_of(vocabularies)[0] is None or not is_one_hot:
        return lambda source: source
    return lambda source: np.asarray(source).argmax(-1).tolist()


def _called(model: Any, values: Sequence[Any]) -> list[Any]:
    """A model's results as a flat list."""
    returned = model(values[0] if len(values) == 1 else list(values), training=False)
    waiting, flat = [returned], []
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, (tuple, list)):
            waiting[:0] = one
        else:
            flat.append(one)
    return flat


def _runner(model: Any) -> Run:
    """The model on arrays."""
    return lambda values: [np.asarray(result) for result in _called(model, values)]


def _as_module(model: Any) -> Any:
    """A Keras model on PyTorch, called as PyTorch's modules are."""
    import torch

    class Module(torch.nn.Module):  # type: ignore[misc]  # of no known type
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Any) -> Any:
            return _called(self.model, values)

    return Module()


def _write(model: Any, values: Sequence[Any], inputs: Any, outputs: Sequence[str], path: pathlib.Path) -> None:
    """The model as ONNX; `inputs`: names and open axes."""
    try:
        import onnx
        import tensorflow as tf
        import tf2onnx
    except ImportError as error:
        raise ExportError(
            f"to export a Keras model needs another package: {error} (pip install tf2onnx)"
        ) from error

    signature = [
        tf.TensorSpec(
            [None if axis in axes else extent for axis, extent in enumerate(value.shape)], value.dtype, name
        )
        for (name, axes), value in zip(inputs.items(), values, strict=True)
    ]
    function = tf.function(lambda *given: _called(model, given), input_signature=signature)
    exported, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=_OPSET)
    # tf2onnx names results as TensorFlow does.
    renamed = dict(zip((port.name for port in exported.graph.output), outputs, strict=True))
    for node in exported.graph.node:
        node.input[:] = [renamed.get(port, port) for port in node.input]
        node.output[:] = [renamed.get(port, port) for port in node.output]
    for port in exported.graph.output:
        port.name = renamed[port.name]
    onnx.save_model(exported, str(path))
