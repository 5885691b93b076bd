"""Operators with a state of fixed size: linear attention, and the convolution in front of it. com.microsoft's run
in ONNX Runtime; those of opset 27, which it does not load yet, are compared with plain NumPy."""

import numpy as np

from .registry import suite

WHY = "ONNX Runtime 1.31.1 does not load opset 27"
DOMAINS = {"microsoft": "com.microsoft", "standard": ""}
BATCHES = [(2, 4), (1, 1)]  # rows and time of the data sets


def apart(x, heads):
    """[batch, time, heads * width] as [time, batch, heads, width]."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 0, 2, 3).astype(np.float64)


def linear_attention_by_hand(heads, rule, scale):
    """A function of the inputs in the order in which the case adds them."""

    def run(q, k, v, state, decay=None, beta=None):
        if "delta" in rule and beta is None:
            decay, beta = None, decay
        group = heads[0] // heads[1]
        q, k, v = apart(q, heads[0]), apart(k, heads[1]), apart(v, heads[1])
        state = state.astype(np.float64)
        outputs = []
        for t in range(len(q)):
            if decay is not None:
                factors = np.exp(apart(decay, heads[1])[t])[..., None]
                state = state * factors
            added = v[t]
            if beta is not None:
                known = np.einsum("bhk,bhkv->bhv", k[t], state)
                added = (added - known) * beta[:, t, :, None]
            state = state + np.einsum("bhk,bhv->bhkv", k[t], added)
            keys = np.repeat(state, group, 1)
            factor = scale or q.shape[-1] ** -0.5
            outputs.append(factor * np.einsum("bhk,bhkv->bhv", q[t], keys))
        y = np.stack(outputs, 1)
        return [y.reshape(*y.shape[:2], -1).astype(np.float32), state.astype(np.float32)]

    return run


@suite.case(
    domain=DOMAINS,
    rule=["linear", "gated", "delta", "gated_delta"],
    heads={"alike": (2, 2), "grouped": (4, 2)},
    decay=["head", "key"],
    scale=[0, 0.3],
)
def linear_attention(b, domain, rule, heads, decay, scale):
    b.opset = 21 if domain else 27
    keys, values = 3, 5
    widths = [heads[0] * keys, heads[1] * keys, heads[1] * values]
    inputs = [b.input(*((*batch, width) for batch in BATCHES)) for width in widths]
    inputs.append(b.input(*((rows, heads[1], keys, values) for rows, _ in BATCHES)))
    if "gated" in rule:
        width = heads[1] * (keys if decay == "key" else 1)
        inputs.append(b.input(*((*batch, width) for batch in BATCHES), low=-1, high=0))
    if "delta" in rule:
        inputs += [""] if len(inputs) == 4 else []
        inputs.append(b.input(*((*batch, heads[1]) for batch in BATCHES), low=0, high=1))
    if not domain:
        b.expect(linear_attention_by_hand(heads, rule, scale), WHY)
    return b.node(
        "LinearAttention",
        *inputs,
        outputs=2,
        domain=domain,
        q_num_heads=heads[0],
        kv_num_heads=heads[1],
        update_rule=rule,
        scale=float(scale),
    )


@suite.case(domain=DOMAINS)
def linear_attention_from_zeros(b, domain):
    b.opset = 21 if domain else 27
    inputs = [b.input(*((*batch, 6) for batch in BATCHES)) for _ in range(3)]
    if not domain:
        run = linear_attention_by_hand((2, 2), "linear", 0)
        b.expect(lambda q, k, v: run(q, k, v, np.zeros((len(q), 2, 3, 3))), WHY)
    return b.node(
        "LinearAttention",
        *inputs,
        outputs=2,
        domain=domain,
        q_num_heads=2,
        kv_num_heads=2,
        update_rule="linear",
    )


def causal_convolution_by_hand(width, activation):
    def run(x, w, bias, past):
        positions = np.concatenate([past, x], 2).astype(np.float64)
        windows = np.lib.stride_tricks.sliding_window_view(positions, width, 2)
        y = np.einsum("bctk,ck->bct", windows, w[:, 0]) + bias[:, None]
        y = y / (1 + np.exp(-y)) if activation != "none" else y
        rest = positions[:, :, positions.shape[2] - (width - 1) :]
        return [y.astype(np.float32), rest.astype(np.float32)]

    return run


@suite.case(domain=DOMAINS, width=[1, 2, 4], activation=["none", "silu"], optional=[False, True])
def causal_conv_with_state(b, domain, width, activation, optional):
    """Sources longer and shorter than the window."""
    b.opset = 21 if domain else 27
    x = b.input((2, 5, 7), (1, 5, 1))
    weights, bias = b.random((5, 1, width)), b.random((5,))
    inputs = [x, b.constant(weights)]
    if optional:
        inputs += [b.constant(bias), b.input((2, 5, width - 1), (1, 5, width - 1))]
    if not domain:
        run = causal_convolution_by_hand(width, activation)
        b.expect(
            lambda x, past=None: run(
                x,
                weights,
                bias if optional else np.zeros(5),
                np.zeros((len(x), 5, width - 1)) if past is None else past,
            ),
            WHY,
        )
    return b.node(
        "CausalConvWithState", *inputs, outputs=2, domain=domain, activation=activation
    )
