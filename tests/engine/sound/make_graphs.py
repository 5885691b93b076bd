#!/usr/bin/env python3
"""Writes data/activity.onnx, loudness in the ports of Silero's graph over windows, and data/labels.onnx, a tagger that knows
its words' labels by heart.

Usage: make_graphs.py   (numpy, onnx)
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DATA = pathlib.Path(__file__).parent / "data"


def port(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(name, nodes, inputs, outputs, constants):
    graph = helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(value, key) for key, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, DATA / f"{name}.onnx")


def main():
    states = [port("h", [1, 1, 2]), port("c", [1, 1, 2])]
    save("activity", [
        helper.make_node("Mul", ["input", "input"], ["squares"]),
        helper.make_node("ReduceMean", ["squares"], ["power"], axes=[1], keepdims=0),
        helper.make_node("Mul", ["power", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"], ["logit"]),
        helper.make_node("Sigmoid", ["logit"], ["speech_probs"]),  # one half at -40 dB
        helper.make_node("Identity", ["h"], ["hn"]),
        helper.make_node("Identity", ["c"], ["cn"]),
    ], [port("input", ["sequence_length", 576]), *states],
        [port("speech_probs", ["sequence_length"]), port("hn", [1, 1, 2]), port("cn", [1, 1, 2])],
        {"scale": np.float32(1e5), "bias": np.float32(-10)})
    table = np.zeros((21, 4), np.float32)  # words t0 to t20; labels O, a comma, U and U.
    table[:, 0] = 1
    for word, label in ((3, 2), (17, 1), (8, 3)):
        table[word, label] = 2
    save("labels", [helper.make_node("Gather", ["table", "words"], ["labels"], axis=0)],
         [port("words", ["rows", "length"], TensorProto.INT64)], [port("labels", ["rows", "length", 4])], {"table": table})


if __name__ == "__main__":
    main()
