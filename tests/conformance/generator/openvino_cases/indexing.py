"""Operators that read, write or find elements by index."""

import numpy as np
from openvino import opset1, opset7
from openvino import opset16 as ops

from .registry import suite


@suite.case(indices={"scalar": (), "row": (3,), "grid": (2, 2)}, axis=[0, 1, -1])
def gather(b, indices, axis):
    # From -4 on: the smallest extent is 4, negative indices count from the end.
    index = b.random(indices, "i4", -4, 3)
    return ops.gather(b.input((4, 5, 6), (7, 4, 5)), b.input(values=[index]), b.integers(axis))


@suite.case(batch_dims=[1, 2, -1])
def gather_batched(b, batch_dims):
    return ops.gather(
        b.input((2, 3, 5), (2, 3, 9)),
        b.input((2, 3, 4), dtype="i8", low=-5, high=4),
        b.integers(2),
        batch_dims,
    )


@suite.case(opset={"1": opset1, "7": opset7})
def gather_older(b, opset):
    return opset.gather(
        b.weights(6, 3), b.input((2, 4), (5, 1), dtype="i4", low=0, high=5), b.integers(0)
    )


@suite.case(dtype=["f2", "i4", "?"])
def gather_types(b, dtype):
    return ops.gather(
        b.input((6, 3), dtype=dtype, low=-9, high=9),
        b.input((4,), dtype="i8", low=0, high=5),
        b.integers(0),
    )


@suite.case(axis=[0, 1, -1])
def gather_elements(b, axis):
    return ops.gather_elements(
        b.input((3, 4, 5)), b.input((3, 4, 5), dtype="i4", low=-3, high=2), axis
    )


@suite.case(batch_dims=[0, 1], depth=[1, 2])
def gather_nd(b, batch_dims, depth):
    return ops.gather_nd(
        b.input((3, 4, 5), (3, 4, 2)), b.input((3, 2, depth), dtype="i8", low=0, high=1), batch_dims
    )


@suite.case(axis=[0, -1], dtype=["f4", "i8"], indices=["scalar", "vector"])
def one_hot(b, axis, dtype, indices):
    on, off = b.constant(2, dtype), b.constant(-1, dtype)
    shapes = [()] if indices == "scalar" else [(3, 2), (1, 4)]
    return ops.one_hot(b.input(*shapes, dtype="i8", low=0, high=4), b.integers(5), on, off, axis)


@suite.case(dtype=["f4", "i8", "?"])
def non_zero(b, dtype):
    return ops.non_zero(
        b.input((3, 4), (1, 6), dtype=dtype, low=0, high=1 if dtype == "i8" else 0.0001), "i64"
    )


@suite.case(axis=[0, 1])
def scatter_update(b, axis):
    indices = b.rng.permutation(4)[:3].astype(np.int32)
    updates = [3 if i == axis else extent for i, extent in enumerate((4, 5))]
    return ops.scatter_update(
        b.input((4, 5)), b.input(values=[indices]), b.input(tuple(updates)), b.integers(axis)
    )


@suite.case(reduction=["none", "sum", "prod", "min", "max", "mean"], init=[False, True])
def scatter_elements_update(b, reduction, init):
    indices = np.array([[0, 2, 1], [3, 1, 0]], np.int32)
    if reduction != "none":
        indices[1, 1] = 2  # the same place twice
    kind = dict(low=0.5, high=2)
    return ops.scatter_elements_update(
        b.input((4, 3), **kind),
        b.input(values=[indices]),
        b.input((2, 3), **kind),
        b.integers(0),
        reduction,
        init,
    )


@suite.case(reduction=["none", "sum", "sub", "prod", "min", "max"])
def scatter_nd_update(b, reduction):
    indices = np.array([[0, 1], [2, 3], [3, 0]], np.int64)
    return ops.scatter_nd_update(
        b.input((4, 5, 2)), b.input(values=[indices]), b.input((3, 2)), reduction
    )


@suite.case(diagonal=[0, 2, -1])
def eye(b, diagonal):
    return ops.eye(b.integers(4), b.integers(5), b.integers(diagonal), "f32")


@suite.case(right=[False, True])
def bucketize(b, right):
    boundaries = b.constant([-0.5, 0.0, 0.25, 0.5], "f4")
    return ops.bucketize(
        b.input(values=[np.array([[-1, -0.5, 0.1], [0.25, 0.5, 9]], np.float32)]),
        boundaries,
        "i64",
        right,
    )


@suite.case(right=[False, True])
def search_sorted(b, right):
    return ops.search_sorted(b.constant([-0.5, 0.0, 0.25, 0.5], "f4"), b.input((7,)), right)


@suite.case(sorted=[False, True], axis={"none": None, "0": 0})
def unique(b, sorted, axis):
    x = b.input((4, 2) if axis == 0 else (9,), dtype="i4", low=0, high=2)
    return ops.unique(x, b.integers(0) if axis == 0 else None, sorted)
