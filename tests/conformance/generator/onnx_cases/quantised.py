"""Quantised operators: linear quantisation, integer products, and what dynamic quantisation writes."""

import numpy as np

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
