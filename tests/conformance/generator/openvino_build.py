"""Builds cases with OpenVINO's opsets, saves them as IR version 11 and runs them on its CPU plugin."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import openvino
from openvino import opset16 as ops

from .cases import Build, declared_shape

# f32 as f32: the plugin would otherwise take bf16 where the processor has it.
_CORE_CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}


class OpenVinoBuild(Build):
    """A case in the making: `input` and `constant` give nodes."""

    def __init__(self, name):
        super().__init__(name)
        self.parameters = []
        self.compress = False  # f32 constants are stored as f16, each followed by a Convert
        self.model_input = None  # a model to convert, instead of results

    def input(self, *shapes, dtype="f4", low=-1, high=1, values=(), shape=None):
        """A Parameter. One data set for each shape, or for each array of `values`; extents that differ between
        them are dynamic. `shape` declares another one, as a text ("?,1..8,4", "...")."""
        name, arrays = self._feed(shapes, values, dtype=dtype, low=low, high=high)
        declared = shape or [-1 if extent is None else extent for extent in declared_shape(arrays)]
        parameter = ops.parameter(openvino.PartialShape(declared), arrays[0].dtype, name=name)
        parameter.output(0).get_tensor().set_names({name})
        self.parameters.append(parameter)
        return parameter

    def constant(self, values, dtype=None):
        return ops.constant(np.array(values, dtype=dtype))

    def integers(self, values, dtype=np.int64):
        return ops.constant(np.array(values, dtype=dtype))

    def weights(self, *shape, dtype="f4", low=-1, high=1):
        return ops.constant(self.random(shape, dtype, low, high))


def body_parameter(shape, dtype="f4"):
    """A Parameter of a loop's or branch's body: no input of the case."""
    return ops.parameter(openvino.PartialShape(shape), np.dtype(dtype))


def save(case_name, function, arguments, folder):
    """Builds a case and writes it; returns its line of the manifest (name, tolerance, layer types)."""
    build = OpenVinoBuild(case_name)
    results = function(build, **arguments)
    if isinstance(results, openvino.Model):
        model = results
    else:
        results = results if isinstance(results, (list, tuple)) else [results]
        nodes = [
            output
            for result in results
            for output in (result.outputs() if hasattr(result, "outputs") else [result])
        ]
        model = openvino.Model(
            [ops.result(output) for output in nodes], build.parameters, "conformance"
        )
    path = folder / "model.xml"
    openvino.save_model(model, path, compress_to_fp16=build.compress)

    core = openvino.Core()
    reread = core.read_model(path)
    compiled = None
    for index, inputs in enumerate(build.data_sets()):
        if build.reference is not None:
            outputs = build.reference(*inputs.values())
        else:
            compiled = compiled or core.compile_model(reread, "CPU", _CORE_CONFIG)
            outputs = list(compiled(inputs).to_tuple())
        # C order, because that is all that the runner reads.
        if inputs:
            np.savez(
                folder / f"inputs_{index}.npz",
                **{name: np.array(array, order="C") for name, array in inputs.items()},
            )
        np.savez(
            folder / f"outputs_{index}.npz",
            **{str(i): np.array(array, order="C") for i, array in enumerate(outputs)},
        )
    return case_name, build.tolerance, layer_types(path)


def layer_types(path):
    return sorted({layer.get("type") for layer in ElementTree.parse(path).iter("layer")})
