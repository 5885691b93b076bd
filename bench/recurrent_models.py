"""Writes one-token steps of recurrent language models with random weights, as their authors' code exports them.

    recurrent_models.py OUT [--only rwkv7]

OUT/rwkv7 and OUT/mamba2 get step.onnx (with step.bin, its weights) and model.textproto: bundles for
`beamwright-server` and `beamwright-bench`. Shapes are those of RWKV-7 0.1B (12 layers of 768, 65,536 tokens) and of
Mamba-2 130M (24 layers of 768, 50,288 tokens). Needs onnx and NumPy. States are [rows, ...] and start at zero.
"""

import argparse
import dataclasses
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass(frozen=True)
class Size:
    layers: int
    width: int
    vocabulary: int


SIZES = {"rwkv7": Size(12, 768, 65536), "mamba2": Size(24, 768, 50288)}
OPSET = 17


class Step:
    """A graph of one step. Values are names; methods add a node and return its result."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs = [helper.make_tensor_value_info("token", TensorProto.INT64, ["rows"])]
        self.outputs: list[onnx.ValueInfoProto] = []
        self.states: list[tuple[str, str]] = []

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, values: np.ndarray) -> str:
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def number(self, value: float) -> str:
        return self.constant(np.float32(value).reshape(()))

    def ids(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def matrix(self, rows: int, columns: int) -> str:
        """Weights that keep the magnitude of what they are multiplied with."""
        return self.constant(self.random.normal(0, rows**-0.5, (rows, columns)).astype(np.float32))

    def vector(self, *shape: int, low: float = -0.5, high: float = 0.5) -> str:
        return self.constant(self.random.uniform(low, high, shape).astype(np.float32))

    def state(self, name: str, *shape: int) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", *shape]))
        return name

    def next(self, state: str, value: str, *shape: int) -> None:
        self.result(f"{state}_next", value, *shape)
        self.states.append((state, f"{state}_next"))

    def result(self, name: str, value: str, *shape: int) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name], name=name))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", *shape]))

    def reshape(self, value: str, *shape: int) -> str:
        return self.op("Reshape", value, self.ids(-1, *shape))

    def product(self, value: str, rows: int, columns: int) -> str:
        return self.op("MatMul", value, self.matrix(rows, columns))

    def norm(self, value: str, width: int) -> str:
        return self.op("LayerNormalization", value, self.vector(width, low=0.9, high=1.1),
                       self.vector(width, low=-0.1, high=0.1), axis=-1, epsilon=1e-5)

    def rms_norm(self, value: str, width: int) -> str:
        mean = self.op("ReduceMean", self.op("Mul", value, value), axes=[-1], keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, self.number(1e-5)))
        return self.op("Mul", self.op("Div", value, root), self.vector(width, low=0.9, high=1.1))

    def save(self, folder: pathlib.Path, size: Size) -> None:
        graph = helper.make_graph(self.nodes, folder.name, self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.save(model, folder / "step.onnx", save_as_external_data=True, location="step.bin")
        states = "".join(f'  states {{ input: "{a}" output: "{b}" constant: 0 }}\n' for a, b in self.states)
        (folder / "model.textproto").write_text(
            f'format_version: 1\nname: "{folder.name}"\ndecoder {{\n  graph: "step.onnx"\n  token_input: "token"\n'
            f'  logits_output: "logits"\n{states}}}\n'
            f'target {{ form: TEXT_FORM_IDS size: {size.vocabulary} begin_token: "0" end_tokens: "1" }}\n',
            encoding="utf-8")


def rwkv7(step: Step, size: Size) -> None:
    """RWKV-LM's RWKV-v7 in its recurrent mode (Peng et al. 2025): generalised delta rule, heads of 64."""
    width, head, ffn = size.width, 64, 4 * size.width
    heads = width // head
    ranks = {"w": 64, "a": 64, "v": 32, "g": 128}
    x = step.op("Gather", step.matrix(size.vocabulary, width), "token")
    x = step.norm(step.op("Mul", x, step.number(size.vocabulary**0.5)), width)
    first = ""

    def low_rank(value: str, kind: str, activation: str = "") -> str:
        inner = step.product(value, width, ranks[kind])
        return step.product(step.op(activation, inner) if activation else inner, ranks[kind], width)

    for layer in range(size.layers):
        read = step.norm(x, width)
        previous = step.state(f"shift{layer}", width)
        difference = step.op("Sub", previous, read)
        step.next(previous, read, width)
        r, w, k, v, a, g = (
            step.op("Add", read, step.op("Mul", difference, step.vector(width, low=0, high=1))) for _ in range(6))
        query = step.product(r, width, width)
        decay = step.op("Add", step.vector(width), low_rank(w, "w", "Tanh"))
        decay = step.op("Exp", step.op("Mul", step.op("Sigmoid", decay), step.number(-0.606531)))
        key, value = step.product(k, width, width), step.product(v, width, width)
        rate = step.op("Sigmoid", step.op("Add", step.vector(width), low_rank(a, "a")))
        gate = low_rank(g, "g", "Sigmoid")
        erase = step.reshape(step.op("Mul", key, step.vector(width)), heads, head)
        length = step.op("ReduceL2", erase, axes=[-1], keepdims=1)
        erase = step.op("Div", erase, step.op("Max", length, step.number(1e-12)))
        shrunk = step.op("Mul", step.op("Sub", rate, step.number(1)), step.vector(width, low=0, high=1))
        key = step.op("Mul", key, step.op("Add", shrunk, step.number(1)))
        if layer == 0:
            first = value
        else:
            mixed = step.op("Sigmoid", step.op("Add", step.vector(width), low_rank(v, "v")))
            value = step.op("Add", value, step.op("Mul", step.op("Sub", first, value), mixed))
        state = step.state(f"matrix{layer}", heads, head, head)
        outer = step.op("MatMul", step.reshape(value, heads, head, 1), step.reshape(key, heads, 1, head))
        scaled = step.op("Mul", erase, step.reshape(rate, heads, head))
        rule = step.op("MatMul", step.reshape(step.op("Neg", erase), heads, head, 1),
                       step.reshape(scaled, heads, 1, head))
        kept = step.op("Mul", state, step.reshape(decay, heads, 1, head))
        following = step.op("Add", step.op("Add", kept, step.op("MatMul", state, rule)), outer)
        step.next(state, following, heads, head, head)
        out = step.reshape(step.op("MatMul", following, step.reshape(query, heads, head, 1)), heads, head)
        # GroupNorm: each head by its own mean, with an affine for each channel.
        centred = step.op("Sub", out, step.op("ReduceMean", out, axes=[-1], keepdims=1))
        variance = step.op("ReduceMean", step.op("Mul", centred, centred), axes=[-1], keepdims=1)
        out = step.op("Div", centred, step.op("Sqrt", step.op("Add", variance, step.number(64e-5))))
        out = step.op("Add", step.op("Mul", step.reshape(out, width), step.vector(width, low=0.9, high=1.1)),
                      step.vector(width, low=-0.1, high=0.1))
        agreed = step.op("Mul", step.op("Mul", query, key), step.vector(width))
        agreed = step.op("ReduceSum", step.reshape(agreed, heads, head), step.ids(-1), keepdims=1)
        bonus = step.reshape(step.op("Mul", agreed, step.reshape(value, heads, head)), width)
        x = step.op("Add", x, step.product(step.op("Mul", step.op("Add", out, bonus), gate), width, width))

        read = step.norm(x, width)
        previous = step.state(f"ffn{layer}", width)
        mixed = step.op("Mul", step.op("Sub", previous, read), step.vector(width, low=0, high=1))
        step.next(previous, read, width)
        inner = step.op("Relu", step.product(step.op("Add", read, mixed), width, ffn))
        x = step.op("Add", x, step.product(step.op("Mul", inner, inner), ffn, width))
    step.result("logits", step.product(step.norm(x, width), width, size.vocabulary), size.vocabulary)


def mamba2(step: Step, size: Size) -> None:
    """mamba_ssm's Mamba2.step (Dao and Gu 2024): heads of 64, a state of 128, one group, a convolution of 4."""
    width, head, columns, taps = size.width, 64, 128, 4
    inner = 2 * width
    heads, channels = inner // head, inner + 2 * columns
    table = step.matrix(size.vocabulary, width)
    x = step.op("Mul", step.op("Gather", table, "token"), step.number(size.vocabulary**0.5))
    for layer in range(size.layers):
        read = step.product(step.rms_norm(x, width), width, 2 * inner + 2 * columns + heads)

        def part(begin: int, end: int, of: str = read) -> str:
            return step.op("Slice", of, step.ids(begin), step.ids(end), step.ids(1))

        z, mixed = part(0, inner), part(inner, inner + channels)
        dt = part(inner + channels, inner + channels + heads)
        window = step.state(f"window{layer}", channels, taps - 1)
        window_now = step.op("Concat", window, step.reshape(mixed, channels, 1), axis=2)
        step.next(window, step.op("Slice", window_now, step.ids(1), step.ids(taps), step.ids(2)), channels, taps - 1)
        mixed = step.op("ReduceSum", step.op("Mul", window_now, step.vector(channels, taps)), step.ids(-1), keepdims=0)
        mixed = step.op("Add", mixed, step.vector(channels))
        mixed = step.op("Mul", mixed, step.op("Sigmoid", mixed))
        u = step.reshape(part(0, inner, mixed), heads, head)
        b, c = part(inner, inner + columns, mixed), part(inner + columns, channels, mixed)
        dt = step.op("Softplus", step.op("Add", dt, step.vector(heads, low=-4, high=-1)))
        decay = step.op("Exp", step.op("Mul", dt, step.vector(heads, low=-8, high=-1)))
        state = step.state(f"matrix{layer}", heads, head, columns)
        scaled = step.op("Mul", u, step.reshape(dt, heads, 1))
        outer = step.op("Mul", step.reshape(scaled, heads, head, 1), step.reshape(b, 1, 1, columns))
        following = step.op("Add", step.op("Mul", state, step.reshape(decay, heads, 1, 1)), outer)
        step.next(state, following, heads, head, columns)
        y = step.reshape(step.op("MatMul", following, step.reshape(c, 1, columns, 1)), heads, head)
        y = step.reshape(step.op("Add", y, step.op("Mul", u, step.vector(heads, 1))), inner)
        y = step.op("Mul", y, step.op("Mul", z, step.op("Sigmoid", z)))
        x = step.op("Add", x, step.product(step.rms_norm(y, inner), inner, width))
    # The table of embeddings is the output layer's, too.
    step.result("logits", step.op("MatMul", step.rms_norm(x, width), step.op("Transpose", table, perm=[1, 0])),
                size.vocabulary)


WRITERS = {"rwkv7": rwkv7, "mamba2": mamba2}


def write(folder: pathlib.Path, name: str, size: Size) -> None:
    """A bundle of the model, unless it is there."""
    if (folder / "model.textproto").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "step.bin").unlink(missing_ok=True)
    step = Step(seed=1)
    WRITERS[name](step, size)
    step.save(folder, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", choices=SIZES)
    options = parser.parse_args()
    for name in [options.only] if options.only else SIZES:
        write(options.out / name, name, SIZES[name])


if __name__ == "__main__":
    main()
