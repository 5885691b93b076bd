"""Writes encoder and decoder as OpenVINO IR from a checkpoint, with OpenVINO's opset API.

The graphs have the form of a training export, not of a step model: loops over whole sequences. The
decoder is one TensorIterator over the target sequence, whose body looks a token's factors up, runs
two LSTM cells and attends to the memory; its back edges are the LSTM states. The attention's keys
are computed inside the body although they do not change: finding that out is the server's business.
"""

import argparse
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import Model, Type, opset1, opset3, opset4, opset8, opset13, save_model

from data import source_vocabulary, target_factors, target_vocabulary

Weights = dict[str, np.ndarray]
Node = ov.Node


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


def lstm_cell(weights: Weights, prefix: str, suffix: str, x: Node, h: Node, c: Node,
              name: str) -> Node:
    """PyTorch's gate rows i, f, g, o become f, i, c, o; its two biases become one."""
    def reordered(value: np.ndarray) -> np.ndarray:
        i, f, g, o = np.split(value, 4)
        return np.ascontiguousarray(np.concatenate([f, i, g, o]))

    w = reordered(weights[f"{prefix}.weight_ih_l0{suffix}"])
    r = reordered(weights[f"{prefix}.weight_hh_l0{suffix}"])
    b = reordered(weights[f"{prefix}.bias_ih_l0{suffix}"] + weights[f"{prefix}.bias_hh_l0{suffix}"])
    return named(opset4.lstm_cell(x, h, c, constant(w, f"{name}.W"), constant(r, f"{name}.R"),
                                  constant(b, f"{name}.B"), r.shape[1]), name)


def linear(weights: Weights, prefix: str, x: Node, name: str) -> Node:
    product = named(opset1.matmul(x, constant(weights[f"{prefix}.weight"], f"{name}.weight"),
                                  False, True), f"{name}.product")
    return named(opset1.add(product, constant(weights[f"{prefix}.bias"], f"{name}.bias")), name)


def batch_size(ids_input: Node, name: str) -> Node:
    """Scalar: the extent of axis 0."""
    shape = named(opset3.shape_of(ids_input), f"{name}.shape")
    return named(opset8.gather(shape, ids(0, f"{name}.row_axis"), ids(0, f"{name}.gather_axis")),
                 f"{name}.batch")


def direction(weights: Weights, layer: str, backward: bool, x: Node, zeros: Node,
              width: int) -> tuple[ov.Output, ov.Output]:
    """One direction of a layer: all its states [batch, length, H], and the last [batch, H]."""
    name = f"{layer}.{'backward' if backward else 'forward'}"
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


def encoder(weights: Weights) -> Model:
    source = parameter([-1, -1], "source", Type.i64)
    hidden = weights["encoder0.weight_hh_l0"].shape[1]
    row_count = named(opset1.unsqueeze(batch_size(source, "source"), ids([0], "zeros.axis")),
                      "zeros.rows")
    zeros_shape = named(opset1.concat([row_count, ids([hidden], "zeros.hidden")], 0), "zeros.shape")
    zeros = named(opset3.broadcast(constant(np.float32(0), "zeros.value"), zeros_shape), "zeros")
    x = named(opset8.gather(constant(weights["source_table.weight"], "source.table"), source,
                            ids(0, "source.table_axis")), "source.embedding")
    width = weights["source_table.weight"].shape[1]
    for layer in ("encoder0", "encoder1"):
        forward, forward_last = direction(weights, layer, False, x, zeros, width)
        backward, backward_last = direction(weights, layer, True, x, zeros, width)
        x = named(opset1.concat([forward, backward], 2), layer)
        width = 2 * hidden
    last = named(opset1.concat([forward_last, backward_last], 1), "encoder1.last")
    initial = named(opset1.tanh(linear(weights, "bridge", last, "bridge")), "bridge.states")
    parts = named(opset1.split(initial, ids(1, "bridge.split_axis"), 4), "bridge.split")
    results = [result(x, "memory")]
    for i, state in enumerate(("h0_init", "c0_init", "h1_init", "c1_init")):
        results.append(result(parts.output(i), state))
    return Model(results, [source], "g2p_en_encoder")


def token_embedding(weights: Weights, token: Node) -> Node:
    """[batch, 1] token ids -> [batch, E]: the sum of the rows of base phoneme and stress."""
    factors = target_factors()
    axis = ids(0, "factors.table_axis")
    rows = []
    for name, table in (("base", factors.base), ("stress", factors.stress)):
        rows.append(named(opset8.gather(ids(table, f"factors.{name}_of_token"), token, axis),
                          f"factors.{name}"))
    flat = ids([-1], "factors.flat")
    pairs = named(opset1.concat(rows, 1), "factors.pairs")
    indices = named(opset1.reshape(pairs, flat, False), "factors.indices")

    batch = batch_size(token, "token")
    order = named(opset13.range(ids(0, "segments.first"), batch, ids(1, "segments.step"), "i64"),
                  "segments.order")
    column = named(opset1.unsqueeze(order, ids([1], "segments.column_axis")), "segments.column")
    row_count = named(opset1.unsqueeze(batch, ids([0], "segments.row_axis")), "segments.rows")
    shape = named(opset1.concat([row_count, ids([len(rows)], "segments.factors")], 0),
                  "segments.shape")
    table = named(opset3.broadcast(column, shape), "segments.table")
    segments = named(opset1.reshape(table, flat, False), "segments.ids")
    return named(opset3.embedding_segments_sum(
        constant(weights["factor_table.weight"], "factors.table"), indices, segments, batch),
        "token.embedding")


def attend(weights: Weights, query: Node, memory: Node) -> tuple[Node, Node]:
    """query [batch, H], memory [batch, S, D] -> attention [batch, 1, S], context [batch, D]."""
    # Scaled dot product; the scale sits in the key weights.
    scale = np.float32(weights["keys.weight"].shape[0] ** -0.5)
    key_weight = constant(weights["keys.weight"] * scale, "attention.key_weight")
    keys = named(opset1.matmul(memory, key_weight, False, True), "attention.keys")
    axis = ids([1], "attention.time_axis")
    row = named(opset1.unsqueeze(query, axis), "attention.query")
    scores = named(opset1.matmul(row, keys, False, True), "attention.scores")
    attention = named(opset8.softmax(scores, 2), "attention.weights")
    mixed = named(opset1.matmul(attention, memory, False, False), "attention.mixed")
    return attention, named(opset1.squeeze(mixed, axis), "attention.context")


def decoder(weights: Weights) -> Model:
    hidden = weights["decoder0.weight_hh_l0"].shape[1]
    width = weights["keys.weight"].shape[1]
    state_names = ("h0", "c0", "h1", "c1")
    # The step.
    token = parameter([-1, 1], "token", Type.i64)
    memory_in = parameter([-1, -1, width], "memory_in")
    h0, c0, h1, c1 = states_in = [parameter([-1, hidden], f"{s}_in") for s in state_names]
    cell0 = lstm_cell(weights, "decoder0", "", token_embedding(weights, token), h0, c0, "cell0")
    attention, context = attend(weights, cell0.output(0), memory_in)
    x1 = named(opset1.concat([cell0.output(0), context], 1), "cell1.input")
    cell1 = lstm_cell(weights, "decoder1", "", x1, h1, c1, "cell1")
    features = named(opset1.concat([cell1.output(0), context], 1), "project.input")
    logits = named(opset1.unsqueeze(linear(weights, "project", features, "project"),
                                    ids([1], "project.time_axis")), "project.step")
    step_results = [result(logits, "logits_step"), result(attention, "attention_step")]
    states_out = [result(value, f"{s}_out") for s, value in zip(
        state_names, (cell0.output(0), cell0.output(1), cell1.output(0), cell1.output(1)))]

    # The loop over the target sequence.
    tokens = parameter([-1, -1], "tokens", Type.i64)
    memory = parameter([-1, -1, width], "memory")
    initial = [parameter([-1, hidden], f"{s}_init") for s in state_names]
    loop = named(opset1.tensor_iterator(), "decoder.loop")
    loop.set_body(Model([*step_results, *states_out], [token, memory_in, *states_in], "step"))
    loop.set_sliced_input(token, tokens.output(0), 0, 1, 1, -1, 1)
    loop.set_invariant_input(memory_in, memory.output(0))
    for inner, first, last in zip(states_in, initial, states_out):
        loop.set_merged_input(inner, first.output(0), last.output(0))
    joined = [loop.get_concatenated_slices(r.output(0), 0, 1, 1, -1, 1) for r in step_results]
    final = [loop.get_iter_value(r.output(0), -1) for r in states_out]
    results = [result(joined[0], "logits"), result(joined[1], "attention")]
    results += [result(value, f"{s}_last") for s, value in zip(state_names, final)]
    return Model(results, [tokens, memory, *initial], "g2p_en_decoder")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="best.npz of train.py")
    parser.add_argument("--out", type=Path, required=True, help="bundle folder")
    args = parser.parse_args()
    weights: Weights = {k: v for k, v in np.load(args.checkpoint).items() if "." in k}
    args.out.mkdir(parents=True, exist_ok=True)
    # The default of save_model: weights become f16, each followed by a Convert.
    save_model(encoder(weights), args.out / "encoder.xml")
    save_model(decoder(weights), args.out / "decoder.xml")
    for name, tokens in (("source", source_vocabulary()), ("target", target_vocabulary())):
        (args.out / f"{name}.vocab").write_text("".join(t + "\n" for t in tokens),
                                                encoding="utf-8")


if __name__ == "__main__":
    main()
