"""OpenVINO's CPU plugin, set up as its documentation advises for latency."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino

from peers.onnx_runtime import Feed


def openvino_request(model: openvino.Model | Path, threads: int,
                     precision: str = "f32") -> openvino.InferRequest:
    return openvino.Core().compile_model(
        model, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                       "INFERENCE_PRECISION_HINT": precision}).create_infer_request()


def openvino_call(request: openvino.InferRequest, feed: Feed) -> Callable[[], object]:
    """A call with inputs set once: no copy of them is measured."""
    for name, value in feed.items():
        request.set_tensor(name, openvino.Tensor(np.ascontiguousarray(value)))
    return request.infer
