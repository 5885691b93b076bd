"""Reductions, and what is normalised over an axis."""

import numpy as np
from openvino import opset16 as ops

from .registry import suite

REDUCTIONS = {
    "L1": ops.reduce_l1,
    "L2": ops.reduce_l2,
    "Max": ops.reduce_max,
    "Mean": ops.reduce_mean,
    "Min": ops.reduce_min,
    "Prod": ops.reduce_prod,
    "Sum": ops.reduce_sum,
}
LOGICAL = {"And": ops.reduce_logical_and, "Or": ops.reduce_logical_or}


@suite.case(op=REDUCTIONS, axes=[[0], [1, -1], [0, 1, 2]], keep=[False, True])
def reduce(b, op, axes, keep):
    return op(b.input((2, 3, 4), (5, 3, 1), low=0.5, high=2), b.integers(axes), keep)


@suite.case(op={name: REDUCTIONS[name] for name in ["Max", "Mean", "Sum"]})
def reduce_no_axes(b, op):
    b.expect(lambda x: [x], "the document's identity; the CPU plugin refuses it")
    return op(b.input((2, 3)), b.integers([]), False)


@suite.case(
    op={name: REDUCTIONS[name] for name in ["Max", "Min", "Sum", "Prod"]}, dtype=["i4", "i8"]
)
def reduce_integer(b, op, dtype):
    return op(b.input((3, 4), dtype=dtype, low=-4, high=4), b.integers([1]), False)


@suite.case(op=LOGICAL, axes=[[0], [0, 1]], keep=[False, True])
def reduce_logical(b, op, axes, keep):
    return op(b.input((3, 4), dtype="?"), b.integers(axes), keep)


@suite.case(op=REDUCTIONS)
def reduce_long(b, op):
    """Long sums: the order of additions must not matter more than the tolerance."""
    return op(b.input((2, 4099), low=0.9, high=1.001), b.integers([1]), False)


@suite.case(axis=[0, 1, 2, -1], op={"SoftMax": ops.softmax, "LogSoftmax": ops.log_softmax})
def softmax(b, op, axis):
    return op(b.input((2, 3, 7), (1, 5, 2), low=-6, high=6), axis)


@suite.case(op={"SoftMax": ops.softmax, "LogSoftmax": ops.log_softmax})
def softmax_masked(b, op):
    x = b.random((3, 6), low=-6, high=6)
    x[0, 2:] = -np.inf
    x[1] *= 100
    return op(b.input(values=[x]), 1)


@suite.case(exclusive=[False, True], reverse=[False, True], axis=[0, -1])
def cum_sum(b, exclusive, reverse, axis):
    return ops.cum_sum(b.input((3, 5), (4, 1)), b.integers(axis), exclusive, reverse)


@suite.case(
    axes=[[1], [2, 3], [1, 2, 3], [-1]],
    mode=["INSIDE_SQRT", "OUTSIDE_SQRT"],
    variance=[False, True],
)
def mvn(b, axes, mode, variance):
    return ops.mvn(b.input((2, 3, 4, 5), (1, 3, 2, 7)), b.integers(axes), variance, 1e-5, mode)


@suite.case(mode=["add", "max"], axes=[[1], [-1], [1, 2]])
def normalize_l2(b, mode, axes):
    return ops.normalize_l2(b.input((2, 3, 4), (1, 3, 6)), b.integers(axes), 1e-4, mode)


@suite.case(k=[1, 3, 5], mode=["max", "min"], axis=[0, -1], sort=["value", "index"])
def topk(b, k, mode, axis, sort):
    values = b.rng.permutation(35).reshape(5, 7).astype(np.float32)
    values2 = b.rng.permutation(54).reshape(6, 9).astype(np.float32)
    return ops.topk(b.input(values=[values, values2]), b.integers(k), axis, mode, sort, "i64")


@suite.case(mode=["max", "min"])
def topk_stable(b, mode):
    return ops.topk(
        b.input((4, 9), dtype="i4", low=0, high=3),
        b.integers(4),
        1,
        mode,
        "value",
        "i32",
        stable=True,
    )


@suite.case(size=[1, 3, 5])
def lrn(b, size):
    return ops.lrn(b.input((2, 6, 3, 4)), b.integers([1]), 1e-2, 0.75, 1.5, size)


@suite.case(groups=[1, 2, 4])
def group_normalization(b, groups):
    return ops.group_normalization(
        b.input((2, 4, 3, 5), (1, 4, 2, 2)), b.weights(4), b.weights(4), groups, 1e-4
    )


@suite.case(rank=[2, 4])
def batch_norm_inference(b, rank):
    x = b.input((2, 3, 4, 5)[:rank], (1, 3, 2, 2)[:rank])
    return ops.batch_norm_inference(
        x, b.weights(3), b.weights(3), b.weights(3), b.weights(3, low=0.5, high=2), 1e-4
    )
