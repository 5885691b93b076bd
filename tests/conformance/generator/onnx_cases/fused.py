"""Operators that ONNX Runtime's optimiser makes of several (domain com.microsoft, and a few in the default one)."""

import numpy as np

from .registry import suite

MICROSOFT = {"domain": "com.microsoft"}


@suite.case(trans=[(0, 0), (1, 0), (0, 1), (1, 1)], alpha=[1.0, 0.25])
def fused_matmul(b, trans, alpha):
    x = b.input((2, 3, 4) if not trans[0] else (2, 4, 3))
    y = b.weights(*((4, 5) if not trans[1] else (5, 4)))
    return b.node("FusedMatMul", x, y, transA=trans[0], transB=trans[1], alpha=alpha, **MICROSOFT)


@suite.case(batch=[(1, 0), (0, 1), (1, 1)], trans=[0, 1])
def fused_matmul_of_batches(b, batch, trans):
    """The first axis holds the rows."""
    x = b.input((3, 2, 4) if batch[0] else (2, 3, 4))
    y = b.input(((5, 2, 4) if trans else (4, 2, 5)) if batch[1] else ((2, 5, 4) if trans else (2, 4, 5)))
    return b.node("FusedMatMul", x, y, transBatchA=batch[0], transBatchB=batch[1], transB=trans, **MICROSOFT)


@suite.case()
def bias_gelu(b):
    return b.node("BiasGelu", b.input((2, 3, 4)), b.weights(4), **MICROSOFT)


@suite.case(bias=[False, True])
def fast_gelu(b, bias):
    return b.node("FastGelu", b.input((2, 3, 4)), *([b.weights(4)] if bias else []), **MICROSOFT)


@suite.case(alpha=[None, 1.0])
def quick_gelu(b, alpha):
    return b.node("QuickGelu", b.input((2, 3, 4)), **({} if alpha is None else {"alpha": alpha}), **MICROSOFT)


@suite.case(activation=["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "HardSigmoid", "Selu", "Softplus", "Softsign",
                        "ThresholdedRelu"], c=[False, True])
def fused_gemm(b, activation, c):
    numbers = {"LeakyRelu": ["alpha"], "Elu": ["alpha"], "HardSigmoid": ["alpha", "beta"],
               "Selu": ["alpha", "gamma"], "ThresholdedRelu": ["alpha"]}
    given = {f"activation_{name}": 0.3 for name in numbers.get(activation, [])}
    extra = [b.weights(5)] if c else []
    return b.node("FusedGemm", b.input((3, 4)), b.weights(4, 5), *extra, alpha=0.5, beta=2.0, activation=activation,
                  **given, **MICROSOFT)


@suite.case(activation=[("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.3]), ("Clip", [-0.5, 0.4]),
                        ("HardSigmoid", [0.3, 0.4])], bias=[False, True])
def fused_conv(b, activation, bias):
    extra = [b.weights(4)] if bias else []
    given = {"activation_params": activation[1]} if activation[1] else {}
    return b.node("FusedConv", b.input((2, 3, 7)), b.weights(4, 3, 3), *extra, pads=[1, 1], activation=activation[0],
                  **given, **MICROSOFT)


@suite.case()
def fused_conv_with_sum(b):
    inputs = [b.input((2, 3, 6, 5)), b.weights(4, 3, 3, 3), b.weights(4), b.input((2, 4, 6, 5))]
    return b.node("FusedConv", *inputs, pads=[1, 1, 1, 1], activation="Relu", **MICROSOFT)


@suite.case(beta=[False, True], bias=[False, True], skip=[(2, 3, 8), (1, 3, 8), (3, 8)])
def skip_layer_normalization(b, beta, bias, skip):
    inputs = [b.input((2, 3, 8)), b.input(skip), b.weights(8)]
    inputs += [b.weights(8) if beta else "", b.weights(8) if bias else ""]
    return b.node("SkipLayerNormalization", *inputs, outputs=[True, False, False, True], epsilon=1e-3, **MICROSOFT)


@suite.case(bias=[False, True])
def skip_simplified_layer_normalization(b, bias):
    inputs = [b.input((2, 3, 8)), b.input((2, 3, 8)), b.weights(8)] + ([b.weights(8)] if bias else [])
    return b.node("SkipSimplifiedLayerNormalization", *inputs, outputs=[True, False, False, True], epsilon=1e-3,
                  **MICROSOFT)


@suite.case(axis=[-1, 1])
def simplified_layer_normalization(b, axis):
    shape = (2, 3, 8)[axis:]
    return b.node("SimplifiedLayerNormalization", b.input((2, 3, 8)), b.weights(*shape), axis=axis, epsilon=1e-3)


@suite.case(opset=[11, 16])
def layer_normalization_of_the_optimiser(b):
    """In files whose opset does not have it yet."""
    return b.node("LayerNormalization", b.input((2, 3, 8)), b.weights(8), b.weights(8), axis=-1, epsilon=1e-3)


def mask_of(b, kind, batch, queries, keys):
    rng = np.random.default_rng(5)
    if kind is None:
        return ""
    if kind == "lengths":
        return b.input((batch,), dtype="i4", low=1, high=keys)
    shape = (batch, keys) if kind == "keys" else (batch, queries, keys)
    values = (rng.random(shape) < 0.7).astype("i4")
    values[..., 0] = 1
    return b.input(values=[values])


@suite.case(mask=[None, "lengths", "keys", "pairs"], causal=[0, 1], bias=[False, True])
def attention_of_the_optimiser(b, mask, causal, bias):
    inputs = [b.input((2, 5, 8)), b.weights(8, 36), b.weights(36), mask_of(b, mask, 2, 5, 5)]
    inputs += ["", b.input((1, 3, 5, 5))] if bias else []
    return b.node("Attention", *inputs, num_heads=3, unidirectional=causal, **MICROSOFT)


@suite.case(outputs=[1, 2])
def attention_with_a_past(b, outputs):
    inputs = [b.input((2, 4, 8)), b.weights(8, 24), b.weights(24), "", b.input((2, 2, 2, 3, 4))]
    return b.node("Attention", *inputs, num_heads=2, unidirectional=1, outputs=2, **MICROSOFT)[:outputs]


@suite.case()
def attention_of_widths(b):
    inputs = [b.input((2, 4, 8)), b.weights(8, 32), b.weights(32)]
    return b.node("Attention", *inputs, num_heads=2, qkv_hidden_sizes=[12, 12, 8], scale=0.2, **MICROSOFT)


@suite.case(mask=[None, "lengths", "keys", "pairs"], bias=[False, True], added=[False, True])
def multi_head_attention(b, mask, bias, added):
    inputs = [b.input((2, 3, 8)), b.input((2, 5, 8)), b.input((2, 5, 12))]
    inputs += [b.weights(28) if bias else "", mask_of(b, mask, 2, 3, 5)]
    inputs += [b.input((2, 4, 3, 5))] if added else []
    return b.node("MultiHeadAttention", *inputs, num_heads=4, **MICROSOFT)


@suite.case()
def multi_head_attention_to_a_memory(b):
    """Keys and values with their heads in front, as a decoder keeps those of the encoder."""
    inputs = [b.input((2, 3, 8)), b.input((2, 2, 5, 4)), b.input((2, 2, 5, 4))]
    return b.node("MultiHeadAttention", *inputs, num_heads=2, **MICROSOFT)


@suite.case(causal=[0, 1])
def multi_head_attention_with_a_past(b, causal):
    inputs = [b.input((2, 1, 8)), b.input((2, 1, 8)), b.input((2, 1, 8)), b.weights(24), "", ""]
    inputs += [b.input((2, 2, 3, 4)), b.input((2, 2, 3, 4))]
    return b.node("MultiHeadAttention", *inputs, num_heads=2, unidirectional=causal, outputs=3, **MICROSOFT)
