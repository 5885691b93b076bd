"""LSTM, GRU and RNN: directions, lengths, initial states, peepholes, activations, layouts, missing outputs."""

import numpy as np

from .. import reference
from .registry import suite

INPUT, HIDDEN = 3, 4
DIRECTIONS = ["forward", "reverse", "bidirectional"]
OPSETS = [8, 14, 22]


def _count(direction):
    return 2 if direction == "bidirectional" else 1


def _weights(b, gates, directions, bias=True):
    names = [
        b.weights(directions, gates * HIDDEN, INPUT),
        b.weights(directions, gates * HIDDEN, HIDDEN),
    ]
    return [*names, b.weights(directions, 2 * gates * HIDDEN) if bias else ""]


def _sequence(b, batch_first=False):
    shapes = [(5, 3, INPUT), (2, 1, INPUT)]
    return b.input(
        *(
            (batch, time, size) if batch_first else (time, batch, size)
            for time, batch, size in shapes
        )
    )


def _lengths(b):
    return b.input(values=[np.array([5, 1, 3], np.int32), np.array([2], np.int32)])


def _state(b, directions, batch_first=False):
    return b.input(
        *(
            (batch, directions, HIDDEN) if batch_first else (directions, batch, HIDDEN)
            for batch in (3, 1)
        )
    )


@suite.case(direction=DIRECTIONS, opset=OPSETS, lengths=[False, True], bias=[False, True])
def lstm(b, direction, lengths, bias):
    count = _count(direction)
    x = _sequence(b)
    weights = _weights(b, 4, count, bias)
    return b.node(
        "LSTM",
        x,
        *weights,
        _lengths(b) if lengths else "",
        outputs=3,
        hidden_size=HIDDEN,
        direction=direction
    )


@suite.case(direction=DIRECTIONS, peepholes=[False, True], lengths=[False, True])
def lstm_states(b, direction, peepholes, lengths):
    count = _count(direction)
    x = _sequence(b)
    inputs = [
        *_weights(b, 4, count),
        _lengths(b) if lengths else "",
        _state(b, count),
        _state(b, count),
    ]
    if peepholes:
        inputs.append(b.weights(count, 3 * HIDDEN))
    return b.node("LSTM", x, *inputs, outputs=3, hidden_size=HIDDEN, direction=direction)


@suite.case(
    op={"LSTM": ("LSTM", 4), "GRU": ("GRU", 3), "RNN": ("RNN", 1)},
    direction=DIRECTIONS,
    lengths=[False, True],
)
def batch_first(b, op, direction, lengths):
    """ONNX Runtime refuses layout 1: the same numbers computed with layout 0 and transposed."""
    name, gates = op
    count = _count(direction)
    arrays = [
        b.random((count, gates * HIDDEN, INPUT)),
        b.random((count, gates * HIDDEN, HIDDEN)),
        b.random((count, 2 * gates * HIDDEN)),
    ]
    num_states = 2 if name == "LSTM" else 1
    length_values = np.array([5, 1, 3], np.int32) if lengths else np.array([5, 5, 5], np.int32)

    def run(x, *states):
        fold = (arrays[2][:, : gates * HIDDEN] + arrays[2][:, gates * HIDDEN :]).astype(np.float64)
        w, r = arrays[0], arrays[1]
        act = reference.Activations(
            {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}[name]
        )
        if name == "LSTM":
            order = [2, 0, 3, 1]  # i, o, f, c to f, i, c, o
            w, r, fold = (
                np.concatenate([np.split(v, 4, 1)[i] for i in order], 1) for v in (w, r, fold)
            )
        steps = {
            "LSTM": lambda x_t, s, w, r, c: reference.lstm_step(x_t, *s, w, r, c, act),
            "GRU": lambda x_t, s, w, r, c: [reference.gru_step(x_t, *s, w, r, c, act)],
            "RNN": lambda x_t, s, w, r, c: [reference.rnn_step(x_t, *s, w, r, c, act)],
        }
        y, *last = reference.sequence(
            steps[name], x, list(states), length_values, w, r, fold, direction
        )
        return [y.transpose(0, 2, 1, 3), *last]

    b.expect(run, "ONNX Runtime refuses layout 1")
    x = b.input((3, 5, INPUT))
    states = [b.input((3, count, HIDDEN)) for _ in range(num_states)]
    return b.node(
        name,
        x,
        *map(b.constant, arrays),
        b.constant(length_values),
        *states,
        outputs=1 + num_states,
        hidden_size=HIDDEN,
        direction=direction,
        layout=1
    )


@suite.case(
    outputs={
        "y": [True],
        "y_h": [False, True],
        "y_c": [False, False, True],
        "y_y_c": [True, False, True],
    }
)
def lstm_outputs(b, outputs):
    x = _sequence(b)
    return b.node("LSTM", x, *_weights(b, 4, 1), outputs=outputs, hidden_size=HIDDEN)


@suite.case(clip=[0.2, 1.0], direction=["forward", "bidirectional"])
def lstm_clip(b, clip, direction):
    x = _sequence(b)
    return b.node(
        "LSTM",
        x,
        *_weights(b, 4, _count(direction)),
        outputs=3,
        hidden_size=HIDDEN,
        direction=direction,
        clip=clip
    )


@suite.case(
    activations={
        "relu": (["Sigmoid", "Relu", "Tanh"], [], []),
        "hard": (["HardSigmoid", "Tanh", "Softsign"], [0.3], [0.4]),
        "leaky": (["Sigmoid", "LeakyRelu", "Elu"], [0.1, 0.7], []),
        "affine": (["Sigmoid", "Affine", "ScaledTanh"], [0.5, 0.9], [0.1, 0.8]),
        "soft": (["Softplus", "Tanh", "ThresholdedRelu"], [0.1], []),
    }
)
def lstm_activations(b, activations):
    names, alpha, beta = activations
    extra = {
        key: value
        for key, value in (("activation_alpha", alpha), ("activation_beta", beta))
        if value
    }
    x = _sequence(b)
    return b.node(
        "LSTM", x, *_weights(b, 4, 1), outputs=3, hidden_size=HIDDEN, activations=names, **extra
    )


@suite.case()
def lstm_activations_per_direction(b):
    x = _sequence(b)
    names = ["Sigmoid", "Tanh", "Tanh", "HardSigmoid", "Relu", "Tanh"]
    return b.node(
        "LSTM",
        x,
        *_weights(b, 4, 2),
        outputs=3,
        hidden_size=HIDDEN,
        direction="bidirectional",
        activations=names,
        activation_alpha=[0.25],
        activation_beta=[0.45]
    )


@suite.case(peepholes=[False, True])
def lstm_input_forget(b, peepholes):
    x = _sequence(b)
    inputs = [
        *_weights(b, 4, 1),
        "",
        _state(b, 1),
        _state(b, 1),
        *([b.weights(1, 3 * HIDDEN)] if peepholes else []),
    ]
    return b.node("LSTM", x, *inputs, outputs=3, hidden_size=HIDDEN, input_forget=1)


@suite.case(direction=DIRECTIONS, opset=OPSETS, linear_before_reset=[0, 1], lengths=[False, True])
def gru(b, direction, linear_before_reset, lengths):
    x = _sequence(b)
    weights = _weights(b, 3, _count(direction))
    return b.node(
        "GRU",
        x,
        *weights,
        _lengths(b) if lengths else "",
        outputs=2,
        hidden_size=HIDDEN,
        direction=direction,
        linear_before_reset=linear_before_reset
    )


@suite.case(direction=DIRECTIONS, linear_before_reset=[0, 1], clip=[0.0, 0.3])
def gru_states(b, direction, linear_before_reset, clip):
    count = _count(direction)
    x = _sequence(b)
    extra = {"clip": clip} if clip else {}
    return b.node(
        "GRU",
        x,
        *_weights(b, 3, count),
        "",
        _state(b, count),
        outputs=2,
        hidden_size=HIDDEN,
        direction=direction,
        linear_before_reset=linear_before_reset,
        **extra
    )


@suite.case(activations=[["Sigmoid", "Relu"], ["HardSigmoid", "Softsign"]])
def gru_activations(b, activations):
    x = _sequence(b)
    return b.node(
        "GRU",
        x,
        *_weights(b, 3, 1, bias=False),
        outputs=2,
        hidden_size=HIDDEN,
        activations=activations
    )


@suite.case(direction=DIRECTIONS, opset=OPSETS, lengths=[False, True])
def rnn(b, direction, lengths):
    count = _count(direction)
    x = _sequence(b)
    weights = _weights(b, 1, count)
    return b.node(
        "RNN",
        x,
        *weights,
        _lengths(b) if lengths else "",
        _state(b, count),
        outputs=2,
        hidden_size=HIDDEN,
        direction=direction
    )


@suite.case(activation=["Relu", "Sigmoid", "Affine"], clip=[0.0, 0.4])
def rnn_activations(b, activation, clip):
    extra = {"clip": clip} if clip else {}
    if activation == "Affine":
        extra |= {"activation_alpha": [0.5], "activation_beta": [0.2]}
    x = _sequence(b)
    return b.node(
        "RNN",
        x,
        *_weights(b, 1, 1),
        outputs=2,
        hidden_size=HIDDEN,
        activations=[activation],
        **extra
    )
