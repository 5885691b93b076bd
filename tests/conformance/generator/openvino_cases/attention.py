"""Attention as graphs spell it: one operator, or products and a normalisation; with masks and heads."""

import numpy as np
from openvino import opset16 as ops

from .registry import suite

# Queries [2, heads, 3, 8], keys and values [2, heads, 5, 8]; then another source length.
QUERIES = [(2, 3, 4, 8), (1, 3, 1, 8)]
KEYS = [(2, 3, 6, 8), (1, 3, 9, 8)]
SCORES = [(2, 3, 4, 6), (1, 3, 1, 9)]


@suite.case(mask=["none", "float", "boolean"], scale=[False, True], causal=[False, True])
def scaled_dot_product_attention(b, mask, scale, causal):
    query, key, value = b.input(*QUERIES), b.input(*KEYS), b.input(*KEYS)
    extra = []
    if mask != "none" and not causal:
        dtype = "f4" if mask == "float" else "?"
        extra.append(
            b.input(*(shape[:1] + (1,) + shape[2:] for shape in SCORES), dtype=dtype, low=-3)
        )
    elif scale:
        extra.append(b.constant(0, "f4"))
    if scale:
        extra.append(b.constant(0.3, "f4"))
    return ops.scaled_dot_product_attention(query, key, value, *extra, causal=causal)


@suite.case(softmax=["softmax", "exp"], mask=[False, True], scale=["before", "after"])
def dot_attention(b, softmax, mask, scale):
    """Query [B, H], memory [B, S, H]; padded places get a large negative score."""
    query, memory = b.input((3, 8), (1, 8)), b.input((3, 5, 8), (1, 2, 8))
    factor = b.constant(8**-0.5, "f4")
    row = ops.unsqueeze(
        ops.multiply(query, factor) if scale == "before" else query, b.integers([1])
    )
    scores = ops.matmul(row, memory, False, True)
    if scale == "after":
        scores = ops.multiply(scores, factor)
    if mask:
        present = b.input(
            values=[
                np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]], bool),
                np.array([[1, 1]], bool),
            ]
        )
        present = ops.unsqueeze(present, b.integers([1]))
        scores = ops.select(present, scores, b.constant(-1e9, "f4"))
    weights = ops.softmax(scores, 2) if softmax == "softmax" else _softmax_by_hand(b, scores)
    return [weights, ops.squeeze(ops.matmul(weights, memory, False, False), b.integers([1]))]


def _softmax_by_hand(b, scores):
    axis = b.integers([-1])
    exponents = ops.exp(ops.subtract(scores, ops.reduce_max(scores, axis, True)))
    return ops.divide(exponents, ops.reduce_sum(exponents, axis, True))


@suite.case(compress=[False, True])
def additive_attention(b, compress):
    """Bahdanau's: v . tanh(W q + U k)."""
    b.compress = compress
    query, memory = b.input((3, 8), (1, 8)), b.input((3, 5, 6), (1, 2, 6))
    projected = ops.unsqueeze(ops.matmul(query, b.weights(8, 7), False, False), b.integers([1]))
    keys = ops.matmul(memory, b.weights(7, 6), False, True)
    energy = ops.matmul(ops.tanh(ops.add(projected, keys)), b.weights(7, 1), False, False)
    weights = ops.softmax(energy, 1)
    context = ops.reduce_sum(ops.multiply(weights, memory), b.integers([1]), False)
    return [weights, context]


@suite.case(spelling=["transpose", "split"])
def multi_head_attention(b, spelling):
    """Self attention over [B, S, 12] with 3 heads."""
    x = b.input((2, 5, 12), (1, 3, 12))
    projected = ops.matmul(x, b.weights(12, 36), False, False)
    if spelling == "transpose":
        heads = ops.reshape(projected, b.integers([0, 0, 9, 4]), True)
        heads = ops.transpose(heads, b.integers([0, 2, 1, 3]))
        query, key, value = ops.split(heads, b.integers(1), 3).outputs()
    else:
        parts = ops.split(projected, b.integers(-1), 3).outputs()
        query, key, value = (
            ops.transpose(
                ops.reshape(part, b.integers([0, 0, 3, 4]), True), b.integers([0, 2, 1, 3])
            )
            for part in parts
        )
    scores = ops.multiply(ops.matmul(query, key, False, True), b.constant(0.5, "f4"))
    mixed = ops.matmul(ops.softmax(scores, -1), value, False, False)
    return ops.reshape(ops.transpose(mixed, b.integers([0, 2, 1, 3])), b.integers([0, 0, 12]), True)
