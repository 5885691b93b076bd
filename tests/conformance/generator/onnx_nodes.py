"""ONNX's own backend tests of single operators, as PyPI's onnx carries them: a model, its inputs and the outputs
that ONNX's reference computed."""

import pathlib
import shutil

import onnx
import onnx.backend.test
from onnx import numpy_helper

from .onnx_build import operators_of, save_arrays

_FOLDER = pathlib.Path(onnx.backend.test.__file__).parent / "data" / "node"


# Relative, where the expected numbers were written by hand with four digits.
_TOLERANCES = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 1e-3}


class _Cases:
    """The tests by name, in the form of cases.Suite."""

    cases = {folder.name: (None, {}) for folder in sorted(_FOLDER.iterdir())}


suite = _Cases()


def _read_array(path, value_type):
    """None for what is no tensor of numbers: sequences, optionals, texts."""
    if not value_type.HasField("tensor_type"):
        return None
    array = numpy_helper.to_array(onnx.load_tensor(path))
    return None if array.dtype.kind in "OSU" else array


def save(case_name, _function, _arguments, folder):
    """Copies a test; returns its line of the manifest. Without its arrays where they are no tensors."""
    source = _FOLDER / case_name
    shutil.copyfile(source / "model.onnx", folder / "model.onnx")
    model = onnx.load_model(source / "model.onnx")
    for data_set in sorted(source.glob("test_data_set_*")):
        index = int(data_set.name.rsplit("_", 1)[1])
        inputs = [
            _read_array(data_set / f"input_{i}.pb", v.type) for i, v in enumerate(model.graph.input)
        ]
        outputs = [
            _read_array(data_set / f"output_{i}.pb", v.type)
            for i, v in enumerate(model.graph.output)
        ]
        if any(array is None for array in inputs + outputs):
            continue
        save_arrays(
            folder / f"inputs_{index}.npz", {v.name: a for v, a in zip(model.graph.input, inputs)}
        )
        save_arrays(
            folder / f"outputs_{index}.npz", {str(i): array for i, array in enumerate(outputs)}
        )
    return case_name, _TOLERANCES.get(case_name, 0), operators_of(model)
