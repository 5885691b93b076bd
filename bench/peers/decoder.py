"""The decoder of a bundle of bench/random_bundle.py as ONNX, with the same weights, for other runtimes.

Three forms: the step alone (`step`), the step with the best tokens of each row (`step_with_choice`, for
a search in NumPy around it) and the whole beam search as one graph with a Loop (`search`). What a good
team would do by hand is done: attention keys once per request, [x; h] as one product, and the gates as
PyTorch's exporter writes them, or as ONNX's LSTM and GRU operators (`operators=True`). A GRU written as products
reads its first layer's share of the token from a table, as ours does.
"""

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
from onnx import TensorProto, helper

from peers.onnx_runtime import Feed, onnx_graph, onnx_model

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
END = 1  # the token that random_bundle.py gives the bias -1e4


def bundle_weights(bundle: Path, graph: str = "decoder") -> Feed:
    """The graph's constants by name."""
    content = (bundle / f"{graph}.bin").read_bytes()
    found = {}
    for layer in ElementTree.parse(bundle / f"{graph}.xml").iter("layer"):
        data = layer.find("data")
        if layer.get("type") == "Const" and data.get("element_type") == "f32":
            shape = [int(extent) for extent in data.get("shape").split(",") if extent]
            found[layer.get("name")] = np.frombuffer(
                content, np.float32, int(data.get("size")) // 4, int(data.get("offset"))).reshape(shape)
    return found


@dataclass
class Nodes:
    """Nodes and constants that a step needs; `text` names what it adds."""
    nodes: list[onnx.NodeProto]
    constants: Feed

    def add(self, op: str, inputs: list[str], *outputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, list(outputs), **attributes))
        return outputs[0]

    def constant(self, name: str, value: object, dtype: type = np.int64) -> str:
        self.constants[name] = np.array(value, dtype)
        return name


class Decoder:
    """What all three forms share."""

    def __init__(self, bundle: Path, operators: bool = False) -> None:
        self.weights = bundle_weights(bundle)
        self.operators = operators
        self.cell = "lstm" if "lstm0.W" in self.weights else "gru"
        self.reads_table = self.cell == "gru" and not operators
        self.layers = sum(name.startswith(self.cell) and name.endswith(".R") for name in self.weights)
        self.hidden = self.weights[f"{self.cell}0.R"].shape[1]
        self.attention = "keys.weight" in self.weights
        kinds = "hc" if self.cell == "lstm" else "h"
        self.states = [f"{kind}{layer}" for layer in range(self.layers) for kind in kinds]

    def multiplications(self) -> int:
        """Of a row in a step, attention aside: weights that it is multiplied with, each once."""
        return sum(self.weights[name].size for name in self.weights
                   if name == "logits.weight" or name.startswith(self.cell) and name[-1] in "WR")

    # The cells: `gates` of the IR are f, i, c, o and z, r, h; GRU's bias is z, r, Wh, Rh.

    def lstm(self, out: Nodes, name: str, x: str, h: str, c: str) -> list[str]:
        w, r, b = (self.weights[f"{name}.{kind}"] for kind in "WRB")
        hidden = self.hidden
        if self.operators:
            order = [1, 3, 0, 2]  # i, o, f, c
            w, r, b = (a.reshape(4, hidden, -1)[order].reshape(1, 4 * hidden, -1) for a in (w, r, b))
            b = np.concatenate([b.reshape(1, -1), np.zeros((1, 4 * hidden), np.float32)], 1)
            out.constants |= {f"{name}.w": w, f"{name}.r": r, f"{name}.b": b}
            steps = [out.add("Unsqueeze", [v, "axis0"], f"{name}.{v}.step") for v in (x, h, c)]
            out.add("LSTM", [steps[0], f"{name}.w", f"{name}.r", f"{name}.b", "", *steps[1:]], "",
                    f"{name}.yh", f"{name}.yc", hidden_size=hidden)
            return [out.add("Squeeze", [f"{name}.y{v}", "axis0"], f"{v}_next_{name}") for v in "hc"]
        out.constants |= {f"{name}.xh": np.ascontiguousarray(np.concatenate([w, r], 1).T), f"{name}.b": b}
        joined = out.add("Concat", [x, h], f"{name}.joined", axis=1)
        gates = out.add("Gemm", [joined, f"{name}.xh", f"{name}.b"], f"{name}.gates")
        out.add("Split", [gates], *(f"{name}.{gate}" for gate in "fico"), axis=1)
        f, i, o = (out.add("Sigmoid", [f"{name}.{gate}"], f"{name}.s{gate}") for gate in "fio")
        new = out.add("Mul", [i, out.add("Tanh", [f"{name}.c"], f"{name}.tc")], f"{name}.new")
        c_next = out.add("Add", [out.add("Mul", [f, c], f"{name}.kept"), new], f"c_next_{name}")
        return [out.add("Mul", [o, out.add("Tanh", [c_next], f"{name}.tn")], f"h_next_{name}"), c_next]

    def gru(self, out: Nodes, name: str, x: str, h: str) -> list[str]:
        w, r, b = (self.weights[f"{name}.{kind}"] for kind in "WRB")
        hidden = self.hidden
        w_bias = b[:3 * hidden]
        r_bias = np.concatenate([np.zeros(2 * hidden, np.float32), b[3 * hidden:]])
        if self.operators:
            out.constants |= {f"{name}.w": w[None], f"{name}.r": r[None],
                              f"{name}.b": np.concatenate([w_bias, r_bias])[None]}
            steps = [out.add("Unsqueeze", [v, "axis0"], f"{name}.{v}.step") for v in (x, h)]
            out.add("GRU", [steps[0], f"{name}.w", f"{name}.r", f"{name}.b", "", steps[1]], "",
                    f"{name}.yh", hidden_size=hidden, linear_before_reset=1)
            return [out.add("Squeeze", [f"{name}.yh", "axis0"], f"h_next_{name}")]
        out.constants |= {f"{name}.r": np.ascontiguousarray(r.T), f"{name}.rb": r_bias}
        if x == "token":
            out.constants["tokens"] = self.weights["embedding.table"] @ w.T + w_bias
            from_x = out.add("Gather", ["tokens", "token"], f"{name}.fx")
        else:
            out.constants |= {f"{name}.w": np.ascontiguousarray(w.T), f"{name}.wb": w_bias}
            from_x = out.add("Gemm", [x, f"{name}.w", f"{name}.wb"], f"{name}.fx")
        from_h = out.add("Gemm", [h, f"{name}.r", f"{name}.rb"], f"{name}.fh")
        out.add("Split", [from_x], *(f"{name}.x{gate}" for gate in "zrn"), axis=1)
        out.add("Split", [from_h], *(f"{name}.h{gate}" for gate in "zrn"), axis=1)
        z, r_gate = (out.add("Sigmoid", [out.add("Add", [f"{name}.x{g}", f"{name}.h{g}"], f"{name}.a{g}")],
                             f"{name}.s{g}") for g in "zr")
        reset = out.add("Mul", [r_gate, f"{name}.hn"], f"{name}.reset")
        new = out.add("Tanh", [out.add("Add", [f"{name}.xn", reset], f"{name}.an")], f"{name}.new")
        change = out.add("Sub", [h, new], f"{name}.change")
        return [out.add("Add", [new, out.add("Mul", [z, change], f"{name}.kept")], f"h_next_{name}")]

    def prologue(self, out: Nodes) -> None:
        """memory [words, source, hidden] -> keys [words, hidden, source], once per request."""
        if self.attention:
            out.constants["keys.w"] = np.ascontiguousarray(self.weights["keys.weight"].T)
            out.add("Transpose", [out.add("MatMul", ["memory", "keys.w"], "keys.rows")], "keys",
                    perm=[0, 2, 1])

    def step(self, out: Nodes, beam: int, masked: bool = False) -> tuple[str, list[str]]:
        """token [rows] and the states to logits [rows, vocabulary] and the states' successors."""
        out.constant("axis0", [0])
        x = "token"
        if not self.reads_table:
            out.constants["embedding"] = self.weights["embedding.table"]
            x = out.add("Gather", ["embedding", "token"], "x0")
        results = []
        for layer in range(self.layers):
            own = [name for name in self.states if name.endswith(str(layer))]
            outputs = getattr(self, self.cell)(out, f"{self.cell}{layer}", x, *own)
            results += outputs
            x = outputs[0]
        if self.attention:
            by_word = out.constant("by_word", [-1, beam, self.hidden])
            scores = out.add("MatMul", [out.add("Reshape", [x, by_word], "queries"), "keys"], "scores")
            if masked:  # [words, 1, source]: 0, or very negative behind a source's end
                scores = out.add("Add", [scores, "mask"], "scores.masked")
            mixed = out.add("MatMul", [out.add("Softmax", [scores], "attended", axis=2), "memory"],
                            "mixed")
            by_row = out.constant("by_row", [-1, self.hidden])
            x = out.add("Concat", [x, out.add("Reshape", [mixed, by_row], "context")], "features", axis=1)
        out.constants["project"] = np.ascontiguousarray(self.weights["logits.weight"].T)
        out.constants["project.bias"] = self.weights["logits.bias"]
        return out.add("Gemm", [x, "project", "project.bias"], "logits"), results

    def inputs(self, masked: bool = False) -> dict[str, tuple[int, list[object]]]:
        found = {"token": (I64, ["rows"])}
        found |= {name: (F32, ["rows", self.hidden]) for name in self.states}
        if self.attention:
            found |= {"memory": (F32, ["words", "source", self.hidden]),
                      "keys": (F32, ["words", self.hidden, "source"])}
        if masked:
            found["mask"] = (F32, ["words", 1, "source"])
        return found


def _choose(out: Nodes, logits: str, count: int) -> None:
    """best [rows, count]: log-probabilities; ids [rows, count]."""
    log_probs = out.add("LogSoftmax", [logits], "log_probs", axis=1)
    out.add("TopK", [log_probs, out.constant("count", [count])], "best", "ids", axis=1)


def step(bundle: Path, beam: int, operators: bool = False) -> onnx.ModelProto:
    """The step alone. Rows are beam x words, a word's side by side."""
    decoder, out = Decoder(bundle, operators), Nodes([], {})
    logits, results = decoder.step(out, beam)
    return onnx_model(onnx_graph(out.nodes, decoder.inputs(),
                                 {logits: F32} | dict.fromkeys(results, F32), out.constants))


def step_with_choice(bundle: Path, beam: int, masked: bool = False, operators: bool = False,
                     ) -> tuple[Decoder, onnx.ModelProto]:
    """Outputs best, ids [rows, beam + 1], then the states. With one more than the beam an end token
    that is among them leaves enough others, as in our own search."""
    decoder, out = Decoder(bundle, operators), Nodes([], {})
    logits, results = decoder.step(out, beam, masked)
    _choose(out, logits, beam + 1)
    return decoder, onnx_model(onnx_graph(
        out.nodes, decoder.inputs(masked), {"best": F32, "ids": I64} | dict.fromkeys(results, F32),
        out.constants))


def keys_model(bundle: Path) -> onnx.ModelProto:
    """memory -> keys."""
    decoder, out = Decoder(bundle), Nodes([], {})
    decoder.prologue(out)
    return onnx_model(onnx_graph(out.nodes, {"memory": (F32, ["words", "source", decoder.hidden])},
                                 {"keys": F32}, out.constants))


def search(bundle: Path, beam: int, steps: int, operators: bool = False) -> onnx.ModelProto:
    """Beam search over `steps` tokens as one graph: a Loop whose body is the step and the choice.

    Inputs: first_NAME for the token, sums and states that it starts with; first_row [words, 1], the number
    of a word's first row. Outputs: tokens and parents [steps, rows] and
    the sums of log-probabilities [words, beam]. As long as no end token is likely, it is the search that
    we do.
    """
    decoder = Decoder(bundle, operators)
    body = Nodes([], {})
    logits, results = decoder.step(body, beam)
    _choose(body, logits, beam + 1)
    by_word = body.constant("candidates", [-1, beam, beam + 1])
    one_list = body.constant("one_list", [-1, beam * (beam + 1)])
    totals = body.add("Add", [body.add("Unsqueeze", ["sums", body.constant("axis2", [2])], "sums3"),
                              body.add("Reshape", ["best", by_word], "best3")], "totals3")
    body.add("TopK", [body.add("Reshape", [totals, one_list], "totals"), body.constant("beam", [beam])],
             "sums_next", "chosen", axis=1)
    parents = body.add("Div", ["chosen", body.constant("per_row", beam + 1)], "parents")
    flat = body.constant("flat", [-1])
    rows = body.add("Reshape", [body.add("Add", [parents, "first_row"], "parent_rows"), flat], "rows")
    tokens = body.add("GatherElements", [body.add("Reshape", ["ids", one_list], "ids1"), "chosen"],
                      "tokens2", axis=1)
    body.add("Reshape", [tokens, flat], "token_next")
    carried = [body.add("Gather", [result, rows], f"{name}_next")
               for name, result in zip(decoder.states, results)]
    body.add("Identity", ["go_on"], "go_on_next")
    body.add("Identity", ["token_next"], "token_out")
    body.add("Identity", [rows], "rows_out")
    types = {"token": (I64, ["rows"]), "sums": (F32, ["words", beam])}
    types |= {name: (F32, ["rows", decoder.hidden]) for name in decoder.states}
    graph = onnx_graph(
        body.nodes, {"step": (I64, []), "go_on": (TensorProto.BOOL, [])} | types,
        {"go_on_next": TensorProto.BOOL, "token_next": I64, "sums_next": F32}
        | dict.fromkeys(carried, F32) | {"token_out": I64, "rows_out": I64}, body.constants, "body")
    outer = Nodes([], {})
    outer.constant("steps", steps)
    outer.constant("true", True, np.bool_)
    decoder.prologue(outer)
    # A graph's names must differ from those around it.
    initial = {f"first_{name}": form for name, form in types.items()}
    finals = ["last_token", "last_sums", *(f"last_{name}" for name in decoder.states)]
    outer.add("Loop", ["steps", "true", *initial], *finals, "tokens", "parents", body=graph)
    inputs = initial | {"first_row": (I64, ["words", 1])}
    if decoder.attention:
        inputs["memory"] = (F32, ["words", "source", decoder.hidden])
    return onnx_model(onnx_graph(outer.nodes, inputs, {"tokens": I64, "parents": I64, "last_sums": F32},
                                 outer.constants))
