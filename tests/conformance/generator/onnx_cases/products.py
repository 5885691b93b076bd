"""MatMul, Gemm, Einsum, convolutions, pooling, attention."""

from .registry import suite


@suite.case(
    shapes={
        "plain": ([(3, 4)], [(4, 5)]),
        "batched": ([(2, 3, 4), (1, 2, 4)], [(4, 5)]),
        "broadcast": ([(2, 1, 3, 4)], [(3, 4, 5)]),
        "vector": ([(4,)], [(4, 5)]),
    },
    opset=[8, 13],
)
def matmul(b, shapes):
    return b.node("MatMul", b.input(*shapes[0]), b.input(*shapes[1]))


@suite.case(
    opset=[8, 11, 13],
    trans_a=[0, 1],
    trans_b=[0, 1],
    bias={"none": None, "row": (5,), "column": (3, 1), "scalar": ()},
)
def gemm(b, trans_a, trans_b, bias):
    if bias is None and b.opset < 11:
        bias = (1, 5)  # C became optional with 11
    inputs = [b.input((4, 3) if trans_a else (3, 4)), b.weights(*((5, 4) if trans_b else (4, 5)))]
    if bias is not None:
        inputs.append(b.weights(*bias))
    return b.node("Gemm", *inputs, alpha=0.7, beta=1.3, transA=trans_a, transB=trans_b)


@suite.case(
    equation=[
        "ij,jk->ik",
        "bij,bjk->bik",
        "bhid,bhjd->bhij",
        "ij->ji",
        "...ij,...jk->...ik",
        "bi,bi->b",
        "ij->",
    ]
)
def einsum(b, equation):
    extents = {
        letter: 2 + index for index, letter in enumerate(sorted(set(equation) - set(",->.")))
    }
    terms = equation.split("->")[0].replace("...", "").split(",")
    lead = (2,) if "..." in equation else ()
    return b.node(
        "Einsum",
        *(b.input(lead + tuple(extents[c] for c in term)) for term in terms),
        equation=equation
    )


WINDOWS = {
    "plain": {},
    "padded": dict(pads=[1, 0, 2, 1]),
    "strided": dict(strides=[2, 1], pads=[1, 1, 1, 1]),
    "dilated": dict(dilations=[2, 1], pads=[2, 1, 2, 1]),
    "same_upper": dict(auto_pad="SAME_UPPER", strides=[2, 2]),
    "same_lower": dict(auto_pad="SAME_LOWER", strides=[2, 1]),
    "valid": dict(auto_pad="VALID"),
}


@suite.case(window=WINDOWS, bias=[False, True])
def conv(b, window, bias):
    return b.node(
        "Conv",
        b.input((2, 3, 7, 8), (1, 3, 6, 6)),
        b.weights(4, 3, 3, 2),
        *([b.weights(4)] if bias else []),
        **window
    )


@suite.case(group=[2, 4])
def conv_grouped(b, group):
    return b.node(
        "Conv",
        b.input((2, 4, 9)),
        b.weights(4, 4 // group, 3),
        b.weights(4),
        group=group,
        pads=[1, 1],
    )


@suite.case(
    window={"plain": {}, "strided": dict(strides=[2, 2], pads=[1, 0, 1, 0], output_padding=[1, 0])},
    opset=[8, 11, 22],
)
def conv_transpose(b, window):
    return b.node(
        "ConvTranspose", b.input((1, 3, 4, 5)), b.weights(3, 2, 3, 3), b.weights(2), **window
    )


@suite.case(
    window={
        "upper": dict(auto_pad="SAME_UPPER", strides=[2, 3]),
        "lower": dict(auto_pad="SAME_LOWER", strides=[2, 3]),
        "upper_dilated": dict(auto_pad="SAME_UPPER", strides=[2, 2], dilations=[2, 1]),
        "shape": dict(strides=[2, 3], output_shape=[8, 14]),
        "shape_odd": dict(strides=[2, 3], output_shape=[6, 13]),
        "shape_larger": dict(strides=[2, 3], output_shape=[10, 17]),
        "shape_upper": dict(auto_pad="SAME_UPPER", strides=[2, 3], output_shape=[8, 12]),
        "shape_padding": dict(strides=[2, 3], output_shape=[9, 16], output_padding=[1, 1]),
    },
    group=[1, 3],
)
def conv_transpose_to_shape(b, window, group):
    """Pads that follow from the shape that is asked for."""
    return b.node(
        "ConvTranspose", b.input((2, 3, 4, 5)), b.weights(3, 2, 3, 3), group=group, **window
    )


@suite.case(
    window={
        "plane": dict(kernel_shape=[2, 3]),
        "padded": dict(kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1]),
        "line": dict(kernel_shape=[3]),
        "room": dict(kernel_shape=[2, 2, 1]),
    },
    opset=[8, 22],
)
def max_pool_column_major(b, window):
    """Indices count with the first spatial axis fastest."""
    spatial = {1: [(7,), (5,)], 2: [(4, 5), (6, 4)], 3: [(3, 4, 5)]}[len(window["kernel_shape"])]
    return b.node(
        "MaxPool",
        b.input(*((2, 3, *shape) for shape in spatial)),
        outputs=2,
        storage_order=1,
        **window
    )


@suite.case(
    op=["MaxPool", "AveragePool"],
    window={
        "plain": {},
        "padded": dict(pads=[1, 0, 1, 1]),
        "strided": dict(strides=[2, 2]),
        "ceil": dict(strides=[2, 2], ceil_mode=1),
        "same": dict(auto_pad="SAME_UPPER", strides=[2, 2]),
    },
    opset=[10, 11, 22],
)
def pool(b, op, window):
    return b.node(op, b.input((2, 3, 7, 8), (1, 3, 6, 5)), kernel_shape=[3, 2], **window)


@suite.case(include=[0, 1], opset=[8, 19])
def average_pool_padding(b, include):
    return b.node(
        "AveragePool",
        b.input((1, 2, 5, 5)),
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        count_include_pad=include,
    )


@suite.case(op=["GlobalAveragePool", "GlobalMaxPool"], opset=[8, 22])
def global_pool(b, op):
    return b.node(op, b.input((2, 3, 4, 5), (1, 3, 2, 2)))


@suite.case(causal=[0, 1], mask=["none", "float", "boolean"], heads=["own", "grouped"])
def attention(b, causal, mask, heads):
    b.opset = 23
    kv_heads = 3 if heads == "own" else 1
    inputs = [b.input((2, 3, 4, 8)), b.input((2, kv_heads, 5, 8)), b.input((2, kv_heads, 5, 8))]
    if mask != "none":
        inputs.append(b.input((4, 5), dtype="f4" if mask == "float" else "?"))
    return b.node("Attention", *inputs, is_causal=causal)


@suite.case(causal=[0, 1], queries=[1, 2])
def attention_past(b, causal, queries):
    b.opset = 23
    inputs = [b.input((2, 2, queries, 4)) for _ in range(3)]
    inputs += ["", b.input((2, 2, 3, 4)), b.input((2, 2, 3, 4))]
    return b.node("Attention", *inputs, is_causal=causal, outputs=3)


@suite.case()
def attention_softcap(b):
    b.opset = 23
    inputs = [b.input((2, 2, 3, 4), low=-3, high=3) for _ in range(3)] + [b.input((3, 3))]
    return b.node("Attention", *inputs, softcap=0.7, scale=1.5)


@suite.case(lengths=[[5, 3, 1], [5, 0, 2]])
def attention_of_lengths(b, lengths):
    b.opset = 24
    inputs = [b.input((3, 2, 4, 6)), b.input((3, 2, 5, 6)), b.input((3, 2, 5, 6))]
    return b.node("Attention", *inputs, "", "", "", b.integers(lengths))


@suite.case(causal=[0, 1])
def attention_without_a_key(b, causal):
    """A query whose keys are all masked gets 0."""
    b.opset = 24
    mask = [[False, True, False], [False, False, False], [True, False, False]]
    inputs = [b.input((2, 2, 3, 4)) for _ in range(3)] + [b.constant(mask, "?")]
    return b.node("Attention", *inputs, is_causal=causal)


@suite.case(mask=[(2, 1, 4, 5), (1, 3, 4, 5), (4, 5)])
def attention_of_grouped_rows(b, mask):
    """Nine heads of queries read three of keys; both come side by side."""
    b.opset = 24
    inputs = [b.input((2, 4, 18)), b.input((2, 5, 6)), b.input((2, 5, 9)), b.input(mask)]
    if mask == (1, 3, 4, 5):
        inputs[3] = b.input((1, 9, 4, 5))
    return b.node("Attention", *inputs, q_num_heads=9, kv_num_heads=3)


@suite.case()
def attention_packed(b):
    b.opset = 23
    inputs = [b.input((2, 4, 12)), b.input((2, 5, 12)), b.input((2, 5, 12))]
    return b.node("Attention", *inputs, q_num_heads=3, kv_num_heads=3, scale=0.4)
