"""Writes a CTC model of tones whose encoder reads chunk by chunk: exports/tones_chunks.tar.gz.

    spot_tones.py exports/tones_chunks

It hears the tones of tones.py, and quiet between them, so that segments end where a speaker pauses. Nothing is trained: its
one matrix is a ridge regression from features to labels. A run reads 10 frames, the next begins 8 later and gets what the
last one kept, as encoders of toolkits do.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from served_tones import pack
from tones import RATE, TONES, features, utterances

BINS, CHUNK, SHIFT = 80, 10, 8
SCALE = 12.0  # from one-hot labels to logits: sure, and yet not beyond doubt


def windows(frames: np.ndarray) -> np.ndarray:
    """What the graph makes of a whole source: means of six frames every four, each with the one before it."""
    means = np.stack([frames[i:i + 6].mean(0) for i in range(0, len(frames) - 5, 4)])
    before = np.concatenate([np.zeros((1, BINS), np.float32), means[:-1]])
    return (means + before) / 2


def fitted() -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = [], []
    for _, sound, heard in utterances(600, 26):
        seen = windows((features(sound) + 8) / 4)
        # The middle of what a window and the one before it read: frame 4 i + 1.
        at = np.minimum((4 * np.arange(len(seen)) + 1) * RATE // 100, len(heard) - 1)
        inputs.append(np.concatenate([seen, np.ones((len(seen), 1))], 1))
        labels.append(np.eye(TONES + 1)[heard[at]])
    x, y = np.concatenate(inputs), np.concatenate(labels)
    solved = np.linalg.solve(x.T @ x + 1e-2 * np.eye(BINS + 1), x.T @ y)
    return (SCALE * solved[:-1]).astype(np.float32), (SCALE * solved[-1]).astype(np.float32)


def main() -> None:
    weights, bias = fitted()
    constants = {"weights": weights, "bias": bias, "eight": np.float32(8), "four": np.float32(4), "half": np.float32(0.5),
                 "at_0": np.array([0]), "at_4": np.array([4]),
                 "at_6": np.array([6]), "at_10": np.array([10]), "axis_1": np.array([1])}
    node = helper.make_node
    nodes = [
        node("Add", ["x", "eight"], ["centred"]), node("Div", ["centred", "four"], ["scaled"]),
        node("Slice", ["scaled", "at_0", "at_6", "axis_1"], ["first"]),
        node("Slice", ["scaled", "at_4", "at_10", "axis_1"], ["second"]),
        node("ReduceMean", ["first"], ["first_mean"], axes=[1], keepdims=1),
        node("ReduceMean", ["second"], ["cached_mean_next"], axes=[1], keepdims=1),
        node("Concat", ["first_mean", "cached_mean_next"], ["means"], axis=1),
        node("Concat", ["cached_mean", "first_mean"], ["before"], axis=1),
        node("Add", ["means", "before"], ["sum"]), node("Mul", ["sum", "half"], ["smooth"]),
        node("MatMul", ["smooth", "weights"], ["products"]), node("Add", ["products", "bias"], ["logits"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "tones_chunks",
        [value("x", TensorProto.FLOAT, ["N", CHUNK, BINS]), value("cached_mean", TensorProto.FLOAT, ["N", 1, BINS])],
        [value("logits", TensorProto.FLOAT, ["N", 2, TONES + 1]), value("cached_mean_next", TensorProto.FLOAT, ["N", 1, BINS])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="spot_tones.py")
    model.ir_version = 8
    onnx.checker.check_model(model)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(out / "encoder.onnx"))
    pack(out)


if __name__ == "__main__":
    main()
