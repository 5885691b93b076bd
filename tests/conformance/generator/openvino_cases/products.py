"""Products and windows: MatMul, Einsum, convolutions, pooling, resizing."""

from openvino import opset14, opset16 as ops

from .registry import suite


@suite.case(a=[False, True], b_transposed=[False, True], weights=["constant", "input"])
def matmul(b, a, b_transposed, weights):
    shape = (7, 5) if b_transposed else (5, 7)
    second = b.weights(*shape) if weights == "constant" else b.input(shape)
    return ops.matmul(b.input((5, 3) if a else (3, 5)), second, a, b_transposed)


@suite.case(
    shapes={
        "batched": ([(2, 3, 4)], [(2, 4, 5)]),
        "broadcast": ([(2, 1, 3, 4)], [(6, 4, 5)]),
        "folded": ([(2, 3, 4), (5, 1, 4)], [(4, 6)]),
        "vectors": ([(4,)], [(4,)]),
        "row": ([(4,)], [(2, 4, 5)]),
        "column": ([(2, 3, 4)], [(4,)]),
        "dynamic": ([(2, 3, 4), (1, 5, 2)], [(2, 4, 5), (1, 2, 3)]),
    }
)
def matmul_shapes(b, shapes):
    return ops.matmul(b.input(*shapes[0]), b.input(*shapes[1]), False, False)


@suite.case(width=[31, 64, 257], rows=["one", "many"], compress=[False, True])
def matmul_wide(b, width, rows, compress):
    b.compress = compress
    shapes = [(1, width)] if rows == "one" else [(3, width), (17, width)]
    return ops.matmul(b.input(*shapes), b.weights(2 * width, width), False, True)


@suite.case()
def linear_f16(b):
    x = b.input((3, 16), dtype="f2")
    return ops.add(
        ops.matmul(x, b.weights(8, 16, dtype="f2"), False, True), b.weights(8, dtype="f2")
    )


@suite.case(
    equation=[
        "ij,jk->ik",
        "bij,bjk->bik",
        "bhid,bhjd->bhij",
        "ij->ji",
        "bi,bi->b",
        "i,j->ij",
        "ab,bc,cd->ad",
    ]
)
def einsum(b, equation):
    extents = {letter: 2 + index for index, letter in enumerate(sorted(set(equation) - set(",->")))}
    terms = equation.split("->")[0].split(",")
    return ops.einsum(
        [b.input(tuple(extents[letter] for letter in term)) for term in terms], equation
    )


@suite.case(
    window={
        "plain": dict(strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1]),
        "padded": dict(strides=[1, 2], pads_begin=[1, 0], pads_end=[1, 2], dilations=[1, 1]),
        "dilated": dict(strides=[2, 1], pads_begin=[2, 1], pads_end=[2, 1], dilations=[2, 1]),
        "same_upper": dict(
            strides=[2, 2], pads_begin=[], pads_end=[], dilations=[1, 1], auto_pad="same_upper"
        ),
        "same_lower": dict(
            strides=[2, 1], pads_begin=[], pads_end=[], dilations=[1, 1], auto_pad="same_lower"
        ),
        "valid": dict(
            strides=[1, 1], pads_begin=[], pads_end=[], dilations=[1, 1], auto_pad="valid"
        ),
    },
    compress=[False, True],
)
def convolution(b, window, compress):
    b.compress = compress
    return ops.convolution(b.input((2, 3, 8, 9), (1, 3, 7, 6)), b.weights(4, 3, 3, 2), **window)


@suite.case(length=[5, 16])
def convolution_1d(b, length):
    window = dict(strides=[1], pads_begin=[1], pads_end=[1], dilations=[1])
    return ops.convolution(
        b.input((2, 4, length), (1, 4, length + 3)), b.weights(6, 4, 3), **window
    )


@suite.case(depthwise=[False, True])
def group_convolution(b, depthwise):
    weights = b.weights(6, 1, 1, 3, 3) if depthwise else b.weights(2, 5, 3, 3, 3)
    window = dict(strides=[1, 2], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1])
    return ops.group_convolution(b.input((2, 6, 5, 8), (1, 6, 9, 4)), weights, **window)


@suite.case(stride=[1, 2], padding=[0, 1])
def convolution_backprop_data(b, stride, padding):
    window = dict(
        strides=[stride] * 2, pads_begin=[padding] * 2, pads_end=[padding] * 2, dilations=[1, 1]
    )
    return ops.convolution_backprop_data(
        b.input((1, 3, 4, 5)),
        b.weights(3, 2, 3, 3),
        auto_pad="explicit",
        output_padding=[stride - 1] * 2,
        **window
    )


@suite.case(
    auto_pad=["same_upper", "same_lower"], extents=[[8, 12], [6, 13], [7, 15]], group=[False, True]
)
def convolution_backprop_to_shape(b, auto_pad, extents, group):
    """Pads that follow from the shape that is asked for: even, odd and none."""
    window = dict(strides=[2, 3], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1])
    if group:
        return ops.group_convolution_backprop_data(
            b.input((2, 4, 4, 5)),
            b.weights(2, 2, 3, 3, 3),
            output_shape=b.integers(extents),
            auto_pad=auto_pad,
            **window
        )
    return ops.convolution_backprop_data(
        b.input((1, 3, 4, 5)),
        b.weights(3, 2, 3, 3),
        output_shape=b.integers(extents),
        auto_pad=auto_pad,
        **window
    )


@suite.case(stride=[1, 2])
def group_convolution_backprop_data(b, stride):
    window = dict(strides=[stride] * 2, pads_begin=[1, 0], pads_end=[0, 1], dilations=[1, 1])
    return ops.group_convolution_backprop_data(
        b.input((2, 4, 4, 5)), b.weights(2, 2, 3, 3, 3), auto_pad="explicit", **window
    )


POOLING = {
    "plain": dict(strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], kernel_shape=[2, 2]),
    "padded": dict(strides=[1, 2], pads_begin=[1, 0], pads_end=[1, 1], kernel_shape=[3, 2]),
    "ceil": dict(
        strides=[2, 2],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        kernel_shape=[3, 3],
        rounding_type="ceil",
    ),
    "same": dict(
        strides=[2, 2], pads_begin=[], pads_end=[], kernel_shape=[3, 3], auto_pad="same_upper"
    ),
}


@suite.case(window=POOLING)
def max_pool(b, window):
    return ops.max_pool(b.input((2, 3, 7, 8), (1, 3, 6, 5)), dilations=[1, 1], **window).output(0)


@suite.case(window=POOLING, exclude_pad=[False, True])
def avg_pool(b, window, exclude_pad):
    return opset14.avg_pool(b.input((2, 3, 7, 8), (1, 3, 6, 5)), exclude_pad=exclude_pad, **window)


@suite.case(dilation=[1, 2])
def avg_pool_of_opset16(b, dilation):
    return ops.avg_pool(
        b.input((2, 3, 7, 8), (1, 3, 6, 5)),
        exclude_pad=True,
        dilations=[dilation] * 2,
        **POOLING["plain"]
    )


@suite.case(output=[[1, 1], [2, 3]])
def adaptive_avg_pool(b, output):
    return ops.adaptive_avg_pool(b.input((2, 3, 7, 8), (1, 3, 6, 5)), b.integers(output))


@suite.case(
    mode=["nearest", "linear_onnx"], coordinates=["asymmetric", "half_pixel", "align_corners"]
)
def interpolate(b, mode, coordinates):
    return ops.interpolate(
        b.input((1, 2, 4, 5)),
        b.integers([7, 8]),
        mode,
        "sizes",
        coordinate_transformation_mode=coordinates,
        nearest_mode="floor",
        axes=b.integers([2, 3]),
    )
