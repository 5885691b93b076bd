"""Quantised operators: linear quantisation, integer products, and what dynamic quantisation writes."""

import tempfile
from pathlib import Path

import numpy as np
import onnx

from .registry import suite


@suite.case(dtype=["u1", "i1"], opset=[10, 13, 19, 21], scale=["tensor"])
def quantize_linear(b, dtype, scale):
    # Halfway values round to even.
    x = b.input(
        values=[np.array([[-2, -0.75, -0.25, 0, 0.25], [0.75, 1.25, 3, 90, -90]], np.float32)]
    )
    return b.node("QuantizeLinear", x, b.constant(0.5, "f4"), b.constant(3, dtype))


@suite.case(axis=[0, 1, -1], opset=[13, 21])
def quantize_linear_axis(b, axis):
    count = (3, 4)[axis]
    scale, zero = b.weights(count, low=0.1, high=1), b.weights(count, dtype="i1", low=-9, high=9)
    return b.node("QuantizeLinear", b.input((3, 4), low=-9, high=9), scale, zero, axis=axis)


@suite.case(dtype=["u1", "i1", "i4"], opset=[10, 13, 19, 21])
def dequantize_linear(b, dtype):
    zero = 0 if dtype == "i4" else 3
    return b.node(
        "DequantizeLinear",
        b.input((3, 4), dtype=dtype, low=0, high=99),
        b.constant(0.25, "f4"),
        b.constant(zero, dtype),
    )


@suite.case(axis=[0, 1], opset=[13, 21])
def dequantize_linear_axis(b, axis):
    count = (3, 4)[axis]
    scale, zero = b.weights(count, low=0.1, high=1), b.weights(count, dtype="i1", low=-9, high=9)
    return b.node(
        "DequantizeLinear", b.input((3, 4), dtype="i1", low=-99, high=99), scale, zero, axis=axis
    )


@suite.case()
def dequantize_linear_blocks(b):
    b.opset = 21
    scale, zero = b.weights(3, 2, low=0.1, high=1), b.weights(3, 2, dtype="i1", low=-9, high=9)
    return b.node(
        "DequantizeLinear",
        b.input((3, 8), dtype="i1", low=-99, high=99),
        scale,
        zero,
        axis=1,
        block_size=4,
    )


@suite.case()
def dynamic_quantize_linear(b):
    return b.node("DynamicQuantizeLinear", b.input((3, 4), (1, 9), low=-3, high=5), outputs=3)


@suite.case(zeros=["none", "scalar", "first"])
def matmul_integer(b, zeros):
    inputs = [
        b.input((3, 4), (1, 4), dtype="u1", low=0, high=255),
        b.weights(4, 5, dtype="i1", low=-128, high=127),
    ]
    if zeros != "none":
        inputs.append(b.constant(17, "u1"))
    if zeros == "scalar":
        inputs.append(b.constant(-3, "i1"))
    return b.node("MatMulInteger", *inputs)


@suite.case(opset=[10, 21])
def qlinear_matmul(b):
    a = b.input((3, 4), dtype="u1", low=0, high=255)
    w = b.weights(4, 5, dtype="u1", low=0, high=255)
    scales = [b.constant(value, "f4") for value in (0.02, 0.03, 0.11)]
    zeros = [b.constant(value, "u1") for value in (110, 120, 128)]
    return b.node(
        "QLinearMatMul", a, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2]
    )


@suite.case(pads=[[0, 0, 0, 0], [1, 1, 1, 1]])
def conv_integer(b, pads):
    x = b.input((1, 2, 5, 6), dtype="u1", low=0, high=255)
    return b.node(
        "ConvInteger",
        x,
        b.weights(3, 2, 3, 3, dtype="u1", low=0, high=255),
        b.constant(7, "u1"),
        pads=pads,
    )


@suite.case()
def qlinear_conv(b):
    x, w = b.input((1, 2, 5, 6), dtype="u1", low=0, high=255), b.weights(
        3, 2, 3, 3, dtype="u1", low=0, high=255
    )
    scales = [b.constant(value, "f4") for value in (0.02, 0.03, 0.2)]
    zeros = [b.constant(value, "u1") for value in (110, 120, 128)]
    return b.node(
        "QLinearConv", x, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2]
    )


@suite.case()
def dynamic_quantised_linear(b):
    """What dynamic quantisation makes of a linear layer."""
    quantised, scale, zero = b.node("DynamicQuantizeLinear", b.input((3, 8), (1, 8)), outputs=3)
    product = b.node(
        "MatMulInteger", quantised, b.weights(8, 5, dtype="i1", low=-127, high=127), zero
    )
    scaled = b.node(
        "Mul", b.node("Cast", product, to=1), b.node("Mul", scale, b.constant(0.01, "f4"))
    )
    return b.node("Add", scaled, b.weights(5))


@suite.case()
def quantised_and_back(b):
    scale, zero = b.constant(0.05, "f4"), b.constant(10, "u1")
    quantised = b.node("QuantizeLinear", b.input((3, 8), (1, 8)), scale, zero)
    weights = b.node(
        "DequantizeLinear",
        b.weights(8, 5, dtype="i1", low=-99, high=99),
        b.constant(0.02, "f4"),
        b.constant(0, "i1"),
    )
    return b.node("MatMul", b.node("DequantizeLinear", quantised, scale, zero), weights)


MICROSOFT = {"domain": "com.microsoft"}


def scale(b, value=0.02):
    return b.constant(value, "f4")


def place(b, dtype, value, step=0.02):
    """Scale and zero point."""
    return [scale(b, step), b.constant(value, dtype)]


@suite.case(bias=[False, True], per_column=[False, True], dtype=["i1", "u1"])
def dynamic_quantize_matmul(b, bias, per_column, dtype):
    low, high = (-127, 127) if dtype == "i1" else (0, 255)
    inputs = [
        b.input((1, 3, 8), (1, 1, 8), low=-2, high=3),
        b.weights(8, 5, dtype=dtype, low=low, high=high),
        b.weights(5, low=0.001, high=0.1) if per_column else scale(b),
        b.weights(5, dtype=dtype, low=0, high=9) if per_column else b.constant(3, dtype),
    ]
    return b.node("DynamicQuantizeMatMul", *inputs, *([b.weights(5)] if bias else []), **MICROSOFT)


@suite.case(op=["DynamicQuantizeMatMul", "MatMulIntegerToFloat", "DynamicQuantizeLSTM"])
def scales_of_items(b, op):
    """Several items at once, as an encoder is served; ONNX Runtime runs each alone."""
    b.by_item = True
    b.tolerance = 2e-5
    x = b.input((4, 5, 8), (3, 2, 8), low=-2, high=3)
    w = b.weights(8, 16, dtype="i1", low=-127, high=127)
    if op == "DynamicQuantizeMatMul":
        return b.node(op, x, w, b.weights(16, low=0.001, high=0.1), **MICROSOFT)
    if op == "MatMulIntegerToFloat":
        quantised, step, zero = b.node("DynamicQuantizeLinear", x, outputs=3)
        return b.node(op, quantised, w, step, scale(b), zero, b.constant(0, "i1"), **MICROSOFT)
    weights = [b.weights(1, size, 16, dtype="i1", low=-127, high=127) for size in (8, 4)]
    places = [b.weights(1, low=0.002, high=0.01), b.constant(np.zeros(1, "i1"))]
    turned = b.node("Transpose", x, perm=[1, 0, 2])
    y = b.node(op, turned, *weights, *[""] * 5, *places, *places, hidden_size=4, **MICROSOFT)
    return b.node("Transpose", y, perm=[2, 0, 1, 3])


@suite.case(bias=[False, True], zeros=[False, True])
def matmul_integer_to_float(b, bias, zeros):
    inputs = [
        b.input((3, 8), (1, 8), dtype="u1", low=0, high=255),
        b.weights(8, 5, dtype="i1", low=-127, high=127),
        scale(b, 0.03),
        b.weights(5, low=0.001, high=0.1),
        b.constant(120, "u1") if zeros else "",
        b.constant(0, "i1") if zeros else "",
    ]
    return b.node("MatMulIntegerToFloat", *inputs, *([b.weights(5)] if bias else []), **MICROSOFT)


@suite.case(trans=[(0, 0), (1, 0), (0, 1)], bias=[False, True], quantised=[False, True], alpha=[1, 0.5])
def qgemm(b, trans, bias, quantised, alpha):
    inputs = [
        b.input((3, 8)[:: -1 if trans[0] else 1], dtype="u1", low=0, high=255),
        *place(b, "u1", 120),
        b.weights(*(8, 5)[:: -1 if trans[1] else 1], dtype="i1", low=-127, high=127),
        *place(b, "i1", 0, 0.013),
        b.weights(5, dtype="i4", low=-999, high=999) if bias else "",
        *(place(b, "u1", 99, 0.37) if quantised else []),
    ]
    return b.node("QGemm", *inputs, transA=trans[0], transB=trans[1], alpha=float(alpha), **MICROSOFT)


@suite.case(op=["QLinearAdd", "QLinearMul"], dtype=["u1", "i1"])
def qlinear_binary(b, op, dtype):
    low, high = (0, 255) if dtype == "u1" else (-128, 127)
    x = b.input((3, 4), dtype=dtype, low=low, high=high)
    y = b.input((4,), dtype=dtype, low=low, high=high)
    return b.node(
        op, x, *place(b, dtype, 7), y, *place(b, dtype, 5, 0.031), *place(b, dtype, 9, 0.043), **MICROSOFT
    )


@suite.case(
    op={
        "Sigmoid": ("QLinearSigmoid", {}),
        "LeakyRelu": ("QLinearLeakyRelu", {"alpha": 0.1}),
        "Softmax": ("QLinearSoftmax", {"axis": 1, "opset": 13}),
        "Softmax12": ("QLinearSoftmax", {"axis": 1, "opset": 12}),
        "GlobalAveragePool": ("QLinearGlobalAveragePool", {}),
        "AveragePool": ("QLinearAveragePool", {"kernel_shape": [2, 2]}),
    }
)
def qlinear_of_one(b, op):
    name, attributes = op
    x = b.input((1, 2, 4, 6), dtype="u1", low=0, high=255)
    step = 1 / 256 if name in ("QLinearSigmoid", "QLinearSoftmax") else 0.0171
    return b.node(name, x, *place(b, "u1", 121), *place(b, "u1", 3, step), **attributes, **MICROSOFT)


@suite.case(axis=[0, -1])
def qlinear_concat(b, axis):
    x, y = b.input((2, 3), dtype="u1", low=0, high=255), b.input((2, 3), dtype="u1", low=0, high=255)
    parts = [x, *place(b, "u1", 7), y, *place(b, "u1", 5, 0.031)]
    return b.node("QLinearConcat", *place(b, "u1", 9, 0.043), *parts, axis=axis, **MICROSOFT)


@suite.case()
def qlinear_where(b):
    x, y = b.input((2, 3), dtype="u1", low=0, high=255), b.input((2, 3), dtype="u1", low=0, high=255)
    parts = [x, *place(b, "u1", 7), y, *place(b, "u1", 5, 0.031)]
    return b.node(
        "QLinearWhere", b.input((2, 3), dtype="?"), *parts, *place(b, "u1", 9, 0.043), **MICROSOFT
    )


@suite.case(op=["QuantizeLinear", "DequantizeLinear"], dtype=["u2", "i2", "u1"])
def linear_of_microsoft(b, op, dtype):
    x = (
        b.input((3, 4), low=-3, high=3)
        if op == "QuantizeLinear"
        else b.input((3, 4), dtype=dtype, low=0, high=99)
    )
    return b.node(op, x, *place(b, dtype, 3), **MICROSOFT)


@suite.case(group=[1, 2], per_channel=[False, True], bias=[False, True])
def qlinear_conv_channels(b, group, per_channel, bias):
    x = b.input((2, 4, 9), (1, 4, 9), dtype="u1", low=0, high=255)
    w = b.weights(6, 4 // group, 3, dtype="i1", low=-127, high=127)
    w_scale = b.weights(6, low=0.01, high=0.05) if per_channel else scale(b, 0.03)
    w_zero = b.constant([0] * 6 if per_channel else 0, "i1")
    inputs = [x, *place(b, "u1", 110), w, w_scale, w_zero, *place(b, "u1", 128, 0.41)]
    inputs += [b.weights(6, dtype="i4", low=-9999, high=9999)] if bias else []
    return b.node("QLinearConv", *inputs, group=group, pads=[1, 1])


@suite.case(
    direction=["forward", "reverse", "bidirectional"],
    dtype=["i1", "u1"],
    per_column=[False, True],
    options=["plain", "all"],
)
def dynamic_quantize_lstm(b, direction, dtype, per_column, options):
    """One item, as a served model runs it; its lengths, states, biases and peepholes."""
    count, size, hidden = 2 if direction == "bidirectional" else 1, 3, 4
    low, high = (-127, 127) if dtype == "i1" else (0, 255)
    has_all = options == "all"
    shape = (count, 4 * hidden) if per_column else (count,)

    def places():
        zero = np.zeros(shape, dtype) if dtype == "i1" else np.full(shape, 128, dtype)
        return b.weights(*shape, low=0.002, high=0.01), b.constant(zero)

    x = b.input((5, 1, size), (2, 1, size), low=-2, high=3)
    w = b.weights(count, size, 4 * hidden, dtype=dtype, low=low, high=high)
    r = b.weights(count, hidden, 4 * hidden, dtype=dtype, low=low, high=high)
    rest = [b.weights(count, 8 * hidden), b.constant([2], "i4"), *[b.weights(count, 1, hidden)] * 2]
    rest = [*rest, b.weights(count, 3 * hidden)] if has_all else [""] * 5
    b.tolerance = 2e-5
    return b.node(
        "DynamicQuantizeLSTM",
        *[x, w, r, *rest, *places(), *places()],
        outputs=3,
        hidden_size=hidden,
        direction=direction,
        **MICROSOFT,
    )


def quantised_by(quantise, **options):
    """What ONNX Runtime's quantiser makes of a model, which it takes and gives as files."""

    def rewrite(model):
        with tempfile.TemporaryDirectory() as folder:
            before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
            onnx.save_model(model, before)
            quantise(before, after, **options)
            return onnx.load_model(after)

    return rewrite


def dynamically(**options):
    from onnxruntime.quantization import quantize_dynamic

    return quantised_by(quantize_dynamic, **options)


def float_layers(b, x, size, layers):
    """[batch, time, size] through layers of this kind."""
    hidden = 4
    if layers == "dense":
        for _ in range(2):
            product = b.node("MatMul", x, b.weights(size, 5))
            x, size = b.node("Tanh", b.node("Add", product, b.weights(5))), 5
        return x
    if layers == "conv":
        turned = b.node("Transpose", x, perm=[0, 2, 1])
        y = b.node("Conv", turned, b.weights(5, size, 3), b.weights(5), pads=[1, 1])
        return b.node("Transpose", b.node("Relu", y), perm=[0, 2, 1])
    count = 2 if layers == "bidirectional" else 1
    y = b.node(
        "LSTM",
        b.node("Transpose", x, perm=[1, 0, 2]),
        b.weights(count, 4 * hidden, size),
        b.weights(count, 4 * hidden, hidden),
        b.weights(count, 8 * hidden),
        hidden_size=hidden,
        direction="forward" if count == 1 else layers,
    )
    y = b.node("Transpose", y, perm=[2, 0, 1, 3])  # [batch, time, directions, hidden]
    y = b.node("Reshape", y, b.integers([0, 0, count * hidden]))
    return b.node("MatMul", y, b.weights(count * hidden, 3))


LAYERS = ["dense", "conv", "forward", "bidirectional"]


@suite.case(layers=LAYERS, per_channel=[False, True], items=["alone", "together"])
def quantised_dynamically(b, layers, per_channel, items):
    """An encoder as quantize_dynamic writes it, run as a file and as served."""
    shapes = [(1, 5, 6)] if items == "alone" else [(4, 5, 6), (3, 2, 6)]
    b.by_item = items == "together"
    b.rewrite = dynamically(per_channel=per_channel)
    b.tolerance = 2e-5
    return float_layers(b, b.input(*shapes, low=-2, high=3), 6, layers)


class Calibration:
    """Arrays for quantize_static to find ranges with."""

    def __init__(self, name, arrays):
        self.feeds = iter([{name: array} for array in arrays])

    def get_next(self):
        return next(self.feeds, None)


@suite.case(layers=LAYERS, form=["QDQ", "QOperator"], per_channel=[False, True], dtype=["u1", "i1"])
def quantised_statically(b, layers, form, per_channel, dtype):
    """An encoder as quantize_static writes it: scales are constants, so items stay apart by themselves."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    x = b.input((4, 5, 6), (3, 2, 6), low=-2, high=3)
    y = float_layers(b, x, 6, layers)
    b.by_item = True

    def quantise(before, after):
        quantize_static(
            before,
            after,
            Calibration(x, b.feeds[x]),
            quant_format=getattr(QuantFormat, form),
            per_channel=per_channel,
            activation_type=QuantType.QUInt8 if dtype == "u1" else QuantType.QInt8,
        )

    b.rewrite = quantised_by(quantise)
    b.tolerance = 2e-5
    return y
