"""ONNX graphs, and ONNX Runtime set up as its documentation advises for one stream of calls."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

Feed = dict[str, np.ndarray]


def ort_session(model: onnx.ModelProto | Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def onnx_graph(nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, list[object]]],
               outputs: dict[str, int], constants: Feed, name: str = "graph") -> onnx.GraphProto:
    return helper.make_graph(
        nodes, name, [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [numpy_helper.from_array(value, n) for n, value in constants.items()])


def onnx_model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
