"""Cells and sequences."""

import numpy as np
from openvino import opset16 as ops
from openvino.utils.node_factory import NodeFactory

from .. import reference
from .registry import suite

INPUT, HIDDEN = 5, 4
BATCHES = [3, 1]
WHY_ACTIVATIONS = "the CPU plugin refuses activations other than sigmoid, tanh and relu"


def _states(b, count, directions=None):
    shapes = [
        (batch, HIDDEN) if directions is None else (batch, directions, HIDDEN) for batch in BATCHES
    ]
    return [b.input(*shapes) for _ in range(count)]


def _weights(b, gates, biases=None, directions=None):
    """W, R and B as arrays."""
    lead = () if directions is None else (directions,)
    shapes = (gates * HIDDEN, INPUT), (gates * HIDDEN, HIDDEN), ((biases or gates) * HIDDEN,)
    return [b.random((*lead, *shape)) for shape in shapes]


@suite.case(
    clip=[0.0, 0.3],
    activations={"default": None, "relu": ["sigmoid", "relu", "tanh"]},
    compress=[False, True],
)
def lstm_cell(b, clip, activations, compress):
    b.compress = compress
    x = b.input(*((batch, INPUT) for batch in BATCHES))
    weights = map(ops.constant, _weights(b, 4))
    return ops.lstm_cell(x, *_states(b, 2), *weights, HIDDEN, activations, clip=clip)


@suite.case(clip=[0.0, 0.3])
def lstm_cell_hard_sigmoid(b, clip):
    names, alpha, beta = ["hardsigmoid", "tanh", "relu"], [0.3], [0.45]
    arrays = _weights(b, 4)
    x = b.input((3, INPUT))
    h, c = b.input((3, HIDDEN)), b.input((3, HIDDEN))
    act = reference.Activations(names, alpha, beta, clip)
    b.expect(
        lambda x, h, c: [v.astype(np.float32) for v in reference.lstm_step(x, h, c, *arrays, act)],
        WHY_ACTIVATIONS,
    )
    return ops.lstm_cell(x, h, c, *map(ops.constant, arrays), HIDDEN, names, alpha, beta, clip)


@suite.case(linear_before_reset=[False, True], clip=[0.0, 0.3], compress=[False, True])
def gru_cell(b, linear_before_reset, clip, compress):
    b.compress = compress
    x = b.input(*((batch, INPUT) for batch in BATCHES))
    weights = map(ops.constant, _weights(b, 3, 4 if linear_before_reset else 3))
    return ops.gru_cell(
        x, *_states(b, 1), *weights, HIDDEN, clip=clip, linear_before_reset=linear_before_reset
    )


@suite.case(linear_before_reset=[False, True])
def gru_cell_hard_sigmoid(b, linear_before_reset):
    names, alpha, beta = ["hardsigmoid", "tanh"], [0.3], [0.45]
    arrays = _weights(b, 3, 4 if linear_before_reset else 3)
    act = reference.Activations(names, alpha, beta)
    b.expect(
        lambda x, h: [
            reference.gru_step(x, h, *arrays, act, linear_before_reset).astype(np.float32)
        ],
        WHY_ACTIVATIONS,
    )
    x, h = b.input((3, INPUT)), b.input((3, HIDDEN))
    return ops.gru_cell(
        x,
        h,
        *map(ops.constant, arrays),
        HIDDEN,
        names,
        alpha,
        beta,
        linear_before_reset=linear_before_reset
    )


@suite.case(activation=["tanh", "relu", "sigmoid"], clip=[0.0, 0.3])
def rnn_cell(b, activation, clip):
    x = b.input(*((batch, INPUT) for batch in BATCHES))
    weights = map(ops.constant, _weights(b, 1))
    return ops.rnn_cell(x, *_states(b, 1), *weights, HIDDEN, [activation], [], [], clip=clip)


def _directions(direction):
    return 2 if direction == "bidirectional" else 1


def _sequence_input(b):
    return b.input(*((batch, time, INPUT) for batch, time in zip(BATCHES, [6, 3])))


@suite.case(
    direction=["forward", "reverse", "bidirectional"], clip=[0.0, 0.4], compress=[False, True]
)
def lstm_sequence(b, direction, clip, compress):
    b.compress = compress
    count = _directions(direction)
    x = _sequence_input(b)
    states = _states(b, 2, count)
    lengths = b.input(values=[np.array([6, 6, 6], np.int32), np.array([3], np.int32)])
    weights = map(ops.constant, _weights(b, 4, directions=count))
    return ops.lstm_sequence(x, *states, lengths, *weights, HIDDEN, direction, clip=clip)


@suite.case(kind=["symmetric", "asymmetric"])
def lstm_sequence_quantised(b, kind):
    """Weights in 8 bits, as NNCF writes them: Convert, perhaps Subtract, Multiply."""

    def restored(array):
        scale = np.abs(array).max(-1, keepdims=True) / 120
        zero = 131 if kind == "asymmetric" else 0
        numbers = np.round(array / scale) + zero
        number = ops.convert(b.constant(numbers, "u1" if zero else "i1"), "f32")
        if zero:
            number = ops.subtract(number, b.constant(zero, "f4"))
        return ops.multiply(number, b.constant(scale, "f4"))

    x = _sequence_input(b)
    states = _states(b, 2, 1)
    lengths = b.input(values=[np.array([6, 6, 6], np.int32), np.array([3], np.int32)])
    w, r, bias = _weights(b, 4, directions=1)
    return ops.lstm_sequence(
        x, *states, lengths, restored(w), restored(r), b.constant(bias), HIDDEN, "forward"
    )


@suite.case(direction=["forward", "reverse", "bidirectional"])
def lstm_sequence_lengths(b, direction):
    """Rows of different length, with static shapes: the plugin ignores lengths with dynamic ones."""
    count = _directions(direction)
    arrays = _weights(b, 4, directions=count)
    act = reference.Activations(["sigmoid", "tanh", "tanh"])

    def step(x, states, w, r, bias):
        return reference.lstm_step(x, *states, w, r, bias, act)

    b.expect(
        lambda x, h, c, lengths: reference.sequence(step, x, [h, c], lengths, *arrays, direction),
        "the CPU plugin ignores sequence lengths in some configurations",
    )
    x, h, c = b.input((4, 5, INPUT)), b.input((4, count, HIDDEN)), b.input((4, count, HIDDEN))
    lengths = b.input(values=[np.array([5, 1, 3, 2], np.int32)])
    return ops.lstm_sequence(x, h, c, lengths, *map(ops.constant, arrays), HIDDEN, direction)


@suite.case(direction=["forward", "reverse", "bidirectional"], linear_before_reset=[False, True])
def gru_sequence(b, direction, linear_before_reset):
    count = _directions(direction)
    x = _sequence_input(b)
    states = _states(b, 1, count)
    lengths = b.input(values=[np.array([6, 6, 6], np.int32), np.array([3], np.int32)])
    weights = map(ops.constant, _weights(b, 3, 4 if linear_before_reset else 3, directions=count))
    return ops.gru_sequence(
        x, *states, lengths, *weights, HIDDEN, direction, linear_before_reset=linear_before_reset
    )


@suite.case(direction=["forward", "reverse", "bidirectional"], linear_before_reset=[False, True])
def gru_sequence_lengths(b, direction, linear_before_reset):
    count = _directions(direction)
    arrays = _weights(b, 3, 4 if linear_before_reset else 3, directions=count)
    act = reference.Activations(["sigmoid", "tanh"])

    def step(x, states, w, r, bias):
        return [reference.gru_step(x, *states, w, r, bias, act, linear_before_reset)]

    b.expect(
        lambda x, h, lengths: reference.sequence(step, x, [h], lengths, *arrays, direction),
        "the CPU plugin ignores GRUSequence's lengths with dynamic shapes",
    )
    x, h = b.input((4, 5, INPUT), (2, 3, INPUT)), b.input((4, count, HIDDEN), (2, count, HIDDEN))
    lengths = b.input(values=[np.array([5, 1, 3, 2], np.int32), np.array([2, 3], np.int32)])
    return ops.gru_sequence(
        x,
        h,
        lengths,
        *map(ops.constant, arrays),
        HIDDEN,
        direction,
        linear_before_reset=linear_before_reset
    )


@suite.case(direction=["forward", "reverse", "bidirectional"], activation=["tanh", "relu"])
def rnn_sequence(b, direction, activation):
    count = _directions(direction)
    x = _sequence_input(b)
    states = _states(b, 1, count)
    lengths = b.input(values=[np.array([6, 6, 6], np.int32), np.array([3], np.int32)])
    weights = map(ops.constant, _weights(b, 1, directions=count))
    return ops.rnn_sequence(x, *states, lengths, *weights, HIDDEN, direction, [activation])


@suite.case(direction=["forward", "reverse", "bidirectional"])
def rnn_sequence_lengths(b, direction):
    count = _directions(direction)
    arrays = _weights(b, 1, directions=count)
    act = reference.Activations(["tanh"])
    b.expect(
        lambda x, h, lengths: reference.sequence(
            lambda x_t, states, w, r, bias: [reference.rnn_step(x_t, *states, w, r, bias, act)],
            x,
            [h],
            lengths,
            *arrays,
            direction
        ),
        "the CPU plugin ignores sequence lengths in some configurations",
    )
    x, h = b.input((3, 5, INPUT)), b.input((3, count, HIDDEN))
    lengths = b.input(values=[np.array([5, 1, 3], np.int32)])
    return ops.rnn_sequence(x, h, lengths, *map(ops.constant, arrays), HIDDEN, direction, ["tanh"])


@suite.case()
def lstm_cell_of_opset1(b):
    """Version 1 of the cell carries weights_format and input_forget."""
    arrays = _weights(b, 4)
    x, h, c = b.input((3, INPUT)), b.input((3, HIDDEN)), b.input((3, HIDDEN))
    return NodeFactory("opset1").create(
        "LSTMCell",
        [node.output(0) for node in (x, h, c, *map(ops.constant, arrays))],
        {"hidden_size": HIDDEN, "weights_format": "fico"},
    )
