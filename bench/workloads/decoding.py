"""Decoder steps and beam search, without a server."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from harness import machine, measure, ours
from harness.measure import LIMIT, OURS, Bar, Workload, seconds_of
from peers import decoder
from peers.numpy_search import Search
from peers.onnx_runtime import Feed, ort_session
from peers.openvino_cpu import openvino_call, openvino_request

SOURCE = 30  # tokens of every source, for attention


@dataclass(frozen=True)
class Model:
    bundle: Path
    beam: int
    steps: int


def large(folder: Path) -> Model:
    return Model(ours.random_bundle(folder / "large", "--cell", "lstm", "--layers", 2, "--hidden", 1024,
                                    "--embed", 512, "--attention", "--vocab", 32000), 4, 25)


def small(folder: Path) -> Model:
    return Model(ours.random_bundle(folder / "gru-256", "--cell", "gru", "--layers", 1, "--hidden", 256,
                                    "--embed", 256, "--vocab", 74), 5, 12)


def _ours_cases(model: Model, sentences: int, threads: int, seconds: float,
                precision: str) -> dict[str, object]:
    flags = ["--precision", precision] if precision != "f32" else []
    if machine.held_to_avx2():
        flags += ["--most-isa", "avx2"]
    return ours.decode(model.bundle, "--random", f"64:{SOURCE}", "--beam", model.beam, "--max-length",
                       model.steps, "--fixed-length", "--concurrency", sentences, "--threads", threads,
                       "--seconds", seconds, *flags)[0]


def ours_search(model: Model, sentences: int, threads: int, seconds: float,
                precision: str = "f32") -> Callable[[], float]:
    """Seconds for that many sentences at once."""
    def run() -> float:
        case = _ours_cases(model, sentences, threads, seconds, precision)
        used = "cpu_seconds" if measure.clock == "cpu" else "seconds"
        return sentences * case[used] / case["sentences"]
    return run


def ours_step(model: Model, rows: int, threads: int, seconds: float,
              precision: str = "f32") -> Callable[[], float]:
    """Seconds of a step of `rows` rows, choice and search included."""
    def run() -> float:
        case = _ours_cases(model, rows // model.beam, threads, seconds, precision)
        if measure.clock == "cpu":
            return case["cpu_seconds"] / case["sentences"] * (rows // model.beam) / model.steps
        return 1e-3 * case["step_ms_median"]
    return run


def _start(form: decoder.Decoder, words: int, beam: int) -> Feed:
    """What a search starts from, and memory of random sources."""
    feed = {name: np.zeros((words * beam, form.hidden), np.float32) for name in form.states}
    feed["token"] = np.zeros(words * beam, np.int64)
    if form.attention:
        feed["memory"] = np.random.default_rng(2).uniform(
            -0.05, 0.05, (words, SOURCE, form.hidden)).astype(np.float32)
    return feed


def _search_feed(form: decoder.Decoder, words: int, beam: int) -> Feed:
    feed = _start(form, words, beam)
    sums = np.full((words, beam), -1e30, np.float32)
    sums[:, 0] = 0
    feed = {name if name == "memory" else f"first_{name}": value for name, value in feed.items()}
    return feed | {"first_sums": sums, "first_row": np.arange(words)[:, None] * beam}


class _Samples(CalibrationDataReader):
    """Feeds that a quantiser learns ranges from."""

    def __init__(self, feeds: list[Feed]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> Feed | None:
        return next(self._feeds, None)


class Peers:
    """The peers' forms of a model. Graphs are written once; sessions are made when they are asked for and
    kept for one workload only: a large model in five sessions at once would not fit."""

    def __init__(self, model: Model, scratch: Path) -> None:
        self.model = model
        self.scratch = scratch
        self.form = decoder.Decoder(model.bundle)

    def graph(self, kind: str, precision: str = "f32", operators: bool = False) -> Path:
        """operators: with ONNX's LSTM and GRU in place of products and gates. int8 is ONNX Runtime's dynamic quantisation: weights by channel, one scale for all rows."""
        form = "-operators" if operators else ""
        path = self.scratch / f"{self.model.bundle.name}-{kind}-{precision}{form}.onnx"
        if not path.exists() and precision == "int8":
            quantize_dynamic(self.graph(kind), path, weight_type=QuantType.QInt8, per_channel=True,
                             extra_options={"EnableSubgraph": True})
        elif not path.exists():
            bundle, beam = self.model.bundle, self.model.beam
            onnx.save(decoder.step(bundle, beam, operators) if kind == "step" else
                      decoder.search(bundle, beam, self.model.steps, operators), path)
        return path

    def quantised_step(self) -> Path:
        """The step with weights and activations of its products in 8 bits, ranges known beforehand, as quantize_static
        writes it: OpenVINO computes such products in integers. Its ranges are of random states, so that its answers
        mean nothing; its time is that of any."""
        path = self.scratch / f"{self.model.bundle.name}-step-qdq.onnx"
        if not path.exists():
            random = np.random.default_rng(4)
            feeds = [self.step_feed(2) for _ in range(4)]
            for feed in feeds:
                for state in self.form.states:
                    feed[state] = random.uniform(-1, 1, feed[state].shape).astype(np.float32)
            quantize_static(self.graph("step"), path, _Samples(feeds), quant_format=QuantFormat.QDQ, per_channel=True,
                            op_types_to_quantize=["Gemm"], activation_type=QuantType.QUInt8,
                            weight_type=QuantType.QInt8)
        return path

    def step_feed(self, words: int) -> Feed:
        feed = _start(self.form, words, self.model.beam)
        if self.form.attention:
            keys = ort_session(decoder.keys_model(self.model.bundle), 1)
            feed["keys"] = keys.run(None, {"memory": feed["memory"]})[0]
        return feed

    def ort_step(self, words: int, threads: int, at_least: float,
                 precision: str = "f32") -> Callable[[], float]:
        run = ort_session(self.graph("step", precision), threads)
        feed = self.step_feed(words)
        return lambda: seconds_of(lambda: run.run(None, feed), at_least)

    def openvino_step(self, words: int, threads: int, at_least: float,
                      precision: str = "f32") -> Callable[[], float]:
        graph, hint = (self.quantised_step(), "f32") if precision == "int8" else (self.graph("step"), precision)
        call = openvino_call(openvino_request(graph, threads, hint), self.step_feed(words))
        return lambda: seconds_of(call, at_least)

    def ort_search(self, words: int, threads: int, at_least: float, precision: str = "f32",
                   operators: bool = False) -> Callable[[], float]:
        run = ort_session(self.graph("search", precision, operators), threads)
        feed = _search_feed(self.form, words, self.model.beam)
        return lambda: seconds_of(lambda: run.run(None, feed), at_least)

    def openvino_search(self, words: int, threads: int, at_least: float,
                        precision: str = "f32") -> Callable[[], float]:
        call = openvino_call(openvino_request(self.graph("search"), threads, precision),
                             _search_feed(self.form, words, self.model.beam))
        return lambda: seconds_of(call, at_least)

    def numpy_search(self, words: int, threads: int, at_least: float) -> Callable[[], float]:
        search = Search(self.model.bundle, self.model.beam, threads)
        sources = np.random.default_rng(3).integers(2, 70, (words, SOURCE)).tolist()
        return lambda: seconds_of(lambda: search.decode(sources, [self.model.steps] * words), at_least)


def limit(model: Model, rows: int, steps: int, threads: int, at_least: float, precision: str) -> Callable[[], float]:
    """The least time of these steps and rows: the products' operations at the rate at which the CPU
    computes them out of registers, or one reading of the weights at the rate at which it reads memory, whichever is
    more; measured with the rest."""
    per_row = decoder.Decoder(model.bundle).multiplications()
    f32 = "MachineF32Avx2" if machine.held_to_avx2() else "MachineF32"
    kind, size = {"f32": (f32, 4), "bf16": (f32, 2), "bf16-dot": ("MachineBf16", 2),
                  "int8": ("MachineInt8", 1)}[precision]

    def run() -> float:
        arithmetic = 2 * rows * per_row / ours.per_second(kind, threads, at_least)
        reading = size * per_row / ours.per_second("MachineRead", threads, at_least)
        return steps * max(arithmetic, reading)
    return run


def has_limit(precision: str) -> bool:
    """The benchmarks of limits know neither tiles nor 8-bit products without VNNI."""
    if precision == "int8" and not machine.has("avx512_vnni"):
        return False
    return precision == "f32" or not machine.has("amx_int8")


def precisions() -> list[str]:
    """With the bf16 that the CPU computes itself, as `--precision auto` would choose."""
    return ["f32", machine.bf16_class(), "int8"]


def ort_takes_part(form: str) -> bool:
    """Its CPU kernels have no bf16, and cannot be held to AVX2."""
    return form != "bf16" and not machine.held_to_avx2()


def openvino_name(precision: str, rest: str) -> str:
    if precision.startswith("bf16") and not machine.has("avx512_bf16"):
        return f"OpenVINO{rest}, emulating bf16"
    return f"OpenVINO{', fully quantised' if precision == 'int8' else ''}{rest}"


def large_step(model: Model, scratch: Path, threads: int, at_least: float,
               precision: str) -> Iterator[Workload]:
    rows = 64
    words = rows // model.beam
    peers = Peers(model, scratch)
    form = precision.split("-")[0]
    sides = {OURS: ours_step(model, rows, threads, 10 * at_least, precision)}
    if ort_takes_part(form):
        sides["ONNX Runtime"] = peers.ort_step(words, threads, at_least, form)
    sides[openvino_name(form, "")] = peers.openvino_step(words, threads, at_least, form)
    bars = []
    if has_limit(precision):
        sides[LIMIT] = limit(model, rows, 1, threads, at_least, precision)
        bars = [Bar(0.85, (LIMIT,), text="0.85 of what the machine can do")]
    yield Workload("decoder step, embed 512, 2 x LSTM-1024, attention over 30, V 32k, 64 rows, "
                   f"{precision}", sides, bars, limits=(LIMIT,), threads=threads,
                   note="ours with choice of candidates and search, the others the step alone")


# Of f32, bf16 and int8, with 1, 8 and 32 sentences.
LARGE_BARS = {"f32": (1.0, 1.12, 1.15), "bf16": (1.1, 1.1, 1.1), "int8": (1.6, 1.3, 1.2)}


def large_search(model: Model, scratch: Path, threads: int, at_least: float,
                 precision: str) -> Iterator[Workload]:
    peers = Peers(model, scratch)
    form = precision.split("-")[0]
    for sentences, wanted in zip((1, 8, 32), LARGE_BARS[form]):
        sides = {OURS: ours_search(model, sentences, threads, 10 * at_least, precision)}
        if ort_takes_part(form):
            sides["ONNX Runtime, search in graph"] = peers.ort_search(sentences, threads, at_least, form)
        if form == "f32" and ort_takes_part(form):
            sides["ONNX Runtime, NumPy search"] = peers.numpy_search(sentences, threads, at_least)
        if form == "int8":  # its quantiser does not look into loops
            steps_alone = peers.openvino_step(sentences, threads, at_least, form)
            sides[openvino_name(form, ", steps without a search")] = (
                lambda run=steps_alone: model.steps * run())
        else:
            sides[openvino_name(form, ", search in graph")] = peers.openvino_search(sentences, threads, at_least, form)
        if has_limit(precision):
            sides[LIMIT] = limit(model, sentences * model.beam, model.steps, threads, at_least, precision)
        yield Workload(f"the same, beam 4, 25 steps, {sentences} sentence{'s'[:sentences > 1]}, {precision}",
                       sides, [Bar(wanted, text=f"{wanted:g}x")], unit="tokens/s",
                       per_unit=sentences * model.steps, limits=(LIMIT,), threads=threads)


def small_search(model: Model, scratch: Path, threads: int, at_least: float) -> Iterator[Workload]:
    peers = Peers(model, scratch)
    for words, wanted in ((1, 2.5), (16, 2.2), (128, 2.2)):
        yield Workload(
            f"GRU-256, 74 symbols, beam 5, 12 steps, {words} word{'s'[:words > 1]} at once",
            {OURS: ours_search(model, words, threads, 3 * at_least),
             "ONNX Runtime, search in graph": peers.ort_search(words, threads, at_least),
             "the same with its GRU operator": peers.ort_search(words, threads, at_least,
                                                                operators=True),
             "ONNX Runtime, NumPy search": peers.numpy_search(words, threads, at_least),
             "OpenVINO, search in graph": peers.openvino_search(words, threads, at_least)},
            [Bar(wanted, text=f"{wanted:g}x")], unit="words/s", per_unit=words, threads=threads)
