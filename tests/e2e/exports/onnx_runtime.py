"""ONNX Runtime's optimiser and quantiser, and its run of what they made.

As a program, onnx_runtime.py optimised|quantised SOURCE TARGET: some files end the process of these tools.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic

SIDES = ("encoder.onnx", "decoder.onnx")


def session_options():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options


def optimise(source, target):
    target.mkdir(parents=True, exist_ok=True)
    for side in SIDES:
        options = session_options()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(target / side)
        onnxruntime.InferenceSession(str(source / side), options, providers=["CPUExecutionProvider"])


def quantise(source, target):
    target.mkdir(parents=True, exist_ok=True)
    for side in SIDES:
        quantize_dynamic(source / side, target / side, weight_type=QuantType.QInt8)


TOOLS = {"optimised": optimise, "quantised": quantise}


def make(derived, source, target):
    """Runs a tool in another process, and loads what it made; RuntimeError if that fails."""
    command = [sys.executable, __file__, derived, str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(target, ignore_errors=True)
        lines = done.stderr.strip().splitlines()
        if done.returncode < 0:
            raise RuntimeError(f"the tool ends with signal {-done.returncode}")
        raise RuntimeError(lines[-1] if lines else "no message")


def reason_of(error):
    """The first line of an exporter's error that says more than a place in its sources, of the error that caused it."""
    while error.__cause__ is not None:
        error = error.__cause__
    places = ("Check '", "Exception from", "FrontEnd API", "Model wasn't", "-- ", "While ")
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(places)]
    return f"{type(error).__name__}: {lines[0][:160] if lines else ''}"


class RuntimeModel:
    """Encoder and decoder of a folder, run for one row at a time."""

    def __init__(self, folder):
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(
                str(folder / side), session_options(), providers=["CPUExecutionProvider"]
            )
            for side in SIDES
        )
        self.token_type = self.decoder.get_inputs()[0].type

    def start(self, values):
        """Name -> what the encoder gives."""
        names = [port.name for port in self.encoder.get_inputs()]
        outputs = [port.name for port in self.encoder.get_outputs()]
        return dict(zip(outputs, self.encoder.run(None, dict(zip(names, values)))))

    def log_probs(self, export, start, tokens):
        """Of the token behind `tokens`."""
        inputs, outputs = list(export.inputs), list(export.outputs)
        ids = np.int64 if self.token_type == "tensor(int64)" else np.int32
        values = {name: start[name] for name in inputs[1:] if name in start}
        width = start["memory"].shape[-1] // 2
        values.update(
            {name: np.zeros((1, width), np.float32) for name in export.start_at_zero}
        )
        if not export.states:
            logits = self.decoder.run(outputs, {inputs[0]: np.array([tokens], ids), **values})[0][0, -1]
            return log_softmax(logits)
        shape = [-1 if axis else 1 for axis in export.inputs[inputs[0]]]
        for token in tokens:
            results = self.decoder.run(
                outputs, {inputs[0]: np.array([token], ids).reshape(shape), **values}
            )
            values.update(zip(export.states, results[1:]))
        return log_softmax(results[0].reshape(-1))


def log_softmax(logits):
    logits = logits - logits.max()
    return logits - np.log(np.exp(logits).sum())


if __name__ == "__main__":
    TOOLS[sys.argv[1]](*map(pathlib.Path, sys.argv[2:]))
    RuntimeModel(pathlib.Path(sys.argv[3]))
