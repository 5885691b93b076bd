"""Bags, segments and beams."""

import numpy as np
from openvino import opset16 as ops

from .. import reference
from .registry import suite

TABLE = (7, 3)


def _optional(b, default, weights, count):
    """The last two inputs; weights come only with a default index."""
    inputs = []
    if default is not None:
        inputs.append(b.integers(default, np.int32))
    if weights:
        inputs.append(b.input((count,)))
    return inputs


OPTIONS = {"plain": (None, False), "default": (4, False), "weights": (2, True)}


@suite.case(options=OPTIONS, table=["constant", "input"])
def embedding_segments_sum(b, options, table):
    indices = b.input((6,), dtype="i4", low=0, high=6)
    segments = b.constant([0, 0, 2, 2, 2, 3], "i4")
    rows = b.weights(*TABLE) if table == "constant" else b.input(TABLE)
    return ops.embedding_segments_sum(
        rows, indices, segments, b.integers(5, np.int32), *_optional(b, *options, 6)
    )


@suite.case()
def embedding_segments_sum_dynamic(b):
    """Any number of indices and segments, as in a step with a dynamic batch."""
    indices = b.input((6,), (2,), dtype="i8", low=0, high=6)
    segments = b.input(values=[np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0])])
    count = b.input(values=[np.array(3), np.array(1)])
    return ops.embedding_segments_sum(b.weights(*TABLE), indices, segments, count)


@suite.case(default=[-1])
def embedding_segments_sum_no_default(b, default):
    table = b.random(TABLE)
    indices, segments = np.array([3, 5, 5], np.int32), np.array([0, 2, 2], np.int32)
    bags = [[(int(indices[i]), i) for i in np.flatnonzero(segments == s)] for s in range(4)]
    b.expect(
        lambda indices: [reference.embedding_bags(table, bags, default)],
        "the CPU plugin refuses default_index -1",
    )
    return ops.embedding_segments_sum(
        ops.constant(table),
        b.input(values=[indices]),
        ops.constant(segments),
        b.integers(4, np.int32),
        b.integers(default, np.int32),
    )


@suite.case(options=OPTIONS, reduction=["sum", "mean"])
def embedding_bag_offsets(b, options, reduction):
    default, weights = options
    if reduction == "mean" and weights:
        weights = False  # the document allows weights for sums only
    indices = b.input((6,), dtype="i4", low=0, high=6)
    return ops.embedding_bag_offsets(
        b.weights(*TABLE),
        indices,
        b.constant([0, 2, 2, 5], "i4"),
        *_optional(b, default, weights, 6),
        reduction=reduction
    )


@suite.case(weights=[False, True])
def embedding_bag_offsets_sum(b, weights):
    indices = b.input((6,), dtype="i4", low=0, high=6)
    return ops.embedding_bag_offsets_sum(
        b.weights(*TABLE), indices, b.constant([0, 2, 2, 5], "i4"), *_optional(b, 1, weights, 6)
    )


@suite.case()
def embedding_bag_offsets_empty_last(b):
    table = b.random(TABLE)
    indices = np.array([3, 1, 6], np.int32)
    bags = [[(3, 0), (1, 1)], [(6, 2)], []]
    b.expect(
        lambda indices: [reference.embedding_bags(table, bags, 2)],
        "the CPU plugin refuses an empty last bag",
    )
    return ops.embedding_bag_offsets(
        ops.constant(table),
        b.input(values=[indices]),
        b.constant([0, 2, 3], "i4"),
        b.integers(2, np.int32),
    )


@suite.case(weights=[False, True], reduction=["sum", "mean"])
def embedding_bag_packed(b, weights, reduction):
    indices = b.input((4, 3), dtype="i4", low=0, high=6)
    extra = [b.input((4, 3))] if weights and reduction == "sum" else []
    return ops.embedding_bag_packed(b.weights(*TABLE), indices, *extra, reduction=reduction)


@suite.case(weights=[False, True])
def embedding_bag_packed_sum(b, weights):
    indices = b.input((4, 3), dtype="i4", low=0, high=6)
    return ops.embedding_bag_packed_sum(
        b.weights(*TABLE), indices, *([b.input((4, 3))] if weights else [])
    )


def _beams(b, time, batch, beams, dtype):
    steps = b.random((time, batch, beams), "i4", 0, 5).astype(dtype)
    parents = b.random((time, batch, beams), "i4", 0, beams - 1).astype(dtype)
    lengths = b.random((batch,), "i4", 1, time).astype(dtype)
    return steps, parents, lengths


@suite.case(seed=list(range(6)), dtype=["i4", "f4"])
def gather_tree(b, seed, dtype):
    sets = [_beams(b, 6, 3, 4, dtype), _beams(b, 1, 2, 5, dtype)]
    inputs = [b.input(values=list(values)) for values in zip(*sets)]
    return ops.gather_tree(*inputs, b.constant(2, dtype))


@suite.case(dtype=["i4", "i8"])
def gather_tree_lengths(b, dtype):
    steps, parents, _ = _beams(b, 5, 4, 3, dtype)
    parents[3:, 1] = -1  # beyond the length: never followed
    lengths = np.array([0, 3, -2, 9], dtype)
    b.expect(
        lambda *inputs: [reference.gather_tree(*inputs, 2)],
        "the CPU plugin leaves columns of length 0 unwritten",
    )
    return ops.gather_tree(
        *(b.input(values=[value]) for value in (steps, parents, lengths)), b.constant(2, dtype)
    )


@suite.case()
def gather_tree_large_ids(b):
    steps, parents, lengths = _beams(b, 5, 2, 3, "i8")
    steps += 2**33
    b.expect(
        lambda *inputs: [reference.gather_tree(*inputs, 2)], "the CPU plugin computes i64 as i32"
    )
    return ops.gather_tree(
        *(b.input(values=[value]) for value in (steps, parents, lengths)), b.constant(2, "i8")
    )


@suite.case(merge=[False, True])
def ctc_greedy_decoder_seq_len(b, merge):
    lengths = b.input(values=[np.array([7, 4], np.int32)])
    return ops.ctc_greedy_decoder_seq_len(b.input((2, 7, 5)), lengths, b.constant(4, "i4"), merge)
