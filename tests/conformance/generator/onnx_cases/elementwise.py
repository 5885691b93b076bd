"""Elementwise operators across the opsets that changed them."""

import numpy as np
from onnx import helper

from .registry import suite

UNARY = {
    "Abs": (-3, 3, 13),
    "Acos": (-0.99, 0.99, 22),
    "Acosh": (1.01, 4, 22),
    "Asin": (-0.99, 0.99, 22),
    "Asinh": (-3, 3, 22),
    "Atan": (-4, 4, 22),
    "Atanh": (-0.9, 0.9, 22),
    "Ceil": (-4, 4, 13),
    "Cos": (-6, 6, 22),
    "Cosh": (-3, 3, 22),
    "Elu": (-4, 4, 22),
    "Erf": (-3, 3, 13),
    "Exp": (-5, 5, 13),
    "Floor": (-4, 4, 13),
    "HardSigmoid": (-4, 4, 22),
    "HardSwish": (-5, 5, 14),
    "Identity": (-3, 3, 13),
    "LeakyRelu": (-4, 4, 16),
    "Log": (0.01, 5, 13),
    "Mish": (-6, 6, 18),
    "Neg": (-3, 3, 13),
    "Reciprocal": (0.2, 4, 13),
    "Relu": (-3, 3, 14),
    "Round": (-4, 4, 22),
    "Selu": (-4, 4, 22),
    "Sigmoid": (-8, 8, 13),
    "Sign": (-1, 1, 13),
    "Sin": (-6, 6, 22),
    "Sinh": (-3, 3, 22),
    "Softplus": (-8, 8, 22),
    "Softsign": (-4, 4, 22),
    "Sqrt": (0, 9, 13),
    "Tan": (-1.2, 1.2, 22),
    "Tanh": (-4, 4, 13),
    "ThresholdedRelu": (-3, 3, 22),
    "Gelu": (-4, 4, 20),
    "Celu": (-4, 4, 12),
}
BINARY = {
    "Add": 14,
    "Sub": 14,
    "Mul": 14,
    "Div": 14,
    "Pow": 15,
    "PRelu": 16,
    "Max": 13,
    "Min": 13,
    "Mean": 13,
    "Sum": 13,
}
COMPARISON = {"Equal": 19, "Greater": 13, "GreaterOrEqual": 16, "Less": 13, "LessOrEqual": 16}


@suite.case(op={name: (name, *spec) for name, spec in UNARY.items()})
def unary(b, op):
    name, low, high, b.opset = op
    return b.node(name, b.input((2, 3, 5), (1, 3, 2), low=low, high=high))


@suite.case(
    op={
        "Elu": dict(alpha=0.6),
        "HardSigmoid": dict(alpha=0.3, beta=0.45),
        "LeakyRelu": dict(alpha=0.2),
        "Selu": dict(alpha=1.5, gamma=1.2),
        "ThresholdedRelu": dict(alpha=0.4),
        "Celu": dict(alpha=0.7),
    },
    opset=[12, 22],
)
def unary_attributes(b, op):
    names = {("alpha", "beta"): "HardSigmoid", ("alpha", "gamma"): "Selu"}
    name = (
        names.get(tuple(op))
        or {0.6: "Elu", 0.2: "LeakyRelu", 0.4: "ThresholdedRelu", 0.7: "Celu"}[op["alpha"]]
    )
    return b.node(name, b.input((3, 8), low=-4, high=4), **op)


@suite.case(approximate=["none", "tanh"])
def gelu(b, approximate):
    b.opset = 20
    return b.node("Gelu", b.input((3, 8), low=-4, high=4), approximate=approximate)


@suite.case(
    op={name: (name, opset) for name, opset in BINARY.items()},
    shapes={
        "same": ([(2, 3)], [(2, 3)]),
        "row": ([(2, 3)], [(3,)]),
        "dynamic": ([(2, 3), (4, 3)], [(2, 3), (1, 3)]),
    },
)
def binary(b, op, shapes):
    name, b.opset = op
    return b.node(name, b.input(*shapes[0], low=0.3, high=3), b.input(*shapes[1], low=0.3, high=3))


@suite.case(opset=[8, 13], count=[1, 3], op=["Max", "Min", "Sum", "Mean"])
def variadic(b, count, op):
    return b.node(op, *(b.input((2, 3) if i % 2 == 0 else (3,)) for i in range(count)))


@suite.case(dtype=["i4", "i8"], op=["Add", "Sub", "Mul", "Div"])
def integer(b, dtype, op):
    first = np.array([7, -7, 7, -7, 6, 0], dtype)
    return b.node(
        op, b.input(values=[first]), b.input(values=[np.array([2, 2, -2, -2, 3, 5], dtype)])
    )


@suite.case(fmod=[0, 1], dtype=["f4", "i8"])
def mod(b, fmod, dtype):
    if dtype == "f4":
        fmod = 1  # the document allows floats with fmod only
    first, second = np.array([7, -7, 7, -7, 6], dtype), np.array([3, 3, -3, -3, 2], dtype)
    return b.node("Mod", b.input(values=[first]), b.input(values=[second]), fmod=fmod)


@suite.case(op={name: (name, opset) for name, opset in COMPARISON.items()}, dtype=["f4", "i8"])
def comparison(b, op, dtype):
    name, b.opset = op
    return b.node(
        name,
        b.input((4, 5), dtype=dtype, low=-2, high=2),
        b.input((5,), dtype=dtype, low=-2, high=2),
    )


@suite.case(op=["And", "Or", "Xor"], opset=[8, 21])
def logical(b, op):
    return b.node(op, b.input((3, 4), dtype="?"), b.input((4,), dtype="?"))


@suite.case(op=["Not", "IsNaN", "IsInf"])
def predicates(b, op):
    values = np.array([0, np.inf, -np.inf, np.nan, 2], np.float32)
    return b.node(op, b.input(values=[values > 0 if op == "Not" else values]))


@suite.case(opset=[8, 11, 12, 13], bounds=["both", "low", "high", "none"])
def clip(b, bounds):
    low, high = (-0.5 if bounds in ("both", "low") else None), (
        0.75 if bounds in ("both", "high") else None
    )
    x = b.input((3, 7), low=-2, high=2)
    if b.opset < 11:
        return b.node(
            "Clip", x, **{k: v for k, v in (("min", low), ("max", high)) if v is not None}
        )
    return b.node("Clip", x, *("" if v is None else b.constant(v, "f4") for v in (low, high)))


@suite.case(
    source=["f4", "f8", "f2", "i4", "i8", "u1", "?"],
    target=["f4", "f8", "f2", "i4", "i8", "u1", "?"],
)
def cast(b, source, target):
    low = 0 if "u1" in (source, target) else -50
    x = b.input((4, 5), dtype=source, low=low, high=50)
    return b.node("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


@suite.case(opset=[9, 16], dtype=["f4", "i8"])
def where(b, dtype):
    kind = dict(dtype=dtype, low=-5, high=5)
    return b.node(
        "Where", b.input((3, 1), dtype="?"), b.input((3, 4), **kind), b.input((4,), **kind)
    )


@suite.case(opset=[8, 12, 13, 22], training=["inference"])
def dropout(b, training):
    return b.node("Dropout", b.input((3, 4)))


@suite.case(op=["BitwiseAnd", "BitwiseOr", "BitwiseXor"], dtype=["i4", "u1"])
def bitwise(b, op, dtype):
    kind = dict(dtype=dtype, low=0 if dtype == "u1" else -99, high=99)
    return b.node(op, b.input((3, 4), **kind), b.input((4,), **kind))


@suite.case(pair=["f4:i4", "i4:f4", "f2:u2", "i8:f8", "u1:i1", "u4:u4"])
def bit_cast(b, pair):
    b.opset = 26
    here, there = (np.dtype(name) for name in pair.split(":"))
    x = b.input((3, 4), (1, 4), dtype=here, low=0, high=100)
    return b.node("BitCast", x, to=helper.np_dtype_to_tensor_dtype(there))
