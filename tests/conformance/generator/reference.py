"""Plain NumPy for the cases in which the other implementation is wrong or refuses: one function an operator, in
the words of its document. Slow on purpose; computes in f64 where floats are summed."""

import numpy as np

ACTIVATIONS = {
    "sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "elu": lambda x, a, b: np.where(x < 0, a * (np.exp(x) - 1), x),
    "leakyrelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "affine": lambda x, a, b: a * x + b,
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "softplus": lambda x, a, b: np.log1p(np.exp(x)),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "thresholdedrelu": lambda x, a, b: np.where(x > a, x, 0),
}


class Activations:
    """The activation functions of a cell, with clipping of their arguments."""

    def __init__(self, names, alpha=(), beta=(), clip=0):
        fill = [0.0] * len(names)
        self.functions = list(zip(names, [*alpha, *fill], [*beta, *fill]))
        self.clip = clip

    def __call__(self, index, x, clipped=True):
        name, alpha, beta = self.functions[index]
        if clipped and self.clip > 0:
            x = np.clip(x, -self.clip, self.clip)
        return ACTIVATIONS[name.lower()](x, alpha, beta)


def lstm_step(x, h, c, w, r, b, act, peepholes=None, input_forget=False):
    """One step in OpenVINO's gate order f, i, c, o; peepholes in the order f, i, o. Returns h, c."""
    f, i, g, o = np.split(x @ w.T + h @ r.T + b, 4, axis=1)
    pf, pi, po = np.split(peepholes, 3) if peepholes is not None else (0, 0, 0)
    i = act(0, i + pi * c)
    f = 1 - i if input_forget else act(0, f + pf * c)
    c = f * c + i * act(1, g)
    return act(0, o + po * c) * act(2, c, clipped=False), c


def gru_step(x, h, w, r, b, act, linear_before_reset=False):
    """One step in the gate order z, r, h; b has 4H values with linear_before_reset."""
    size = h.shape[1]
    xw, hr = x @ w.T, h @ r.T
    z = act(0, xw[:, :size] + hr[:, :size] + b[:size])
    reset = act(0, xw[:, size : 2 * size] + hr[:, size : 2 * size] + b[size : 2 * size])
    if linear_before_reset:
        g = act(
            1,
            xw[:, 2 * size :]
            + b[2 * size : 3 * size]
            + reset * (hr[:, 2 * size :] + b[3 * size :]),
        )
    else:
        g = act(1, xw[:, 2 * size :] + b[2 * size :] + (reset * h) @ r[2 * size :].T)
    return (1 - z) * g + z * h


def rnn_step(x, h, w, r, b, act):
    return act(0, x @ w.T + h @ r.T + b)


def sequence(step, x, states, lengths, w, r, b, direction):
    """Runs step(x_t, states, w, r, b) -> states over x [B, T, I]; w, r, b and the states [B, D, H] have a direction
    axis. Returns Y [B, D, T, H], zero past each length, and the last states."""
    batch, time = x.shape[:2]
    num_directions, size = states[0].shape[1:]
    y = np.zeros((batch, num_directions, time, size))
    last = [np.array(state, np.float64) for state in states]
    for d in range(num_directions):
        backward = direction == "reverse" or d == 1
        for row in range(batch):
            now = [state[row : row + 1, d] for state in last]
            steps = range(lengths[row])
            for t in reversed(steps) if backward else steps:
                now = step(x[row : row + 1, t], now, w[d], r[d], b[d])
                y[row, d, t] = now[0][0]
            for state, value in zip(last, now):
                state[row, d] = value[0]
    return [y.astype(np.float32), *(state.astype(np.float32) for state in last)]


def gather_tree(step_ids, parent_ids, lengths, end_token):
    time, batch, beams = step_ids.shape
    out = np.full_like(step_ids, end_token)
    for b in range(batch):
        for k in range(beams):
            at, length = k, min(time, int(lengths[b]))
            for t in reversed(range(length)):
                out[t, b, k] = step_ids[t, b, at]
                at = int(parent_ids[t, b, at])
            ended = np.flatnonzero(out[:, b, k] == end_token)
            if ended.size:
                out[ended[0] :, b, k] = end_token
    return out


def embedding_bags(table, bags, default_row, weights=None):
    """bags: the positions into indices of each bag, as (row of the table, position) pairs."""
    out = np.zeros((len(bags), *table.shape[1:]), np.float64)
    for bag, members in enumerate(bags):
        for row, position in members:
            out[bag] += table[row].astype(np.float64) * (
                1 if weights is None else weights[position]
            )
        if not members and default_row >= 0:
            out[bag] = table[default_row]
    return out.astype(table.dtype)


def parts(array, axis, start, end, stride):
    """The parts of a TensorIterator's sliced input: start and end inclusive, negative ones from the end."""
    extent = array.shape[axis]
    first, last = start % extent, end % extent
    size = abs(stride)
    count = (abs(last - first) + 1) // size
    assert count * size == abs(last - first) + 1
    begins = [first + t * size if stride > 0 else first + 1 - (t + 1) * size for t in range(count)]
    return [np.take(array, range(begin, begin + size), axis) for begin in begins]
