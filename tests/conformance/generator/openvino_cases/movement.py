"""Operators that move elements by shape: reshapes, slices, joins, pads."""

import numpy as np
from openvino import opset16 as ops
from openvino.utils.node_factory import NodeFactory

from .registry import suite


@suite.case(pattern=[[6, 4], [-1, 2], [0, -1], [2, 0, 2, 2], [1, 2, 3, 4]], zero=[True])
def reshape(b, pattern, zero):
    return ops.reshape(b.input((2, 3, 4)), b.integers(pattern), zero)


@suite.case(pattern=[[0, -1], [0, 0, 3, 2], [-1, 6]])
def reshape_dynamic(b, pattern):
    shapes = [(2, 3, 6), (5, 3, 6), (0, 3, 6)] if pattern[0] == 0 else [(2, 3, 6), (5, 1, 6)]
    return ops.reshape(b.input(*shapes), b.integers(pattern), True)


@suite.case()
def reshape_computed(b):
    """The pattern is computed from another input's shape, as exporters write it."""
    x, like = b.input((2, 12), (5, 12)), b.input((2, 3), (5, 6))
    rows = ops.gather(ops.shape_of(like), b.integers([0, 1]), b.integers(0))
    return ops.reshape(x, ops.concat([rows, b.integers([-1])], 0), False)


@suite.case(order=[[2, 0, 1], [1, 0, 2], []], dtype=["f4", "i8", "?"])
def transpose(b, order, dtype):
    return ops.transpose(
        b.input((2, 3, 4), (1, 3, 2), dtype=dtype, low=-9, high=9), b.integers(order)
    )


@suite.case(axes=[[0], [-1], [0, 2], [0, -2, 5]])
def unsqueeze(b, axes):
    return ops.unsqueeze(b.input((2, 3, 4), (5, 1, 4)), b.integers(axes))


@suite.case(axes=[[0], [-1], [0, 3]])
def squeeze(b, axes):
    return ops.squeeze(b.input((1, 3, 4, 1), (1, 2, 4, 1)), b.integers(axes))


@suite.case()
def squeeze_all(b):
    return ops.squeeze(b.input((1, 3, 1, 4)))


@suite.case(axis=[0, 1, -1], count=[2, 4])
def concat(b, axis, count):
    shape = [3, 4, 5]
    inputs = []
    for i in range(count):
        shape[axis] = i + 1
        inputs.append(b.input(tuple(shape)))
    return ops.concat(inputs, axis)


@suite.case()
def concat_dynamic(b):
    return ops.concat(
        [b.input((2, 3), (0, 3), (1, 3)), b.input((1, 3), (4, 3), (2, 3)), b.weights(2, 3)], 0
    )


@suite.case(axis=[0, 1, -1], parts=[1, 2])
def split(b, axis, parts):
    return ops.split(b.input((2, 4, 6), (4, 2, 8)), b.integers(axis), parts)


@suite.case(lengths=[[2, 3, 1], [0, 6], [1, -1, 2]], axis=[1, -2])
def variadic_split(b, lengths, axis):
    return ops.variadic_split(b.input((2, 6, 3), (4, 6, 1)), b.integers(axis), b.integers(lengths))


def _ranges(b, *lists):
    return [b.integers(values) for values in lists]


@suite.case(
    ranges={
        "part": ([1, 0], [3, 2], [1, 1], [0, 2]),
        "steps": ([0], [2**31], [2], [1]),
        "reverse": ([-1, -1], [-(2**31), 0], [-1, -2], [1, 2]),
        "empty": ([3], [1], [1], [1]),
        "beyond": ([-99], [99], [3], [-1]),
    }
)
def slices(b, ranges):
    return ops.slice(b.input((4, 5, 6), (5, 7, 6)), *_ranges(b, *ranges))


@suite.case()
def slices_dynamic(b):
    x = b.input((6, 4), (9, 4))
    start = b.input(values=[np.array([1]), np.array([-5])])
    return ops.slice(x, start, b.input(values=[np.array([4]), np.array([100])]), b.integers([1]))


@suite.case(
    masks={
        "plain": dict(begin=[0, 1, 2], end=[2, 3, 5], strides=[1, 1, 2]),
        "ignored": dict(begin=[1, 1, 1], end=[2, 2, 2], begin_mask=[1, 0, 0], end_mask=[0, 0, 1]),
        "negative": dict(
            begin=[0, -1], end=[0, -4], strides=[1, -1], begin_mask=[1, 0], end_mask=[1, 0]
        ),
        "shrink": dict(
            begin=[0, 2], end=[0, 3], begin_mask=[1, 0], end_mask=[1, 0], shrink_axis_mask=[0, 1]
        ),
        "new": dict(
            begin=[0, 0, 1],
            end=[0, 0, 3],
            begin_mask=[1, 0, 0],
            end_mask=[1, 0, 0],
            new_axis_mask=[0, 1, 0],
        ),
        "ellipsis": dict(
            begin=[0, 1], end=[0, 4], begin_mask=[0, 0], end_mask=[0, 0], ellipsis_mask=[1, 0]
        ),
    }
)
def strided_slice(b, masks):
    masks = dict(masks)
    begin, end = masks.pop("begin"), masks.pop("end")
    strides = masks.pop("strides", [1] * len(begin))
    masks = {"begin_mask": [], "end_mask": [], **masks}
    return ops.strided_slice(
        b.input((2, 4, 6), (3, 5, 6)), *_ranges(b, begin, end, strides), **masks
    )


@suite.case(repeats=[[2], [1, 3], [2, 1, 2, 1], [0, 2]])
def tile(b, repeats):
    return ops.tile(b.input((2, 3), (4, 1)), b.integers(repeats))


@suite.case(mode=["numpy", "bidirectional"])
def broadcast(b, mode):
    return ops.broadcast(
        b.input((3, 1), (1, 1)), b.integers([2, 3, 4]), broadcast_spec=mode.upper()
    )


@suite.case(axes=[[0], [1, 2]])
def broadcast_explicit(b, axes):
    shape = [(2,), (3, 4)][len(axes) - 1]
    return ops.broadcast(b.input(shape), b.integers([2, 3, 4]), b.integers(axes), "EXPLICIT")


@suite.case()
def broadcast_computed(b):
    return ops.broadcast(b.input((1, 4), (1, 4)), ops.shape_of(b.input((3, 4), (7, 4))))


@suite.case(dtype=["i32", "i64"])
def shape_of(b, dtype):
    return ops.shape_of(b.input((2, 3), (0, 7), (1, 1)), dtype)


@suite.case(
    bounds={"up": (0, 7, 2), "down": (5, -3, -2), "empty": (3, 3, 1), "float": (0.5, 3.0, 0.5)},
    known=[False, True],
)
def ranges(b, bounds, known):
    dtype = np.float32 if isinstance(bounds[0], float) else np.int64
    values = [np.array(value, dtype) for value in bounds]
    nodes = [b.constant(value) if known else b.input(values=[value]) for value in values]
    return ops.range(*nodes, "f32" if dtype == np.float32 else "i64")


@suite.case(mode=["constant", "edge", "reflect", "symmetric"])
def pad(b, mode):
    value = [b.constant(1.5, "f4")] if mode == "constant" else []
    return ops.pad(
        b.input((3, 4, 5), (3, 6, 4)), b.integers([0, 1, 2]), b.integers([1, 2, 0]), mode, *value
    )


@suite.case()
def pad_crops(b):
    return ops.pad(
        b.input((3, 5), (3, 9)),
        b.integers([1, -2]),
        b.integers([0, 1]),
        "constant",
        b.constant(0.5, "f4"),
    )


@suite.case(batch_axis=[0, 1])
def reverse_sequence(b, batch_axis):
    lengths = b.random((4,), "i4", 1, 4)
    return ops.reverse_sequence(
        b.input((4, 4, 3)), b.input(values=[lengths]), batch_axis, 1 - batch_axis
    )


@suite.case(mode=["index", "mask"])
def reverse(b, mode):
    axes = [1] if mode == "index" else [False, True, False]
    inputs = [b.input((2, 3, 4)), b.constant(axes, np.int64 if mode == "index" else bool)]
    return NodeFactory("opset1").create(
        "Reverse", [node.output(0) for node in inputs], {"mode": mode}
    )


@suite.case(shift=[1, -2], axis=[0, 1])
def roll(b, shift, axis):
    return ops.roll(b.input((4, 5), (3, 7)), b.integers(shift), b.integers(axis))


@suite.case(mode=["blocks_first", "depth_first"])
def depth_to_space(b, mode):
    return ops.depth_to_space(b.input((2, 8, 2, 3)), mode, 2)


@suite.case(mode=["blocks_first", "depth_first"])
def space_to_depth(b, mode):
    return ops.space_to_depth(b.input((2, 2, 4, 6)), mode, 2)


@suite.case(axis=[1, 2])
def shuffle_channels(b, axis):
    return ops.shuffle_channels(b.input((2, 6, 4, 3)), axis, 2)


@suite.case()
def identity(b):
    """A layer that does nothing, between two others and as a result."""
    x = b.input((2, 3), (4, 3))
    return [ops.relu(ops.identity(x)), ops.identity(ops.negative(x))]
