"""Single operators and loops in OpenVINO, ONNX Runtime and PyTorch."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino
from onnx import TensorProto, helper
from openvino import Model, opset1, opset3, opset4

from harness import measure
from harness.measure import seconds_of
from peers.onnx_runtime import onnx_graph, onnx_model, ort_session
from peers.openvino_cpu import openvino_request

RANDOM = np.random.default_rng(1)
F32 = TensorProto.FLOAT
Side = Callable[[], float]
DISTRIBUTION_PYTHON = "/usr/bin/python3"  # which has python3-torch
LENGTH, WIDTH, HIDDEN = 25, 512, 256  # of the TensorIterator document's example


def weights(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-0.1, 0.1, shape).astype(np.float32)


def _openvino(model: Model, inputs: list[np.ndarray], threads: int, at_least: float,
              precision: str = "f32") -> Side:
    request = openvino_request(model, threads, precision)
    for index, value in enumerate(inputs):
        request.set_input_tensor(index, openvino.Tensor(value))
    return lambda: seconds_of(request.infer, at_least)


def _tensor_iterator(body: Model, x_step: object, x: object, carried: list[tuple[object, ...]],
                     y: object) -> object:
    """Slices x over axis 1, carries (parameter, first value, result), joins y over axis 1."""
    loop = opset1.tensor_iterator()
    loop.set_body(body)
    loop.set_sliced_input(x_step, x.output(0), 0, 1, 1, -1, 1)
    for parameter, first, result in carried:
        loop.set_merged_input(parameter, first.output(0), result.output(0))
    return opset1.result(loop.get_concatenated_slices(y.output(0), 0, 1, 1, -1, 1))


def openvino_lstm_loop(batch: int, threads: int, at_least: float, precision: str = "f32") -> Side:
    """The example as the document has it; the CPU plugin turns it into its fused sequence."""
    x_step = opset1.parameter([batch, 1, WIDTH], np.float32)
    h_in, c_in = (opset1.parameter([batch, HIDDEN], np.float32) for _ in range(2))
    axis = opset1.constant(np.array([1], np.int64))
    cell = opset4.lstm_cell(opset1.squeeze(x_step, axis), h_in, c_in,
                            opset1.constant(weights(4 * HIDDEN, WIDTH)),
                            opset1.constant(weights(4 * HIDDEN, HIDDEN)),
                            opset1.constant(weights(4 * HIDDEN)), HIDDEN)
    y = opset1.result(opset1.unsqueeze(cell.output(0), axis))
    h_out, c_out = opset1.result(cell.output(0)), opset1.result(cell.output(1))
    x = opset1.parameter([batch, LENGTH, WIDTH], np.float32)
    h, c = (opset1.parameter([batch, HIDDEN], np.float32) for _ in range(2))
    result = _tensor_iterator(Model([y, h_out, c_out], [x_step, h_in, c_in], "body"), x_step, x,
                              [(h_in, h, h_out), (c_in, c, c_out)], y)
    return _openvino(Model([result], [x, h, c], "loop"),
                     [weights(batch, LENGTH, WIDTH), weights(batch, HIDDEN), weights(batch, HIDDEN)],
                     threads, at_least, precision)


def ort_lstm(batch: int, threads: int, at_least: float) -> Side:
    """The same sums as one fused operator."""
    graph = onnx_graph(
        [helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=HIDDEN)],
        {"x": (F32, [LENGTH, batch, WIDTH])}, {"y": F32},
        {"w": weights(1, 4 * HIDDEN, WIDTH), "r": weights(1, 4 * HIDDEN, HIDDEN),
         "b": weights(1, 8 * HIDDEN)})
    run = ort_session(onnx_model(graph), threads)
    feed = {"x": weights(LENGTH, batch, WIDTH)}
    return lambda: seconds_of(lambda: run.run(None, feed), at_least)


def _ort_scan(nodes: list[object], constants: dict[str, np.ndarray], states: dict[str, np.ndarray],
              x: np.ndarray, threads: int, at_least: float) -> Side:
    """Runs `nodes` for each x_step of x [time, batch, width]: they make NAME_next of each state and y_step."""
    types = {name: (F32, list(value.shape)) for name, value in states.items()}
    body = onnx_graph(nodes, types | {"x_step": (F32, list(x.shape[1:]))},
                      {f"{name}_next": F32 for name in states} | {"y_step": F32}, constants, "body")
    scan = helper.make_node("Scan", [f"{name}_first" for name in states] + ["x"],
                            [f"{name}_last" for name in states] + ["y"], num_scan_inputs=1, body=body)
    graph = onnx_graph([scan], {f"{name}_first": form for name, form in types.items()}
                       | {"x": (F32, list(x.shape))}, {"y": F32}, {})
    run = ort_session(onnx_model(graph), threads)
    feed = {f"{name}_first": value for name, value in states.items()} | {"x": x}
    return lambda: seconds_of(lambda: run.run(None, feed), at_least)


def ort_lstm_scan(batch: int, threads: int, at_least: float) -> Side:
    """The loop as it is written: a Scan whose body is a product and gates."""
    node = helper.make_node
    nodes = [node("Concat", ["x_step", "h"], ["xh"], axis=1),
             node("Gemm", ["xh", "w", "b"], ["gates"]),
             node("Split", ["gates"], ["i", "o", "f", "n"], axis=1),
             *(node("Sigmoid", [gate], [f"s{gate}"]) for gate in "iof"), node("Tanh", ["n"], ["tn"]),
             node("Mul", ["sf", "c"], ["kept"]), node("Mul", ["si", "tn"], ["new"]),
             node("Add", ["kept", "new"], ["c_next"]), node("Tanh", ["c_next"], ["tc"]),
             node("Mul", ["so", "tc"], ["h_next"]), node("Identity", ["h_next"], ["y_step"])]
    constants = {"w": weights(WIDTH + HIDDEN, 4 * HIDDEN), "b": weights(4 * HIDDEN)}
    states = {name: weights(batch, HIDDEN) for name in "hc"}
    return _ort_scan(nodes, constants, states, weights(LENGTH, batch, WIDTH), threads, at_least)


TINY, TINY_STEPS = 16, 1000


def openvino_tiny_loop(threads: int, at_least: float) -> Side:
    """h = tanh(x + h R), seconds an iteration."""
    x_step = opset1.parameter([1, 1, TINY], np.float32)
    h_in = opset1.parameter([1, TINY], np.float32)
    axis = opset1.constant(np.array([1], np.int64))
    product = opset1.matmul(h_in, opset1.constant(weights(TINY, TINY)), False, False)
    new = opset1.tanh(opset1.add(opset1.squeeze(x_step, axis), product))
    h_out, y = opset1.result(new), opset1.result(opset1.unsqueeze(new, axis))
    x = opset1.parameter([1, TINY_STEPS, TINY], np.float32)
    h = opset1.parameter([1, TINY], np.float32)
    result = _tensor_iterator(Model([y, h_out], [x_step, h_in], "body"), x_step, x,
                              [(h_in, h, h_out)], y)
    whole = _openvino(Model([result], [x, h], "loop"),
                      [weights(1, TINY_STEPS, TINY), weights(1, TINY)], threads, at_least)
    return lambda: whole() / TINY_STEPS


def ort_tiny_loop(threads: int, at_least: float) -> Side:
    node = helper.make_node
    nodes = [node("MatMul", ["h", "r"], ["hr"]), node("Add", ["x_step", "hr"], ["sum"]),
             node("Tanh", ["sum"], ["h_next"]), node("Identity", ["h_next"], ["y_step"])]
    whole = _ort_scan(nodes, {"r": weights(TINY, TINY)}, {"h": weights(1, TINY)},
                      weights(TINY_STEPS, 1, TINY), threads, at_least)
    return lambda: whole() / TINY_STEPS


def openvino_gather_tree(steps: int, batch: int, beam: int, threads: int, at_least: float) -> Side:
    shape = [steps, batch, beam]
    parameters = [opset1.parameter(s, np.int32) for s in (shape, shape, [batch], [])]
    ids = RANDOM.integers(1, 100, shape, dtype=np.int32)
    parents = RANDOM.integers(0, beam, shape, dtype=np.int32)
    return _openvino(Model([opset1.gather_tree(*parameters)], parameters, "tree"),
                     [ids, parents, np.full(batch, steps, np.int32), np.array(0, np.int32)], threads,
                     at_least)


def segment_inputs(rows: int, width: int, indices: int, segments: int) -> list[np.ndarray]:
    """Table, indices, the segment of each, and the number of segments."""
    return [weights(rows, width), RANDOM.integers(0, rows, indices, dtype=np.int32),
            np.sort(RANDOM.integers(0, segments, indices, dtype=np.int32)),
            np.array(segments, np.int32)]


def openvino_segments(inputs: list[np.ndarray], threads: int, at_least: float) -> Side:
    table, ids, of, count = inputs
    parameters = [opset1.parameter(list(value.shape), np.int32) for value in (ids, of)]
    node = opset3.embedding_segments_sum(opset1.constant(table), *parameters, opset1.constant(count))
    return _openvino(Model([node], parameters, "segments"), [ids, of], threads, at_least)


def torch_bag(sizes: tuple[int, ...], threads: int, at_least: float) -> Side:
    """PyTorch's EmbeddingBag (bench/peers/torch_bag.py)."""
    def run() -> float:
        done = subprocess.run([DISTRIBUTION_PYTHON, Path(__file__).with_name("torch_bag.py"),
                               *map(str, sizes), str(threads), str(at_least), measure.clock],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return float(done.stdout.split()[1])
    return run


def plain_segments(inputs: list[np.ndarray], at_least: float) -> Side:
    """Bound of memory: every row that is asked for, fetched once (NumPy's take, one thread)."""
    table, ids, _, _ = inputs
    out = np.empty((len(ids), table.shape[1]), np.float32)
    return lambda: seconds_of(lambda: np.take(table, ids, axis=0, out=out, mode="clip"), at_least)
