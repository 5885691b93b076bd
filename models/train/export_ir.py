"""Writes a bundle from checkpoints: graphs as OpenVINO IR, vocabularies and model.textproto.

The graphs have the form of a training export, not of a step model: loops over whole sequences. The
decoder is one TensorIterator over the target sequence, whose body looks a token's factors up, runs
two LSTM cells and attends to the memory; its back edges are the LSTM states. The attention's keys
are computed inside the body although they do not change: finding that out is the server's business.

Several checkpoints become one graph, an ensemble: every member has its own memory and states.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import openvino as ov
from openvino import Model, Type, opset1, opset3, opset4, opset8, opset13, save_model

from data import TASKS, Factors, read_vocabularies
from model_text import model_text

Weights = dict[str, np.ndarray]
Node = ov.Node
STATES = ("h0", "c0", "h1", "c1")


def named(node: Node, name: str) -> Node:
    node.set_friendly_name(name)
    return node


def constant(value: np.ndarray, name: str) -> Node:
    return named(opset1.constant(value), name)


def ids(value: int | list[int], name: str) -> Node:
    return constant(np.array(value, dtype=np.int64), name)


def parameter(shape: list[int], name: str, dtype: Type = Type.f32) -> Node:
    node = named(opset1.parameter(shape, dtype, name), name)
    node.output(0).get_tensor().set_names({name})
    return node


def result(value: ov.Output | Node, name: str) -> Node:
    node = named(opset1.result(value), name)
    node.input(0).get_source_output().get_tensor().add_names({name})
    return node


def lstm_cell(weights: Weights, layer: str, suffix: str, x: Node, h: Node, c: Node,
              name: str) -> Node:
    """PyTorch's gate rows i, f, g, o become f, i, c, o; its two biases become one."""
    def reordered(value: np.ndarray) -> np.ndarray:
        i, f, g, o = np.split(value, 4)
        return np.ascontiguousarray(np.concatenate([f, i, g, o]))

    w = reordered(weights[f"{layer}.weight_ih_l0{suffix}"])
    r = reordered(weights[f"{layer}.weight_hh_l0{suffix}"])
    b = reordered(weights[f"{layer}.bias_ih_l0{suffix}"] + weights[f"{layer}.bias_hh_l0{suffix}"])
    return named(opset4.lstm_cell(x, h, c, constant(w, f"{name}.W"), constant(r, f"{name}.R"),
                                  constant(b, f"{name}.B"), r.shape[1]), name)


def linear(weights: Weights, prefix: str, layer: str, x: Node, scale: float = 1) -> Node:
    name = f"{prefix}{layer}"
    weight, bias = (weights[f"{layer}.{part}"] * np.float32(scale) for part in ("weight", "bias"))
    product = named(opset1.matmul(x, constant(weight, f"{name}.weight"), False, True),
                    f"{name}.product")
    return named(opset1.add(product, constant(bias, f"{name}.bias")), name)


def batch_size(ids_input: Node, name: str) -> Node:
    """Scalar: the extent of axis 0."""
    shape = named(opset3.shape_of(ids_input), f"{name}.shape")
    return named(opset8.gather(shape, ids(0, f"{name}.row_axis"), ids(0, f"{name}.gather_axis")),
                 f"{name}.batch")


def direction(weights: Weights, prefix: str, layer: str, backward: bool, x: Node, zeros: Node,
              width: int) -> tuple[ov.Output, ov.Output]:
    """One direction of a layer: all its states [batch, length, H], and the last [batch, H]."""
    name = f"{prefix}{layer}.{'backward' if backward else 'forward'}"
    hidden = weights[f"{layer}.weight_hh_l0"].shape[1]
    x_step = parameter([-1, 1, width], f"{name}.x_step")
    h_in, c_in = parameter([-1, hidden], f"{name}.h_in"), parameter([-1, hidden], f"{name}.c_in")
    axis = ids([1], f"{name}.time_axis")
    x_row = named(opset1.squeeze(x_step, axis), f"{name}.x_row")
    cell = lstm_cell(weights, layer, "_reverse" if backward else "", x_row, h_in, c_in,
                     f"{name}.cell")
    y = named(opset1.unsqueeze(cell.output(0), axis), f"{name}.y_step")
    y_out = result(y, f"{name}.y_out")
    h_out, c_out = result(cell.output(0), f"{name}.h_out"), result(cell.output(1), f"{name}.c_out")

    loop = named(opset1.tensor_iterator(), f"{name}.loop")
    loop.set_body(Model([y_out, h_out, c_out], [x_step, h_in, c_in], f"{name}.body"))
    start, end, stride = (-1, 0, -1) if backward else (0, -1, 1)
    loop.set_sliced_input(x_step, x.output(0), start, stride, 1, end, 1)
    loop.set_merged_input(h_in, zeros.output(0), h_out.output(0))
    loop.set_merged_input(c_in, zeros.output(0), c_out.output(0))
    states = loop.get_concatenated_slices(y_out.output(0), start, stride, 1, end, 1)
    return states, loop.get_iter_value(h_out.output(0), -1)


def member_prefixes(count: int) -> list[str]:
    """What names of a member begin with; a single network needs no prefix."""
    return [f"member{i}." for i in range(count)] if count > 1 else [""]


def encoder_member(weights: Weights, prefix: str, source: Node) -> list[Node]:
    """Results: memory, and the decoder's initial states."""
    hidden = weights["encoder0.weight_hh_l0"].shape[1]
    row_count = named(opset1.unsqueeze(batch_size(source, f"{prefix}source"),
                                       ids([0], f"{prefix}zeros.axis")), f"{prefix}zeros.rows")
    zeros_shape = named(opset1.concat([row_count, ids([hidden], f"{prefix}zeros.hidden")], 0),
                        f"{prefix}zeros.shape")
    zeros = named(opset3.broadcast(constant(np.float32(0), f"{prefix}zeros.value"), zeros_shape),
                  f"{prefix}zeros")
    x = named(opset8.gather(constant(weights["source_table.weight"], f"{prefix}source.table"),
                            source, ids(0, f"{prefix}source.table_axis")),
              f"{prefix}source.embedding")
    width = weights["source_table.weight"].shape[1]
    for layer in ("encoder0", "encoder1"):
        forward, forward_last = direction(weights, prefix, layer, False, x, zeros, width)
        backward, backward_last = direction(weights, prefix, layer, True, x, zeros, width)
        x = named(opset1.concat([forward, backward], 2), f"{prefix}{layer}")
        width = 2 * hidden
    last = named(opset1.concat([forward_last, backward_last], 1), f"{prefix}encoder1.last")
    initial = named(opset1.tanh(linear(weights, prefix, "bridge", last)), f"{prefix}bridge.states")
    parts = named(opset1.split(initial, ids(1, f"{prefix}bridge.split_axis"), 4),
                  f"{prefix}bridge.split")
    results = [result(x, f"{prefix}memory")]
    for i, state in enumerate(STATES):
        results.append(result(parts.output(i), f"{prefix}{state}_init"))
    return results


def encoder(members: list[Weights]) -> Model:
    source = parameter([-1, -1], "source", Type.i64)
    results = []
    for prefix, weights in zip(member_prefixes(len(members)), members):
        results += encoder_member(weights, prefix, source)
    return Model(results, [source], "encoder")


def token_embedding(weights: Weights, prefix: str, factors: Factors, token: Node) -> Node:
    """[batch, 1] token ids -> [batch, E]: the sum of the rows of a token's base and its mark."""
    axis = ids(0, f"{prefix}factors.table_axis")
    rows = []
    for name, table in (("base", factors.base), ("mark", factors.mark)):
        row_of_token = ids(table, f"{prefix}factors.{name}_of_token")
        rows.append(named(opset8.gather(row_of_token, token, axis), f"{prefix}factors.{name}"))
    flat = ids([-1], f"{prefix}factors.flat")
    pairs = named(opset1.concat(rows, 1), f"{prefix}factors.pairs")
    indices = named(opset1.reshape(pairs, flat, False), f"{prefix}factors.indices")

    batch = batch_size(token, f"{prefix}token")
    order = named(opset13.range(ids(0, f"{prefix}segments.first"), batch,
                                ids(1, f"{prefix}segments.step"), "i64"),
                  f"{prefix}segments.order")
    column = named(opset1.unsqueeze(order, ids([1], f"{prefix}segments.column_axis")),
                   f"{prefix}segments.column")
    row_count = named(opset1.unsqueeze(batch, ids([0], f"{prefix}segments.row_axis")),
                      f"{prefix}segments.rows")
    shape = named(opset1.concat([row_count, ids([len(rows)], f"{prefix}segments.factors")], 0),
                  f"{prefix}segments.shape")
    table = named(opset3.broadcast(column, shape), f"{prefix}segments.table")
    segments = named(opset1.reshape(table, flat, False), f"{prefix}segments.ids")
    return named(opset3.embedding_segments_sum(
        constant(weights["factor_table.weight"], f"{prefix}factors.table"), indices, segments,
        batch),
        f"{prefix}token.embedding")


def attend(weights: Weights, prefix: str, query: Node, memory: Node) -> tuple[Node, Node]:
    """query [batch, H], memory [batch, S, D] -> attention [batch, 1, S], context [batch, D]."""
    name = f"{prefix}attention"
    # Scaled dot product; the scale sits in the key weights.
    scale = np.float32(weights["keys.weight"].shape[0] ** -0.5)
    key_weight = constant(weights["keys.weight"] * scale, f"{name}.key_weight")
    keys = named(opset1.matmul(memory, key_weight, False, True), f"{name}.keys")
    axis = ids([1], f"{name}.time_axis")
    row = named(opset1.unsqueeze(query, axis), f"{name}.query")
    scores = named(opset1.matmul(row, keys, False, True), f"{name}.scores")
    attention = named(opset8.softmax(scores, 2), f"{name}.weights")
    mixed = named(opset1.matmul(attention, memory, False, False), f"{name}.mixed")
    return attention, named(opset1.squeeze(mixed, axis), f"{name}.context")


class StepMember(NamedTuple):
    """One network's part of a step."""

    inputs: list[Node]  # memory, then the states
    logits: Node  # [batch, V]
    attention: Node  # [batch, 1, S]
    states: list[ov.Output]


def step_member(weights: Weights, prefix: str, factors: Factors, token: Node, share: float,
                ) -> StepMember:
    """`share`: what the logits are multiplied by, in the weights."""
    hidden = weights["decoder0.weight_hh_l0"].shape[1]
    memory = parameter([-1, -1, weights["keys.weight"].shape[1]], f"{prefix}memory_in")
    h0, c0, h1, c1 = states = [parameter([-1, hidden], f"{prefix}{s}_in") for s in STATES]
    cell0 = lstm_cell(weights, "decoder0", "", token_embedding(weights, prefix, factors, token),
                      h0, c0, f"{prefix}cell0")
    attention, context = attend(weights, prefix, cell0.output(0), memory)
    x1 = named(opset1.concat([cell0.output(0), context], 1), f"{prefix}cell1.input")
    cell1 = lstm_cell(weights, "decoder1", "", x1, h1, c1, f"{prefix}cell1")
    features = named(opset1.concat([cell1.output(0), context], 1), f"{prefix}project.input")
    logits = linear(weights, prefix, "project", features, share)
    return StepMember([memory, *states], logits, attention,
                      [cell0.output(0), cell0.output(1), cell1.output(0), cell1.output(1)])


def sum_of(values: list[Node], name: str) -> Node:
    total = values[0]
    for value in values[1:]:
        total = named(opset1.add(total, value), name)
    return total


def decoder(members: list[Weights], factors: Factors) -> Model:
    """Members' logits are averaged: the normalised geometric mean of what they say."""
    count = len(members)
    prefixes = member_prefixes(count)
    # The step.
    token = parameter([-1, 1], "token", Type.i64)
    parts = [step_member(weights, prefix, factors, token, 1 / count)
             for prefix, weights in zip(prefixes, members)]
    logits = named(opset1.unsqueeze(sum_of([part.logits for part in parts], "logits_sum"),
                                    ids([1], "project.time_axis")), "project.step")
    attention = sum_of([part.attention for part in parts], "attention_sum")
    if count > 1:
        attention = named(opset1.multiply(attention, constant(np.float32(1 / count), "share")),
                          "attention_mean")
    step_results = [result(logits, "logits_step"), result(attention, "attention_step")]

    # The loop over the target sequence.
    tokens = parameter([-1, -1], "tokens", Type.i64)
    loop = named(opset1.tensor_iterator(), "decoder.loop")
    outer, inner, edges = [], [], []
    for prefix, part in zip(prefixes, parts):
        memory, *states = part.inputs
        outer.append(parameter([-1, -1, memory.get_partial_shape()[2].get_length()],
                               f"{prefix}memory"))
        edges.append((memory, outer[-1], None))
        for name, state, value in zip(STATES, states, part.states):
            outer.append(parameter([-1, state.get_partial_shape()[1].get_length()],
                                   f"{prefix}{name}_init"))
            edges.append((state, outer[-1], result(value, f"{prefix}{name}_out")))
        inner += part.inputs
    last = [edge[2] for edge in edges if edge[2] is not None]
    loop.set_body(Model([*step_results, *last], [token, *inner], "step"))
    loop.set_sliced_input(token, tokens.output(0), 0, 1, 1, -1, 1)
    for inside, outside, next_value in edges:
        if next_value is None:
            loop.set_invariant_input(inside, outside.output(0))
        else:
            loop.set_merged_input(inside, outside.output(0), next_value.output(0))
    joined = [loop.get_concatenated_slices(r.output(0), 0, 1, 1, -1, 1) for r in step_results]
    final = [loop.get_iter_value(r.output(0), -1) for r in last]
    results = [result(joined[0], "logits"), result(joined[1], "attention")]
    names = [f"{prefix}{state}_last" for prefix in prefixes for state in STATES]
    results += [result(value, name) for name, value in zip(names, final)]
    return Model(results, [tokens, *outer], "decoder")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=Path, nargs="+", required=True,
                        help="best.npz of train.py; several: their ensemble")
    parser.add_argument("--task", choices=TASKS, default="g2p")
    parser.add_argument("--name", required=True, help="the model's name in requests")
    parser.add_argument("--description", required=True, help="one line for people")
    parser.add_argument("--out", type=Path, required=True, help="bundle folder")
    args = parser.parse_args()
    members = [dict(np.load(path)) for path in args.checkpoints]
    vocabularies = read_vocabularies(members[0])
    if any(read_vocabularies(member) != vocabularies for member in members):
        raise SystemExit("the checkpoints have different vocabularies")
    args.out.mkdir(parents=True, exist_ok=True)
    # The default of save_model: weights become f16, each followed by a Convert.
    save_model(encoder(members), args.out / "encoder.xml")
    save_model(decoder(members, vocabularies.factors()), args.out / "decoder.xml")
    for name, tokens in (("source", vocabularies.source), ("target", vocabularies.target)):
        (args.out / f"{name}.vocab").write_text("".join(t + "\n" for t in tokens),
                                                encoding="utf-8")
    (args.out / "model.textproto").write_text(
        model_text(args.task, args.name, args.description), encoding="utf-8")


if __name__ == "__main__":
    main()
