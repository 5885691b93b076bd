"""Writes a bundle with random weights of any size, for measuring speed: its answers mean nothing.

    bench/random_bundle.py --out build/bundles/large --cell lstm --layers 2 --hidden 1024 --embed 512 \
        --attention --vocab 32000

The decoder is a step graph: embedding, layers of LSTM, GRU or SSRU cells, with --attention a scaled dot
product over the encoder's memory after the last layer (its context is joined to what the projection
reads), and the projection to the vocabulary. The encoder only looks ids up: steps are what is measured.
The end token's bias keeps every hypothesis going to the maximum length.

OpenVINO IR is written by hand, so that NumPy is all it needs.
"""

import argparse
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

PRECISION = {"f32": "FP32", "i64": "I64"}
DTYPE = {"f32": np.float32, "i64": np.int64}
Value = tuple[int, int, str, list[int]]  # layer, port, element type, shape


class Ir:
    """One graph: layers in order, edges between their ports, weights in one file."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.random = np.random.default_rng(seed)
        self.layers: list[str] = []
        self.edges: list[str] = []
        self.weights = bytearray()
        self.names: dict[tuple[int, int], str] = {}  # of tensors, by layer and port

    def add(self, op: str, name: str, inputs: list[Value], outputs: list[tuple[str, list[int]]],
            opset: int = 1, **attributes: object) -> list[Value]:
        layer = len(self.layers)
        data = "".join(f" {key}={quoteattr(str(value))}" for key, value in attributes.items())
        text = f'<layer id="{layer}" name={quoteattr(name)} type="{op}" version="opset{opset}">'
        text += f"<data{data}/>" if data else ""
        if inputs:
            text += "<input>"
            for port, (source, source_port, dtype, shape) in enumerate(inputs):
                text += self.port(port, dtype, shape)
                self.edges.append(f'<edge from-layer="{source}" from-port="{source_port}" '
                                  f'to-layer="{layer}" to-port="{port}"/>')
            text += "</input>"
        values = [(layer, len(inputs) + i, *output) for i, output in enumerate(outputs)]
        if values:
            text += "<output>"
            for i, (_, port, dtype, shape) in enumerate(values):
                self.names[layer, port] = f"{name}.{i}" if i else name
                text += self.port(port, dtype, shape, self.names[layer, port])
            text += "</output>"
        self.layers.append(text + "</layer>")
        return values

    @staticmethod
    def port(index: int, dtype: str, shape: list[int], name: str = "") -> str:
        names = f" names={quoteattr(name)}" if name else ""
        dims = "".join(f"<dim>{extent}</dim>" for extent in shape)
        return f'<port id="{index}" precision="{PRECISION[dtype]}"{names}>{dims}</port>'

    def parameter(self, name: str, dtype: str, shape: list[int]) -> Value:
        text = ",".join("?" if extent < 0 else str(extent) for extent in shape)
        return self.add("Parameter", name, [], [(dtype, shape)], shape=text, element_type=dtype)[0]

    def constant(self, name: str, array: np.ndarray, dtype: str) -> Value:
        self.weights += bytes(-len(self.weights) % 64)
        content = np.ascontiguousarray(array, DTYPE[dtype]).tobytes()
        shape = list(array.shape)
        value = self.add("Const", name, [], [(dtype, shape)], element_type=dtype,
                         shape=",".join(map(str, shape)), offset=len(self.weights),
                         size=len(content))[0]
        self.weights += content
        return value

    def ids(self, name: str, value: int | list[int]) -> Value:
        return self.constant(name, np.array(value, np.int64), "i64")

    def weight(self, name: str, *shape: int) -> Value:
        """Uniform, so scaled that a sum over the last axis keeps the magnitude of its terms."""
        limit = (3 / shape[-1]) ** 0.5
        array = self.random.uniform(-limit, limit, shape).astype(np.float32)
        return self.constant(name, array, "f32")

    def unary(self, op: str, name: str, x: Value) -> Value:
        return self.add(op, name, [x], [("f32", x[3])])[0]

    def binary(self, op: str, name: str, a: Value, b: Value) -> Value:
        shape = a[3] if len(a[3]) >= len(b[3]) else b[3]
        return self.add(op, name, [a, b], [("f32", shape)], auto_broadcast="numpy")[0]

    def product(self, name: str, a: Value, b: Value, transpose_b: bool = True) -> Value:
        columns = b[3][-2] if transpose_b else b[3][-1]
        return self.add("MatMul", name, [a, b], [("f32", [*a[3][:-1], columns])],
                        transpose_a="false", transpose_b=str(transpose_b).lower())[0]

    def linear(self, name: str, x: Value, columns: int) -> Value:
        product = self.product(f"{name}.product", x, self.weight(f"{name}.weight", columns, x[3][-1]))
        return self.binary("Add", name, product, self.weight(f"{name}.bias", columns))

    def gather(self, name: str, table: Value, ids: Value) -> Value:
        return self.add("Gather", name, [table, ids, self.ids(f"{name}.axis", 0)],
                        [("f32", [*ids[3], table[3][1]])], opset=8, batch_dims=0)[0]

    def concat(self, name: str, values: list[Value]) -> Value:
        shape = [*values[0][3][:-1], sum(value[3][-1] for value in values)]
        return self.add("Concat", name, values, [("f32", shape)], axis=len(shape) - 1)[0]

    def result(self, name: str, value: Value) -> None:
        self.add("Result", name, [value], [])

    def save(self, folder: Path) -> None:
        text = (f'<?xml version="1.0"?>\n<net name="{self.name}" version="11">\n<layers>\n'
                + "\n".join(self.layers) + "\n</layers>\n<edges>\n" + "\n".join(self.edges)
                + "\n</edges>\n</net>\n")
        (folder / f"{self.name}.xml").write_text(text, encoding="utf-8")
        (folder / f"{self.name}.bin").write_bytes(self.weights)


def lstm(ir: Ir, name: str, x: Value, states: list[Value]) -> list[Value]:
    hidden = states[0][3][-1]
    w, r = ir.weight(f"{name}.W", 4 * hidden, x[3][-1]), ir.weight(f"{name}.R", 4 * hidden, hidden)
    return ir.add("LSTMCell", name, [x, *states, w, r, ir.weight(f"{name}.B", 4 * hidden)],
                  [("f32", [-1, hidden])] * 2, opset=4, hidden_size=hidden)


def gru(ir: Ir, name: str, x: Value, states: list[Value]) -> list[Value]:
    hidden = states[0][3][-1]
    w, r = ir.weight(f"{name}.W", 3 * hidden, x[3][-1]), ir.weight(f"{name}.R", 3 * hidden, hidden)
    return ir.add("GRUCell", name, [x, *states, w, r, ir.weight(f"{name}.B", 4 * hidden)],
                  [("f32", [-1, hidden])], opset=3, hidden_size=hidden,
                  linear_before_reset="true")


def ssru(ir: Ir, name: str, x: Value, states: list[Value]) -> list[Value]:
    """Kim et al. 2019, section 3.1: c' = f c + (1 - f) W x, y = ReLU(c')."""
    hidden = states[0][3][-1]
    forget = ir.unary("Sigmoid", f"{name}.forget", ir.linear(f"{name}.gate", x, hidden))
    new = ir.product(f"{name}.new", x, ir.weight(f"{name}.W", hidden, x[3][-1]))
    one = ir.constant(f"{name}.one", np.ones((1,), np.float32), "f32")
    kept = ir.binary("Multiply", f"{name}.kept", forget, states[0])
    taken = ir.binary("Multiply", f"{name}.taken",
                      ir.binary("Subtract", f"{name}.rest", one, forget), new)
    cell = ir.binary("Add", f"{name}.cell", kept, taken)
    return [ir.unary("ReLU", f"{name}.y", cell), cell]


CELLS = {"lstm": (lstm, ["h", "c"]), "gru": (gru, ["h"]), "ssru": (ssru, ["c"])}


def decoder(args: argparse.Namespace) -> tuple[Ir, list[tuple[str, str]]]:
    """The graph, and for each state the names of its input and its output."""
    ir = Ir("decoder", args.seed)
    x = ir.gather("embedding", ir.weight("embedding.table", args.vocab, args.embed),
                  ir.parameter("token", "i64", [-1]))
    cell, kinds = CELLS[args.cell]
    names, results = [], []
    for layer in range(args.layers):
        own = [f"{kind}{layer}" for kind in kinds]
        outputs = cell(ir, f"{args.cell}{layer}", x,
                       [ir.parameter(name, "f32", [-1, args.hidden]) for name in own])
        names += own
        results += outputs[-len(own):]  # an SSRU's output is not its state
        x = outputs[0]
    if args.attention:
        memory = ir.parameter("memory", "f32", [-1, -1, args.hidden])
        keys = ir.product("keys", memory, ir.weight("keys.weight", args.hidden, args.hidden))
        axis = ir.ids("attention.axis", [1])
        query = ir.add("Unsqueeze", "query", [x, axis], [("f32", [-1, 1, args.hidden])])[0]
        scores = ir.add("MatMul", "scores", [query, keys], [("f32", [-1, 1, -1])],
                        transpose_a="false", transpose_b="true")[0]
        weights = ir.add("SoftMax", "attention", [scores], [("f32", [-1, 1, -1])], axis=2)[0]
        mixed = ir.product("mixed", weights, memory, transpose_b=False)
        context = ir.add("Squeeze", "context", [mixed, axis], [("f32", [-1, args.hidden])])[0]
        x = ir.concat("features", [x, context])
    bias = ir.random.uniform(-1, 1, args.vocab).astype(np.float32)
    bias[1] = -1e4  # the end token
    product = ir.product("logits.product", x, ir.weight("logits.weight", args.vocab, x[3][-1]))
    logits = ir.binary("Add", "logits", product, ir.constant("logits.bias", bias, "f32"))
    ir.result("logits_out", logits)
    for name, value in zip(names, results):
        ir.result(f"{name}_next", value)
    return ir, [(name, ir.names[value[:2]]) for name, value in zip(names, results)]


def encoder(args: argparse.Namespace) -> Ir:
    ir = Ir("encoder", args.seed + 1)
    source = ir.parameter("source", "i64", [-1, -1])
    ir.result("memory_out", ir.gather("memory", ir.weight("table", args.vocab, args.hidden), source))
    return ir


def model_text(args: argparse.Namespace, states: list[tuple[str, str]]) -> str:
    lines = ["format_version: 1", f'name: "{args.out.name}"',
             f'description: "random weights: {args.cell}, {args.layers} x {args.hidden}"',
             'encoder { graph: "encoder.xml" }', "decoder {", '  graph: "decoder.xml"',
             '  token_input: "token"', '  logits_output: "logits"']
    lines += [f'  states {{ input: "{name}" output: "{output}" constant: 0 }}'
              for name, output in states]
    text = f'{{ form: TEXT_FORM_IDS size: {args.vocab} %s}}'
    lines += ["}", "source " + text % "", "target " + text % 'begin_token: "0" end_tokens: "1" ']
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="bundle folder")
    parser.add_argument("--cell", choices=CELLS, default="lstm")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--embed", type=int, default=512)
    parser.add_argument("--attention", action="store_true")
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if min(args.layers, args.hidden, args.embed) < 1 or args.vocab < 4:
        parser.error("--layers, --hidden and --embed must be positive, --vocab at least 4")
    args.out.mkdir(parents=True, exist_ok=True)
    ir, states = decoder(args)
    ir.save(args.out)
    encoder(args).save(args.out)
    (args.out / "model.textproto").write_text(model_text(args, states), encoding="utf-8")


if __name__ == "__main__":
    main()
