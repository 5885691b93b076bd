"""Operators that move elements, across the opsets that changed how their parameters are given."""

import numpy as np
from onnx import helper, numpy_helper

from .registry import suite


@suite.case(
    opset=[8, 10, 11, 13],
    ranges={
        "part": ([1, 0], [3, 2], [0, 2], [1, 1]),
        "negative": ([-3], [-1], [1], [1]),
        "beyond": ([1], [2**31], [-1], [1]),
        "steps": ([0, 5], [9, -9], [1, 2], [2, -2]),
    },
)
def slices(b, ranges):
    starts, ends, axes, steps = ranges
    x = b.input((4, 5, 6), (5, 5, 6))
    if b.opset < 10:
        return b.node("Slice", x, starts=starts, ends=ends, axes=[axis % 3 for axis in axes])
    return b.node("Slice", x, *(b.integers(values) for values in (starts, ends, axes, steps)))


@suite.case(opset=[8, 11, 13, 18], axis=[0, 1], split={"even": None, "given": [1, 3]})
def split(b, axis, split):
    x = b.input((4, 4, 3))
    if split is None:
        return b.node(
            "Split", x, outputs=2, axis=axis, **({"num_outputs": 2} if b.opset >= 18 else {})
        )
    if b.opset < 13:
        return b.node("Split", x, outputs=2, axis=axis, split=split)
    return b.node("Split", x, b.integers(split), outputs=2, axis=axis)


@suite.case()
def split_uneven(b):
    b.opset = 18
    return b.node("Split", b.input((7, 2)), outputs=3, num_outputs=3)


@suite.case(op=["Squeeze", "Unsqueeze"], opset=[8, 11, 13, 21], axes=[[0], [0, 2]])
def squeeze(b, op, axes):
    x = b.input((1, 3, 1, 4), (1, 2, 1, 4)) if op == "Squeeze" else b.input((3, 4), (2, 4))
    return b.node(op, x, axes=axes) if b.opset < 13 else b.node(op, x, b.integers(axes))


@suite.case(opset=[8, 13, 14, 21], shape=[[6, 4], [0, -1], [2, 0, 4]])
def reshape(b, shape):
    return b.node("Reshape", b.input((2, 3, 4)), b.integers(shape))


@suite.case()
def reshape_allowzero(b):
    b.opset = 14
    return b.node("Reshape", b.input((0, 3)), b.integers([3, 0]), allowzero=1)


@suite.case(axis=[0, 1, 2, -1], opset=[11, 21])
def flatten(b, axis):
    return b.node("Flatten", b.input((2, 3, 4), (5, 3, 4)), axis=axis)


@suite.case(perm={"default": None, "given": [1, 2, 0]})
def transpose(b, perm):
    return b.node("Transpose", b.input((2, 3, 4), (1, 3, 2)), **({"perm": perm} if perm else {}))


@suite.case(opset=[8, 11, 13], axis=[0, 1, -1])
def concat(b, axis):
    if b.opset < 11:
        axis %= 2
    return b.node("Concat", b.input((2, 2)), b.input((2, 2)), b.weights(2, 2), axis=axis)


@suite.case(opset=[8, 11, 13], axis=[0, 1])
def gather(b, axis):
    return b.node(
        "Gather",
        b.input((5, 4), (4, 5)),
        b.input((2, 2), dtype="i8", low=0 if b.opset < 11 else -4, high=3),
        axis=axis,
    )


@suite.case(axis=[0, 1], opset=[11, 13])
def gather_elements(b, axis):
    return b.node(
        "GatherElements", b.input((3, 4)), b.input((3, 4), dtype="i8", low=-3, high=2), axis=axis
    )


@suite.case(batch_dims=[0, 1], opset=[12, 13])
def gather_nd(b, batch_dims):
    return b.node(
        "GatherND",
        b.input((2, 3, 4)),
        b.input((2, 2), dtype="i8", low=0, high=1),
        batch_dims=batch_dims,
    )


@suite.case(opset=[8, 13])
def expand(b):
    return b.node("Expand", b.input((3, 1), (1, 1)), b.integers([2, 1, 4]))


@suite.case(opset=[8, 13])
def tile(b):
    return b.node("Tile", b.input((2, 3), (1, 3)), b.integers([2, 3]))


@suite.case(opset=[8, 11, 13, 18, 19], mode=["constant", "edge", "reflect"])
def pad(b, mode):
    x = b.input((3, 4), (3, 5))
    if b.opset < 11:
        return b.node("Pad", x, pads=[0, 1, 2, 2], mode=mode, value=1.5)
    return b.node(
        "Pad",
        x,
        b.integers([0, 1, 2, 2]),
        *([b.constant(1.5, "f4")] if mode == "constant" else []),
        mode=mode
    )


@suite.case(axes=[[0], [-1]])
def pad_axes(b, axes):
    b.opset = 18
    return b.node("Pad", b.input((3, 4)), b.integers([1, 2]), "", b.integers(axes))


@suite.case(known=["pads", "axes", "neither"], opset=[18, 21])
def pad_axes_at_run_time(b, known):
    """Axes or pads that only the run knows."""
    pads = b.integers([1, 0, 2, 1]) if known == "pads" else b.input((4,), dtype="i8", low=0, high=3)
    axes = (
        b.integers([2, 0])
        if known == "axes"
        else b.input(dtype="i8", values=[np.array([2, 0]), np.array([-1, 1])])
    )
    shapes = [(2, 3, 4)] * (1 if known == "axes" else 2)
    return b.node("Pad", b.input(*shapes), pads, "", axes)


@suite.case(pads={"less": [0, 1, 2, 2], "all": [3, 4, 3, 5], "more": [7, 0, 0, 11]}, opset=[19, 25])
def pad_wrap(b, pads):
    return b.node("Pad", b.input((3, 4), (3, 5)), b.integers(pads), mode="wrap")


@suite.case(start={"all": None, "from_1": 1, "end_-1": -1})
def shape(b, start):
    b.opset = 15
    extra = {} if start is None else ({"start": 1} if start == 1 else {"end": -1})
    return b.node("Shape", b.input((2, 3, 4), (0, 3, 4)), **extra)


@suite.case()
def size(b):
    return b.node("Size", b.input((2, 3, 4), (0, 3, 4)))


@suite.case(dtype=["f4", "i8", "?"])
def constant_of_shape(b, dtype):
    value = numpy_helper.from_array(np.array([1], dtype))
    return b.node(
        "ConstantOfShape", b.input(values=[np.array([2, 3]), np.array([0, 4])]), value=value
    )


@suite.case(kind=["value_float", "value_floats", "value_int", "value_ints"])
def constant(b, kind):
    b.opset = 13
    value = {"value_float": 1.5, "value_floats": [1.5, -2], "value_int": 3, "value_ints": [3, -4]}[
        kind
    ]
    made = b.node("Constant", **{kind: value})
    return b.node(
        "Add", b.input((2, 2), dtype="f4" if "float" in kind else "i8", low=-3, high=3), made
    )


@suite.case(axis=[-1, 0], opset=[9, 11])
def one_hot(b, axis):
    return b.node(
        "OneHot",
        b.input((2, 3), (4, 3), dtype="i8", low=0, high=4),
        b.integers(5),
        b.constant([-1, 2], "f4"),
        axis=axis,
    )


@suite.case(dtype=["f4", "i8"])
def ranges(b, dtype):
    values = [np.array(value, dtype) for value in (1, 9, 2)]
    return b.node("Range", *(b.input(values=[value]) for value in values))


@suite.case(dtype=["f4", "?"], opset=[9, 13])
def non_zero(b, dtype):
    return b.node("NonZero", b.input((3, 4), dtype=dtype, low=0))


@suite.case(upper=[0, 1], k=[-1, 0, 2])
def trilu(b, upper, k):
    b.opset = 14
    return b.node("Trilu", b.input((2, 4, 5)), b.integers(k), upper=upper)


@suite.case(reduction=["none", "add", "mul", "max", "min"])
def scatter_elements(b, reduction):
    b.opset = 18
    indices = np.array([[0, 2, 1], [3, 1, 0]])
    return b.node(
        "ScatterElements",
        b.input((4, 3)),
        b.input(values=[indices]),
        b.input((2, 3)),
        axis=0,
        reduction=reduction,
    )


@suite.case(reduction=["none", "add", "mul", "max", "min"])
def scatter_nd(b, reduction):
    b.opset = 18
    return b.node(
        "ScatterND",
        b.input((4, 5, 2)),
        b.input(values=[np.array([[0, 1], [2, 3]])]),
        b.input((2, 2)),
        reduction=reduction,
    )


@suite.case(time=[0, 1])
def reverse_sequence(b, time):
    lengths = b.input(values=[np.array([1, 4, 2, 3])])
    return b.node(
        "ReverseSequence", b.input((4, 4, 2)), lengths, time_axis=time, batch_axis=1 - time
    )


@suite.case(mode=["DCR", "CRD"])
def depth_to_space(b, mode):
    return b.node("DepthToSpace", b.input((1, 8, 2, 3)), blocksize=2, mode=mode)


@suite.case()
def space_to_depth(b):
    return b.node("SpaceToDepth", b.input((1, 2, 4, 6)), blocksize=2)


@suite.case(k=[0, 1, -1])
def eye_like(b, k):
    return b.node(
        "EyeLike", b.input((3, 4)), k=k, dtype=helper.np_dtype_to_tensor_dtype(np.dtype("f4"))
    )


@suite.case(sorted=[0, 1])
def unique(b, sorted):
    return b.node("Unique", b.input((9,), dtype="i8", low=0, high=3), outputs=4, sorted=sorted)


@suite.case(axis={"flat": None, "0": 0})
def compress(b, axis):
    condition = b.constant([True, False, True])
    return b.node(
        "Compress", b.input((3, 4)), condition, **({} if axis is None else {"axis": axis})
    )
