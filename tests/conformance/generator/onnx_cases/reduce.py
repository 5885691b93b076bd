"""Reductions, normalisations and sorting across opsets: axes moved from attributes to inputs."""

import numpy as np

from .registry import suite

REDUCTIONS = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
]


@suite.case(
    op=REDUCTIONS,
    opset=[8, 11, 13, 18],
    keep=[0, 1],
    axes={"all": None, "last": [-1], "two": [0, 2]},
)
def reduce(b, op, keep, axes):
    x = b.input((2, 3, 4), (1, 3, 2), low=0.5, high=2)
    if axes and b.opset < 11:
        axes = [axis % 3 for axis in axes]  # negative axes came with 11
    as_input = b.opset >= 18 or (op == "ReduceSum" and b.opset >= 13)
    if axes is None:
        return b.node(op, x, keepdims=keep)
    return (
        b.node(op, x, b.integers(axes), keepdims=keep)
        if as_input
        else b.node(op, x, axes=axes, keepdims=keep)
    )


@suite.case(op=["ReduceSum", "ReduceMean"], noop=[0, 1])
def reduce_empty_axes(b, op, noop):
    b.opset = 18
    return b.node(op, b.input((2, 3)), noop_with_empty_axes=noop)


@suite.case(
    op=["Softmax", "LogSoftmax", "Hardmax"],
    opset=[8, 11, 13],
    axis={"default": None, "0": 0, "1": 1, "2": 2},
)
def softmax(b, op, axis):
    return b.node(
        op,
        b.input((2, 3, 4), (1, 5, 2), low=-4, high=4),
        **({} if axis is None else {"axis": axis})
    )


@suite.case(op=["ArgMax", "ArgMin"], opset=[8, 12, 13], keep=[0, 1], last=[0, 1])
def arg_max(b, op, keep, last):
    x = b.input((3, 4), dtype="i4", low=0, high=2) if b.opset >= 12 else b.input((3, 4))
    extra = {"select_last_index": last} if b.opset >= 12 else {}
    return b.node(op, x, axis=1, keepdims=keep, **extra)


@suite.case(opset=[8, 10, 11, 24], largest=[0, 1], k=[1, 3])
def topk(b, largest, k):
    x = b.input(values=[b.rng.permutation(20).reshape(4, 5).astype(np.float32)])
    if b.opset < 10:
        return b.node("TopK", x, outputs=2, axis=1, k=k)
    extra = {} if b.opset < 11 else {"largest": largest}
    return b.node("TopK", x, b.integers([k]), outputs=2, axis=1, **extra)


@suite.case(exclusive=[0, 1], reverse=[0, 1], opset=[11, 14])
def cum_sum(b, exclusive, reverse):
    return b.node(
        "CumSum", b.input((3, 4), (2, 4)), b.constant(1, "i4"), exclusive=exclusive, reverse=reverse
    )


@suite.case(exclusive=[0, 1], reverse=[0, 1], dtype=["f4", "i4"])
def cum_prod(b, exclusive, reverse, dtype):
    b.opset = 26
    x = b.input((3, 4), (2, 4), dtype=dtype, low=-3, high=3)
    return b.node("CumProd", x, b.constant(1, "i4"), exclusive=exclusive, reverse=reverse)


@suite.case(
    opset=[11, 25], axis={"all": None, "0": 0, "last": -1}, sorted=[0, 1], dtype=["f4", "i8"]
)
def unique(b, axis, sorted, dtype):
    """Few different values, so that whole slices are equal, too."""
    arrays = [b.random(shape, "i4", 0, 1).astype(dtype) for shape in [(5, 2, 3), (2, 4, 4)]]
    attributes = {} if axis is None else {"axis": axis}
    return b.node("Unique", b.input(values=arrays), outputs=4, sorted=sorted, **attributes)


@suite.case(opset=[8, 13], size=[1, 2, 3, 5], rank=[3, 4, 5])
def local_response_normalization(b, size, rank):
    def by_hand(x):
        around = [(0, 0)] * x.ndim
        around[1] = ((size - 1) // 2, size // 2)
        squares = np.lib.stride_tricks.sliding_window_view(np.pad(x**2, around), size, 1)
        return [x / (1.5 + 0.02 / size * squares.sum(-1)) ** 0.6]

    x = b.input((2, 4, 3, 2, 3)[:rank], (1, 4, 5, 3, 2)[:rank])
    if rank != 4 or size % 2 == 0:
        b.expect(by_hand, "ONNX Runtime takes rank 4 and odd sizes alone")
    return b.node("LRN", x, size=size, alpha=0.02, beta=0.6, bias=1.5)


@suite.case(axis=[-1, 1], bias=[False, True])
def layer_normalization(b, axis, bias):
    b.opset = 17
    shape = (4,) if axis == -1 else (3, 4)
    inputs = [b.weights(*shape), *([b.weights(*shape)] if bias else [])]
    return b.node(
        "LayerNormalization", b.input((2, 3, 4), (5, 3, 4)), *inputs, axis=axis, epsilon=1e-4
    )


@suite.case(axis=[-1, 1])
def rms_normalization(b, axis):
    b.opset = 23
    return b.node(
        "RMSNormalization",
        b.input((2, 3, 4)),
        b.weights(*((4,) if axis == -1 else (3, 4))),
        axis=axis,
    )


@suite.case(opset=[8, 9, 14, 15])
def batch_normalization(b):
    x = b.input((2, 3, 4), (1, 3, 2))
    return b.node(
        "BatchNormalization",
        x,
        b.weights(3),
        b.weights(3),
        b.weights(3),
        b.weights(3, low=0.5, high=2),
        epsilon=1e-4,
    )


@suite.case(opset=[8, 22])
def instance_normalization(b):
    return b.node(
        "InstanceNormalization", b.input((2, 3, 4, 5)), b.weights(3), b.weights(3), epsilon=1e-4
    )


@suite.case(opset=[18, 21])
def group_normalization(b):
    count = 2 if b.opset == 18 else 4
    return b.node(
        "GroupNormalization", b.input((2, 4, 3)), b.weights(count), b.weights(count), num_groups=2
    )


@suite.case(axis=[0, -1], p=[1, 2])
def lp_normalization(b, axis, p):
    return b.node("LpNormalization", b.input((3, 4)), axis=axis, p=p)


@suite.case(op=["mean_variance"], opset=[9, 13])
def mean_variance_normalization(b, op):
    return b.node("MeanVarianceNormalization", b.input((2, 3, 4, 5)))


@suite.case(size=[1, 3])
def lrn(b, size):
    return b.node("LRN", b.input((2, 5, 3, 3)), size=size, alpha=1e-2, beta=0.75, bias=1.5)
