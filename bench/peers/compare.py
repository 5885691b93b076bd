"""Beamwright beside OpenVINO and ONNX Runtime, in turns, on one machine: medians and ratios.

    build/venv-conformance/bin/python bench/peers/compare.py [--threads 1] [--rounds 3]

Operators: the loop of OpenVINO's TensorIterator document, GatherTree, EmbeddingSegmentsSum (PyTorch's
EmbeddingBag too, where torch is installed). Models: beam search of a GRU decoder, whose peer is a
step graph in ONNX Runtime with TopK inside and a NumPy loop around that moves states: what a team
writes that has no beam search in its runtime. Peers get all words of a batch at once and need not
stop early; ours come and go through the engine.

Each measurement runs a few times in turn with its peers', so that a noisy neighbour meets them all.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper
from openvino import Model, opset1, opset3, opset4

ROOT = Path(__file__).resolve().parents[2]
RANDOM = np.random.default_rng(1)


def seconds_of(run: Callable[[], object], at_least: float = 0.3) -> float:
    """The median time of a call, after one that is not counted."""
    run()
    times = []
    end = time.perf_counter() + at_least
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def weights(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-0.1, 0.1, shape).astype(np.float32)


# ---- Beamwright ----

def ours_operator(name: str) -> Callable[[], float]:
    def run() -> float:
        out = subprocess.run(
            [ROOT / "build/bin/beamwright-bench-ops", f"--benchmark_filter={name}",
             "--benchmark_format=json", "--benchmark_min_time=0.3"],
            check=True, capture_output=True, text=True).stdout
        result = json.loads(out)["benchmarks"][0]
        scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[result["time_unit"]]
        return result["real_time"] * scale
    return run


def ours_decode(bundle: Path, words: int, beam: int, steps: int, threads: int,
                ) -> Callable[[], float]:
    """Seconds for all words together."""
    def run() -> float:
        out = subprocess.run(
            [ROOT / "build/bin/beamwright-bench", "decode", "--model", bundle, "--random", "64:8",
             "--beam", str(beam), "--max-length", str(steps), "--fixed-length", "--json",
             "--concurrency", str(words), "--threads", str(threads), "--seconds", "1"],
            check=True, capture_output=True, text=True).stdout
        return words / json.loads(out)[0]["sentences_per_second"]
    return run


# ---- OpenVINO ----

def openvino_run(model: Model, inputs: list[np.ndarray], threads: int) -> Callable[[], float]:
    compiled = openvino.Core().compile_model(
        model, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                       "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    tensors = [openvino.Tensor(value) for value in inputs]
    for index, tensor in enumerate(tensors):
        request.set_input_tensor(index, tensor)
    return lambda: seconds_of(request.infer)


def openvino_loop(batch: int) -> tuple[Model, list[np.ndarray]]:
    length, width, hidden = 25, 512, 256
    x_step = opset1.parameter([batch, 1, width], np.float32)
    h_in, c_in = (opset1.parameter([batch, hidden], np.float32) for _ in range(2))
    axis = opset1.constant(np.array([1], np.int64))
    cell = opset4.lstm_cell(opset1.squeeze(x_step, axis), h_in, c_in,
                            opset1.constant(weights(4 * hidden, width)),
                            opset1.constant(weights(4 * hidden, hidden)),
                            opset1.constant(weights(4 * hidden)), hidden)
    y = opset1.result(opset1.unsqueeze(cell.output(0), axis))
    h_out, c_out = opset1.result(cell.output(0)), opset1.result(cell.output(1))
    x = opset1.parameter([batch, length, width], np.float32)
    h, c = (opset1.parameter([batch, hidden], np.float32) for _ in range(2))
    loop = opset1.tensor_iterator()
    loop.set_body(Model([y, h_out, c_out], [x_step, h_in, c_in], "body"))
    loop.set_sliced_input(x_step, x.output(0), 0, 1, 1, -1, 1)
    loop.set_merged_input(h_in, h.output(0), h_out.output(0))
    loop.set_merged_input(c_in, c.output(0), c_out.output(0))
    result = opset1.result(loop.get_concatenated_slices(y.output(0), 0, 1, 1, -1, 1))
    inputs = [weights(batch, length, width), weights(batch, hidden), weights(batch, hidden)]
    return Model([result], [x, h, c], "loop"), inputs


def openvino_gather_tree(steps: int, batch: int, beam: int) -> tuple[Model, list[np.ndarray]]:
    shape = [steps, batch, beam]
    parameters = [opset1.parameter(s, np.int32) for s in (shape, shape, [batch], [])]
    ids = RANDOM.integers(1, 100, shape, dtype=np.int32)
    parents = RANDOM.integers(0, beam, shape, dtype=np.int32)
    inputs = [ids, parents, np.full(batch, steps, np.int32), np.array(0, np.int32)]
    return Model([opset1.gather_tree(*parameters)], parameters, "tree"), inputs


def segment_inputs(rows: int, width: int, indices: int, segments: int) -> list[np.ndarray]:
    return [weights(rows, width), RANDOM.integers(0, rows, indices, dtype=np.int32),
            np.sort(RANDOM.integers(0, segments, indices, dtype=np.int32)),
            np.array(segments, np.int32)]


def openvino_segments(inputs: list[np.ndarray]) -> tuple[Model, list[np.ndarray]]:
    table, ids, of, count = inputs
    parameters = [opset1.parameter(list(ids.shape), np.int32),
                  opset1.parameter(list(of.shape), np.int32)]
    node = opset3.embedding_segments_sum(opset1.constant(table), *parameters,
                                         opset1.constant(count))
    return Model([node], parameters, "segments"), [ids, of]


# ---- PyTorch, where there is one ----

def torch_bag(inputs: list[np.ndarray], threads: int) -> Callable[[], float] | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(threads)
    table, ids, of, count = inputs
    offsets = torch.from_numpy(np.searchsorted(of, np.arange(count)).astype(np.int64))
    table_tensor, ids_tensor = torch.from_numpy(table), torch.from_numpy(ids.astype(np.int64))
    bag = torch.nn.functional.embedding_bag

    def run() -> object:
        with torch.no_grad():
            return bag(ids_tensor, table_tensor, offsets, mode="sum")
    return lambda: seconds_of(run)


# ---- ONNX Runtime ----

def session(model: onnx.ModelProto, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def onnx_model(nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, list[object]]],
               outputs: dict[str, int], constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def ort_loop(batch: int, threads: int) -> Callable[[], float]:
    length, width, hidden = 25, 512, 256
    model = onnx_model(
        [helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=hidden)],
        {"x": (TensorProto.FLOAT, [length, batch, width])}, {"y": TensorProto.FLOAT},
        {"w": weights(1, 4 * hidden, width), "r": weights(1, 4 * hidden, hidden),
         "b": weights(1, 8 * hidden)})
    run = session(model, threads)
    feed = {"x": weights(length, batch, width)}
    return lambda: seconds_of(lambda: run.run(None, feed))


def ort_gru_decoder(words: int, beam: int, steps: int, hidden: int, vocab: int, threads: int,
                    ) -> Callable[[], float]:
    nodes = [
        helper.make_node("Gather", ["table", "token"], ["x"]),
        helper.make_node("Unsqueeze", ["x", "zero"], ["x1"]),
        helper.make_node("Unsqueeze", ["h", "zero"], ["h1"]),
        helper.make_node("GRU", ["x1", "w", "r", "b", "", "h1"], ["", "h2"], hidden_size=hidden,
                         linear_before_reset=1),
        helper.make_node("Squeeze", ["h2", "zero"], ["h_next"]),
        helper.make_node("Gemm", ["h_next", "project", "bias"], ["logits"], transB=1),
        helper.make_node("LogSoftmax", ["logits"], ["scores"], axis=1),
        helper.make_node("TopK", ["scores", "k"], ["best", "ids"], axis=1)]
    model = onnx_model(
        nodes, {"token": (TensorProto.INT64, ["rows"]), "h": (TensorProto.FLOAT, ["rows", hidden])},
        {"best": TensorProto.FLOAT, "ids": TensorProto.INT64, "h_next": TensorProto.FLOAT},
        {"table": weights(vocab, hidden), "zero": np.array([0], np.int64),
         "w": weights(1, 3 * hidden, hidden), "r": weights(1, 3 * hidden, hidden),
         "b": weights(1, 6 * hidden), "project": weights(vocab, hidden), "bias": weights(vocab),
         "k": np.array([beam + 1], np.int64)})
    run = session(model, threads)
    first = np.arange(words) * beam

    def decode() -> None:
        state = np.zeros((words * beam, hidden), np.float32)
        tokens = np.zeros(words * beam, np.int64)
        sums = np.full((words, beam), -np.inf)
        sums[:, 0] = 0  # all rows of a word are alike at first
        for _ in range(steps):
            best, ids, state = run.run(None, {"token": tokens, "h": state})
            totals = (sums[:, :, None] + best.reshape(words, beam, -1)).reshape(words, -1)
            chosen = np.argpartition(-totals, beam - 1, axis=1)[:, :beam]
            sums = np.take_along_axis(totals, chosen, 1)
            parents = chosen // (beam + 1)
            tokens = np.take_along_axis(ids.reshape(words, -1), chosen, 1).reshape(-1)
            state = state[(first[:, None] + parents).reshape(-1)]
    return lambda: seconds_of(decode)


# ---- The table ----

Sides = dict[str, Callable[[], float] | None]


def workloads(threads: int, scratch: Path) -> list[tuple[str, Sides]]:
    rows: list[tuple[str, Sides]] = []
    for batch in (1, 8, 64):
        rows.append((f"loop of 25 LSTM steps, 512 to 256, batch {batch}", {
            "ours": ours_operator(f"LstmLoop/batch:{batch}/threads:1"),
            "OpenVINO": openvino_run(*openvino_loop(batch), threads),
            "ONNX Runtime": ort_loop(batch, threads)}))
    for steps, batch, beam in ((100, 128, 8), (50, 1, 5)):
        rows.append((f"GatherTree {steps} x {batch} x {beam}", {
            "ours": ours_operator(f"GatherTree/time:{steps}/batch:{batch}/beam:{beam}/threads:1"),
            "OpenVINO": openvino_run(*openvino_gather_tree(steps, batch, beam), threads)}))
    for sizes in ((1000000, 64, 20000, 4000), (32000, 512, 2000, 512)):
        inputs = segment_inputs(*sizes)
        rows.append((f"EmbeddingSegmentsSum {sizes[0]} x {sizes[1]}, {sizes[2]} to {sizes[3]}", {
            "ours": ours_operator("EmbeddingSegmentsSum/rows:{}/width:{}/indices:{}/segments:{}/threads:1"
                                  .format(*sizes)),
            "OpenVINO": openvino_run(*openvino_segments(inputs), threads),
            "PyTorch": torch_bag(inputs, threads)}))
    bundle = scratch / "gru-256"
    subprocess.run([sys.executable, ROOT / "bench/random_bundle.py", "--out", bundle, "--cell",
                    "gru", "--layers", "1", "--hidden", "256", "--embed", "256", "--vocab", "74"],
                   check=True)
    for words in (1, 16, 128):
        rows.append((f"GRU-256, 74 symbols, beam 5, 12 steps, {words} words", {
            "ours": ours_decode(bundle, words, 5, 12, threads),
            "ONNX Runtime": ort_gru_decoder(words, 5, 12, 256, 74, threads)}))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="of peers, and of our models")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    args = parser.parse_args()
    print(f"OpenVINO {openvino.__version__}, ONNX Runtime {onnxruntime.__version__}, "
          f"{args.threads} thread(s), median of {args.rounds} rounds in turn\n")
    print("| workload | ours, ms | peers, ms | times as fast as the best peer |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name, sides in workloads(args.threads, Path(scratch)):
            if args.only not in name:
                continue
            measured: dict[str, list[float]] = {}
            for _ in range(args.rounds):
                for side, run in sides.items():
                    if run is not None:
                        measured.setdefault(side, []).append(run())
            medians = {side: 1e3 * statistics.median(times) for side, times in measured.items()}
            ours = medians.pop("ours")
            peers = ", ".join(f"{side} {ms:.3g}" for side, ms in medians.items())
            print(f"| {name} | {ours:.3g} | {peers} | {min(medians.values()) / ours:.2f} |",
                  flush=True)


if __name__ == "__main__":
    main()
