"""Sequences of tensors, as exporters write Python lists: grown in a loop and joined, taken apart, written down."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from ..onnx_build import subgraph
from .registry import suite

OPSETS = [13, 17, 25]  # a Loop of 11 carries no sequences


def _constant(name, value):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value)))


def _list_body(nodes, last, element=(2, 3), more_outputs=()):
    """iteration, condition, state s, list l -> condition, the state `last`, l with it behind, more outputs."""
    graph = subgraph(
        "body",
        [("i", "i8", []), ("go", "?", []), ("s", "f4", list(element))],
        [("go_on", "?", []), (last, "f4", list(element))],
        [
            *nodes,
            helper.make_node("SequenceInsert", ["l", last], ["l_next"]),
            helper.make_node("Identity", ["go"], ["go_on"]),
        ],
    )
    graph.input.append(helper.make_tensor_sequence_value_info("l", TensorProto.FLOAT, None))
    graph.output.append(helper.make_tensor_sequence_value_info("l_next", TensorProto.FLOAT, None))
    for name in more_outputs:
        graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(element)))
    return graph


def _grow(b, body, start, outputs=2, count=4):
    """The Loop around such a body: its state and the list (and more outputs)."""
    return b.node(
        "Loop",
        b.integers(count),
        b.constant(True),
        start,
        b.node("SequenceEmpty"),
        outputs=outputs,
        body=body,
    )


HALVE = [_constant("half", np.float32(0.5)), helper.make_node("Mul", ["s", "half"], ["s_next"])]


@suite.case(axis=[0, 1, 2, -1, -3], opset=OPSETS)
def list_stacked(b, axis):
    """torch.stack of what a loop appends."""
    state, grown = _grow(b, _list_body(HALVE, "s_next"), b.input((2, 3)))
    return [state, b.node("ConcatFromSequence", grown, axis=axis, new_axis=1)]


@suite.case(axis=[0, 1, 2, -1], opset=OPSETS)
def list_concatenated(b, axis):
    """torch.cat of what a loop appends."""
    body = _list_body(HALVE, "s_next", (2, 3, 4))
    _, grown = _grow(b, body, b.input((2, 3, 4)))
    return b.node("ConcatFromSequence", grown, axis=axis)


@suite.case()
def list_beside_joined_output(b):
    """The list stands between a state and an output that the loop joins itself."""
    nodes = [*HALVE, helper.make_node("Neg", ["s_next"], ["seen"])]
    outputs = _grow(b, _list_body(nodes, "s_next", more_outputs=["seen"]), b.input((2, 3)), 3)
    state, grown, seen = outputs
    return [state, b.node("ConcatFromSequence", grown, axis=1, new_axis=1), seen]


@suite.case()
def list_indexed_behind_the_loop(b):
    _, grown = _grow(b, _list_body(HALVE, "s_next"), b.input((2, 3)))
    last = b.node("SequenceAt", grown, b.integers(-1))
    return [last, b.node("SequenceLength", grown)]


@suite.case(opset=OPSETS, axis=[0, 1, -1], keepdims=[0, 1])
def parts_in_a_loop(b, axis, keepdims):
    """unbind and zip: parts of a tensor are picked by the iteration's number."""
    x = b.input((2, 3, 4), (2, 5, 4)) if axis == 1 else b.input((3, 2, 4))
    parts = b.node("SplitToSequence", x, b.integers(1), axis=axis, keepdims=keepdims)
    shape = [extent for i, extent in enumerate((2, 1, 4) if axis == 1 else (1, 2, 4))]
    if axis == -1:
        shape = [3, 2, 1]
    if not keepdims:
        shape.remove(1)
    body = _list_body(
        [
            helper.make_node("SequenceAt", [parts, "i"], ["part"]),
            helper.make_node("Add", ["s", "part"], ["s_next"]),
        ],
        "s_next",
        shape,
    )
    _, grown = b.node(
        "Loop",
        b.node("SequenceLength", parts),
        b.constant(True),
        b.input(tuple(shape)),
        b.node("SequenceEmpty"),
        outputs=2,
        body=body,
    )
    return b.node("ConcatFromSequence", grown, axis=0, new_axis=1)


@suite.case(at=[0, 2, -1, -3], opset=[11, 21])
def list_written_down(b, at):
    x, y, z = (b.input((2, 3)) for _ in range(3))
    three = b.node("SequenceConstruct", x, y)
    three = b.node("SequenceInsert", three, z)
    return [
        b.node("SequenceAt", three, b.integers(at)),
        b.node("SequenceLength", three),
        b.node("ConcatFromSequence", three, axis=1),
        b.node("ConcatFromSequence", three, axis=-1, new_axis=1),
    ]


@suite.case()
def list_from_nothing(b):
    empty = b.node("SequenceEmpty", dtype=TensorProto.FLOAT)
    one = b.node("SequenceInsert", empty, b.input((2, 3)))
    two = b.node("SequenceInsert", b.node("Identity", one), b.input((4, 3)))
    return b.node("ConcatFromSequence", two, axis=0)


@suite.case()
def parts_of_one_by_default(b):
    parts = b.node("SplitToSequence", b.input((3, 4), (2, 4)))
    return [
        b.node("SequenceAt", parts, b.input((), dtype="i8", low=0, high=1)),
        b.node("SequenceLength", parts),
    ]


@suite.case(opset=[11, 17], axis=[0, -1])
def parts_of_told_lengths(b, axis):
    """Flat states that a step takes apart: DeepFilterNet's exports."""
    x = b.input((6, 4)) if axis == 0 else b.input((4, 6), (2, 6))
    parts = b.node("SplitToSequence", x, b.constant(np.array([1, 3, 2], np.int64)), axis=axis)
    return [
        b.node("SequenceAt", parts, b.integers(1)),
        b.node("SequenceAt", parts, b.integers(-1)),
        b.node("SequenceLength", parts),
        b.node("ConcatFromSequence", parts, axis=axis),
    ]


@suite.case(opset=[11, 17], at=[0, 1])
def chunks_of_a_known_length(b, at):
    """torch.Tensor.split with a number: the last part may be shorter."""
    parts = b.node("SplitToSequence", b.input((3, 7), (3, 6)), b.integers(3), axis=1)
    return b.node("SequenceAt", parts, b.integers(at))
