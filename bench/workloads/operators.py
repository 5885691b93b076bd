"""Loops and operators alone."""

from collections.abc import Callable, Iterator

from harness import machine, ours
from harness.measure import LIMIT, OURS, Bar, Workload
from peers import operators as peers

from workloads import decoding


def _lstm_limit(batch: int, threads: int, at_least: float, kind: str = "MachineF32") -> Callable[[], float]:
    operations = 2 * 25 * batch * (512 + 256) * 4 * 256
    return lambda: operations / ours.per_second(kind, threads, at_least)


def lstm_loops(threads: int, at_least: float) -> Iterator[Workload]:
    for batch in (1, 8, 64):
        fused = {"OpenVINO, fused": peers.openvino_lstm_loop(batch, threads, at_least),
                 "ONNX Runtime, fused": peers.ort_lstm(batch, threads, at_least)}
        bars = [Bar(1.0, tuple(fused), text="1.0x the fused")]
        if batch == 1:
            bars.append(Bar(2.0, ("ONNX Runtime, loop",), text="2x the loop that runs"))
        yield Workload(
            f"TensorIterator document's loop, 25 x LSTM 512 to 256, batch {batch}",
            {OURS: ours.operator(f"LstmLoop/batch:{batch}/threads:{threads}", at_least), **fused,
             "ONNX Runtime, loop": peers.ort_lstm_scan(batch, threads, at_least),
             LIMIT: _lstm_limit(batch, threads, at_least)},
            bars, limits=(LIMIT,), threads=threads)


def bf16_lstm_loops(threads: int, at_least: float) -> Iterator[Workload]:
    """The same in the bf16 that the CPU computes itself. ONNX Runtime's CPU kernels have none."""
    precision = machine.bf16_class()
    peer = decoding.openvino_name(precision, ", fused")
    for batch in (1, 8, 64):
        name = f"LstmLoopIn/{precision.replace('-', '_')}/batch:{batch}/threads:{threads}"
        sides = {OURS: ours.operator(name, at_least),
                 peer: peers.openvino_lstm_loop(batch, threads, at_least, "bf16")}
        if precision == "bf16-dot":
            sides[LIMIT] = _lstm_limit(batch, threads, at_least, "MachineBf16")
        yield Workload(f"the same loop in {precision}, batch {batch}", sides, [Bar(1.0, text="1.0x the fused")],
                       limits=(LIMIT,), threads=threads)


def tiny_loop(threads: int, at_least: float) -> Iterator[Workload]:
    run = ours.operator(f"TinyLoop/threads:{threads}", at_least)
    yield Workload(
        "loop with a tiny body (H 16), an iteration",
        {OURS: lambda: run() / peers.TINY_STEPS,
         "OpenVINO": peers.openvino_tiny_loop(threads, at_least),
         "ONNX Runtime, Scan": peers.ort_tiny_loop(threads, at_least)},
        [Bar(seconds=1e-6, text="1 us")], unit="us", threads=threads)


def gather_trees(threads: int, at_least: float) -> Iterator[Workload]:
    for (steps, batch, beam), wanted in (((100, 128, 8), 2.5), ((50, 1, 5), 5.0)):
        name = f"GatherTree/time:{steps}/batch:{batch}/beam:{beam}/threads:{threads}"
        yield Workload(
            f"GatherTree T {steps}, B {batch}, W {beam}, i32",
            {OURS: ours.operator(name, at_least),
             "OpenVINO": peers.openvino_gather_tree(steps, batch, beam, threads, at_least)},
            [Bar(wanted, text=f"{wanted:g}x")], unit="us", threads=threads)


def embedding_sums(threads: int, at_least: float) -> Iterator[Workload]:
    for sizes in ((1000000, 64, 20000, 4000), (32000, 512, 2000, 512)):
        rows, width, indices, segments = sizes
        inputs = peers.segment_inputs(*sizes)
        name = (f"EmbeddingSegmentsSum/rows:{rows}/width:{width}/indices:{indices}"
                f"/segments:{segments}/threads:{threads}")
        yield Workload(
            f"EmbeddingSegmentsSum, {rows:,} x {width} table, {indices:,} indices, {segments:,} segments",
            {OURS: ours.operator(name, at_least),
             "PyTorch EmbeddingBag": peers.torch_bag(sizes, threads, at_least),
             "OpenVINO": peers.openvino_segments(inputs, threads, at_least),
             "rows fetched by NumPy, 1 thread": peers.plain_segments(inputs, at_least)},
            [Bar(1.0, ("PyTorch EmbeddingBag",), text="1.0x EmbeddingBag")],
            limits=("rows fetched by NumPy, 1 thread",), threads=threads)
