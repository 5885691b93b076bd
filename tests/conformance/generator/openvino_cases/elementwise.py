"""Elementwise operators: ranges of arguments, broadcasting, element types."""

import numpy as np
from openvino import opset16 as ops

from .registry import suite

# Function and range of arguments; away from poles, and not so far out that the two mathematics libraries
# differ by more than the tolerance.
UNARY = {
    "Abs": (ops.abs, -3, 3),
    "Acos": (ops.acos, -0.99, 0.99),
    "Acosh": (ops.acosh, 1.01, 4),
    "Asin": (ops.asin, -0.99, 0.99),
    "Asinh": (ops.asinh, -3, 3),
    "Atan": (ops.atan, -4, 4),
    "Atanh": (ops.atanh, -0.9, 0.9),
    "Ceiling": (ops.ceiling, -4, 4),
    "Cos": (ops.cos, -6, 6),
    "Cosh": (ops.cosh, -3, 3),
    "Erf": (ops.erf, -3, 3),
    "Exp": (ops.exp, -5, 5),
    "Floor": (ops.floor, -4, 4),
    "HSigmoid": (ops.hsigmoid, -5, 5),
    "HSwish": (ops.hswish, -5, 5),
    "Log": (ops.log, 0.01, 5),
    "Mish": (ops.mish, -8, 8),
    "Negative": (ops.negative, -3, 3),
    "Relu": (ops.relu, -3, 3),
    "Sigmoid": (ops.sigmoid, -9, 9),
    "Sign": (ops.sign, -1, 1),
    "Sin": (ops.sin, -6, 6),
    "Sinh": (ops.sinh, -3, 3),
    "SoftPlus": (ops.softplus, -9, 9),
    "SoftSign": (ops.softsign, -4, 4),
    "Sqrt": (ops.sqrt, 0, 9),
    "Tan": (ops.tan, -1.2, 1.2),
    "Tanh": (ops.tanh, -4, 4),
}
INTEGER_UNARY = {"Abs": ops.abs, "Negative": ops.negative, "Sign": ops.sign, "Relu": ops.relu}

ARITHMETIC = {
    "Add": ops.add,
    "Divide": ops.divide,
    "FloorMod": ops.floor_mod,
    "Maximum": ops.maximum,
    "Minimum": ops.minimum,
    "Mod": ops.mod,
    "Multiply": ops.multiply,
    "Power": ops.power,
    "SquaredDifference": ops.squared_difference,
    "Subtract": ops.subtract,
}
COMPARISON = {
    "Equal": ops.equal,
    "Greater": ops.greater,
    "GreaterEqual": ops.greater_equal,
    "Less": ops.less,
    "LessEqual": ops.less_equal,
    "NotEqual": ops.not_equal,
}
LOGICAL = {"And": ops.logical_and, "Or": ops.logical_or, "Xor": ops.logical_xor}

# Shapes of two inputs, data set by data set.
BROADCASTS = {
    "same": ([(2, 3, 4)], [(2, 3, 4)]),
    "rank": ([(2, 3, 4)], [(4,)]),
    "both": ([(2, 1, 4)], [(3, 1)]),
    "scalar": ([()], [(3, 2)]),
    "dynamic": ([(2, 3), (1, 3), (4, 1)], [(2, 3), (4, 1), (1, 5)]),
}


@suite.case(op=UNARY, shape=["vector", "dynamic"])
def unary(b, op, shape):
    function, low, high = op
    shapes = [(37,)] if shape == "vector" else [(2, 3, 5), (1, 3, 9), (0, 3, 1)]
    return function(b.input(*shapes, low=low, high=high))


@suite.case(op=INTEGER_UNARY, dtype=["i4", "i8"])
def unary_integer(b, op, dtype):
    return op(b.input((2, 7), dtype=dtype, low=-9, high=9))


@suite.case(op={name: UNARY[name] for name in ["Abs", "Exp", "Sigmoid", "Tanh", "Relu", "Sqrt"]})
def unary_f16(b, op):
    function, low, high = op
    return function(b.input((4, 9), dtype="f2", low=low, high=min(high, 4)))


@suite.case(op=["IsFinite", "IsInf", "IsNaN"])
def classify(b, op):
    function = {"IsFinite": ops.is_finite, "IsInf": ops.is_inf, "IsNaN": ops.is_nan}[op]
    return function(
        b.input(values=[np.array([0, -1.5, np.inf, -np.inf, np.nan, 3e38], np.float32)])
    )


@suite.case(mode=["half_to_even", "half_away_from_zero"])
def rounding(b, mode):
    halves = np.arange(-4, 4, 0.5, np.float32)
    return ops.round(
        b.input(values=[np.concatenate([halves, b.random((9,), low=-9, high=9)])]), mode
    )


@suite.case(low=[-0.5, 0.0], high=[0.25, 6.0])
def clamp(b, low, high):
    return ops.clamp(b.input((3, 8), low=-2, high=8), low, high)


@suite.case(dtype=["i4", "i8"])
def clamp_integer(b, dtype):
    return ops.clamp(b.input((3, 8), dtype=dtype, low=-20, high=20), -7.0, 11.0)


@suite.case(alpha=[0.1, 1.0, 1.7])
def elu(b, alpha):
    return ops.elu(b.input((3, 8), low=-4, high=4), alpha)


@suite.case()
def selu(b):
    return ops.selu(
        b.input((3, 8), low=-4, high=4), b.constant([1.67326], "f4"), b.constant([1.0507], "f4")
    )


@suite.case()
def hard_sigmoid(b):
    return ops.hard_sigmoid(
        b.input((3, 8), low=-4, high=4), b.constant(0.2, "f4"), b.constant(0.5, "f4")
    )


@suite.case(mode=["erf", "tanh"])
def gelu(b, mode):
    return ops.gelu(b.input((2, 3, 8), (4, 1, 2), low=-4, high=4), mode)


@suite.case(beta={"default": None, "given": 1.7})
def swish(b, beta):
    x = b.input((2, 3, 8), low=-4, high=4)
    return ops.swish(x) if beta is None else ops.swish(x, b.constant(beta, "f4"))


@suite.case(slope={"one": (1,), "channel": (3,), "spatial": (3, 1, 1)})
def prelu(b, slope):
    return ops.prelu(b.input((2, 3, 4, 5), low=-2), b.weights(*slope))


@suite.case(op=ARITHMETIC, broadcast=BROADCASTS)
def arithmetic(b, op, broadcast):
    first, second = broadcast
    # Positive: powers of negative numbers are no numbers, and quotients near zero are not compared here.
    return op(b.input(*first, low=0.2, high=4), b.input(*second, low=0.2, high=4))


@suite.case(op={name: ARITHMETIC[name] for name in ["Divide", "FloorMod", "Mod"]})
def arithmetic_signs(b, op):
    first = np.array([7.5, -7.5, 7.5, -7.5, 6, -6, 0.25], np.float32)
    second = np.array([2, 2, -2, -2, 3, -3, 4], np.float32)
    return op(b.input(values=[first]), b.input(values=[second]))


@suite.case(
    op={name: ARITHMETIC[name] for name in ARITHMETIC if name != "Power"}, dtype=["i4", "i8"]
)
def arithmetic_integer(b, op, dtype):
    if op is ops.divide:
        b.expect(
            lambda x, y: [x // y],
            "the document's m_pythondiv rounds down, the CPU plugin towards zero",
        )
    first = np.array([7, -7, 7, -7, 6, -6, 0, 1], dtype)
    second = np.array([2, 2, -2, -2, 3, -3, 4, -5], dtype)
    return op(b.input(values=[first]), b.input(values=[second]))


@suite.case(
    op={name: ARITHMETIC[name] for name in ["Add", "Subtract", "Multiply", "Maximum", "Minimum"]}
)
def arithmetic_large_i64(b, op):
    numpy_op = {
        ops.add: np.add,
        ops.subtract: np.subtract,
        ops.multiply: np.multiply,
        ops.maximum: np.maximum,
        ops.minimum: np.minimum,
    }[op]
    first = np.array([2**40 + 1, -(2**50), 2**53 + 1, 3], np.int64)
    second = np.array([2**20, 7, 1, -(2**45)], np.int64)
    b.expect(lambda x, y: [numpy_op(x, y)], "the CPU plugin computes i64 as i32")
    return op(b.input(values=[first]), b.input(values=[second]))


@suite.case(op={name: ARITHMETIC[name] for name in ["Add", "Multiply", "Subtract", "Divide"]})
def arithmetic_f16(b, op):
    return op(
        b.input((3, 5), dtype="f2", low=0.5, high=4), b.input((5,), dtype="f2", low=0.5, high=4)
    )


@suite.case(exponent=[2.0, 3.0, 0.5, -1.0])
def power_constant(b, exponent):
    low = 0.1 if exponent in (0.5, -1.0) else -3
    return ops.power(b.input((3, 7), low=low, high=3), b.constant(exponent, "f4"))


@suite.case(op=COMPARISON, dtype=["f4", "i4", "i8"])
def comparison(b, op, dtype):
    kind = dict(dtype=dtype, low=-2, high=2)
    equal = b.random((3, 4), **kind)
    other = np.where(b.random((3, 4), "?"), equal, b.random((3, 4), **kind)).astype(dtype)
    return op(b.input(values=[equal]), b.input(values=[other]))


@suite.case(op=COMPARISON)
def comparison_broadcast(b, op):
    return op(b.input((2, 1, 4), (3, 5, 1)), b.input((3, 1), (1, 4), low=-0.5, high=0.5))


@suite.case(op={**LOGICAL, "Not": None})
def logical(b, op):
    x = b.input((3, 4), (1, 4), dtype="?")
    return ops.logical_not(x) if op is None else op(x, b.input((4,), (4,), dtype="?"))


@suite.case(
    op={"and": ops.bitwise_and, "or": ops.bitwise_or, "xor": ops.bitwise_xor},
    dtype=["i4", "u1", "?"],
)
def bitwise(b, op, dtype):
    kind = dict(dtype=dtype, low=0 if dtype == "u1" else -99, high=99)
    return op(b.input((3, 4), **kind), b.input((4,), **kind))


@suite.case(dtype=["i4", "u1", "?"])
def bitwise_not(b, dtype):
    return ops.bitwise_not(b.input((3, 4), dtype=dtype, low=0, high=99))


@suite.case(op={"left": ops.bitwise_left_shift, "right": ops.bitwise_right_shift})
def bitwise_shift(b, op):
    return op(
        b.input((3, 4), dtype="i4", low=0, high=999), b.input((4,), dtype="i4", low=0, high=6)
    )


@suite.case(dtype=["f4", "i8", "?"], condition={"same": (3, 4), "row": (4,), "scalar": ()})
def select(b, dtype, condition):
    kind = dict(dtype=dtype, low=-9, high=9)
    return ops.select(
        b.input(condition, dtype="?"), b.input((3, 4), **kind), b.input((1, 4), **kind)
    )


@suite.case(
    source=["f4", "f2", "i8", "i4", "u1", "?"], target=["f32", "f16", "i64", "i32", "u8", "boolean"]
)
def convert(b, source, target):
    low = 0 if source == "u1" or target == "u8" else -99
    return ops.convert(b.input((4, 5), dtype=source, low=low, high=99), target)


@suite.case(source=["f4", "i8"])
def convert_like(b, source):
    return ops.convert_like(
        b.input((4, 5), dtype=source, low=-9, high=9), b.input((2,), dtype="i4")
    )


@suite.case(levels=[2, 16, 256], ranges=["scalar", "channel", "swapped"])
def fake_quantize(b, levels, ranges):
    x = b.input((2, 3, 4, 4), (1, 3, 2, 5), low=-2, high=2)
    if ranges == "channel":
        low, high = b.random((1, 3, 1, 1), low=-1.5, high=-0.5), b.random(
            (1, 3, 1, 1), low=0.5, high=1.5
        )
    else:
        low, high = np.float32(-1.2), np.float32(1.1)
    out_low, out_high = (high, low) if ranges == "swapped" else (low * np.float32(2), high)
    # A level is a jump: an input within rounding of one may fall to either side.
    return ops.fake_quantize(
        x, *(b.constant(value, "f4") for value in (low, high, out_low, out_high)), levels
    )
