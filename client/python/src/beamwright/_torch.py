"""from_torch: a trained PyTorch module, exported, as a bundle."""

from __future__ import annotations

import contextlib
import inspect
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _bundles
from ._errors import ArgumentTypeError, ExportError
from ._steps import Run, Steps

if TYPE_CHECKING:
    from ._bundles import Bundle, Path, Vocabulary

_OPSET = 17


@_bundles.documented
def from_torch(
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
    """Exports a trained encoder and decoder step, writes a bundle, and compares its answers with the modules'.

    The encoder reads sources [rows, length, ...] and returns the decoder's inputs besides the token: the
    memory and the first states. The decoder step takes the tokens [rows] (or [rows, 1]) and these, in this
    or another order, and returns logits, then each state anew in that order, then perhaps the attention:

        memory, h, c = encoder(source)
        logits, h, c, attention = decoder_step(token, memory, h, c)

    Which results are memory and which are states, and which axes are rows and lengths, is found by running
    both on examples of two sizes. Both modules are put into eval mode for that.

    Args:
        encoder: The encoder, a torch.nn.Module on the CPU.
        decoder_step: The step, in the same form.
        example: A source as the encoder reads it, [1 or more rows, length, ...].
        length_axis: The axis of the example that is its length. 0: sources are [length, rows, ...], as
            PyTorch's recurrent layers read them without batch_first, and so is the example.

    Raises:
        ExportError: The modules do not fit together, cannot be exported, or the bundle answers otherwise.
    """
    return bundle_of(
        encoder,
        decoder_step,
        example,
        vocabularies,
        out,
        begin=begin,
        end=end,
        name=name,
        length_axis=length_axis,
        flags=flags,
    )


def bundle_of(
    encoder: Any,
    decoder_step: Any,
    example: Any,
    vocabularies: tuple[Vocabulary, Vocabulary],
    out: Path,
    *,
    begin: str | int | None,
    end: str | int | Sequence[str | int] | None,
    name: str | None,
    length_axis: int,
    flags: Sequence[str],
    one_hot: int = 0,
    ids_of: Callable[[Any], Any] = lambda source: source,
) -> Bundle:
    """from_torch; `one_hot` as in Steps, ids_of: a source of the example as the bundle takes it."""
    import torch

    if not isinstance(example, torch.Tensor):
        raise ArgumentTypeError(
            f"example is {type(example).__name__}; a tensor [rows, length, ...] is expected"
        )
    if length_axis == 0:
        encoder, example, length_axis = _rows_first(encoder), example.transpose(0, 1), 1
    out = pathlib.Path(out)
    with _quiet(encoder, decoder_step), tempfile.TemporaryDirectory(prefix="beamwright-") as scratch:
        steps = Steps(
            _runner(encoder, "encoder"),
            _runner(decoder_step, "decoder step"),
            example.numpy(),
            length_axis=length_axis,
            names=_names_of(decoder_step),
            one_hot=one_hot,
        )
        graphs = _export(encoder, decoder_step, steps, pathlib.Path(scratch))
        said = [*_bundles.flags_of(begin, end, name), *steps.flags(), *flags]
        pair = _bundles.with_begin(vocabularies, begin, one_hot)
        guesses, notes = _bundles.run_init(graphs, pair, out, said)
        checked = _bundles.compare(out, list(example[:3].numpy()), steps.reference, "PyTorch", ids_of)
    return _bundles.Bundle(out, (*steps.guesses, *guesses), tuple(notes), checked)


def _rows_first(encoder: Any) -> Any:
    """The encoder for sources whose first two axes are exchanged."""
    import torch

    class RowsFirst(torch.nn.Module):  # type: ignore[misc]  # of no known type
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, source: Any) -> Any:
            return self.encoder(source.transpose(0, 1))

    return RowsFirst()


@contextlib.contextmanager
def _quiet(*modules: Any) -> Iterator[None]:
    """The modules in eval mode, without gradients and the exporter's warnings."""
    import torch

    training = [module.training for module in modules]
    try:
        for module in modules:
            module.eval()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for module, was in zip(modules, training, strict=True):
            module.train(was)


def _runner(module: Any, what: str) -> Run:
    """The module on arrays."""
    import torch

    def run(values: Sequence[Any]) -> list[Any]:
        returned = module(*(torch.from_numpy(np.ascontiguousarray(value)) for value in values))
        return [tensor.numpy() for tensor in _flat(returned, what)]

    return run


def _flat(returned: Any, what: str) -> list[Any]:
    """Tensors, or tuples of them, as a list."""
    import torch

    if isinstance(returned, torch.Tensor):
        return [returned]
    if isinstance(returned, (tuple, list)):
        return [tensor for one in returned for tensor in _flat(one, what)]
    raise ExportError(f"the {what} returns {type(returned).__name__}; tensors, or tuples of them, are expected")


def _names_of(module: Any) -> list[str]:
    """Of the parameters of forward() behind the first."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    return [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD][1:]


def _export(encoder: Any, step: Any, steps: Steps, folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes encoder.onnx and decoder.onnx."""
    files = [folder / "encoder.onnx", folder / "decoder.onnx"]
    axes = steps.axes_of_inputs()
    source = {"source": {0: "rows", steps.length_axis: "length"}}
    _write(encoder, [steps.sources[0]], source, steps.axes_of_results(), files[0])
    inputs = {"token": {0: "rows"}, **axes}
    _write(step, [steps.tokens[0], *steps.inputs[0]], inputs, steps.axes_of_outputs(), files[1])
    return files


def _write(module: Any, values: Sequence[Any], inputs: Any, outputs: Any, path: pathlib.Path) -> None:
    import torch

    # The exporter that newer versions take by default knows no scripted loops.
    options = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    try:
        torch.onnx.export(
            module,
            tuple(torch.from_numpy(np.ascontiguousarray(value)) for value in values),
            str(path),
            opset_version=_OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={**inputs, **outputs},
            **options,
        )
    except ImportError as error:
        raise ExportError(f"PyTorch's exporter needs another package: {error} (pip install onnx)") from error
