"""Scan, Loop and If: axes, directions, lengths, conditions, values of the outer graph."""

import numpy as np
from onnx import helper, numpy_helper

from ..onnx_build import subgraph
from .registry import suite

SCAN_OPSETS = [9, 11, 16, 19, 21, 25]


def _accumulate(shape):
    """state' = state * 0.5 + x; the scan output is state' - x."""
    nodes = [
        helper.make_node(
            "Constant", [], ["half"], value=numpy_helper.from_array(np.array(0.5, np.float32))
        ),
        helper.make_node("Mul", ["s", "half"], ["halved"]),
        helper.make_node("Add", ["halved", "x"], ["s_next"]),
        helper.make_node("Sub", ["s_next", "x"], ["seen"]),
    ]
    return subgraph(
        "body",
        [("s", "f4", shape), ("x", "f4", shape)],
        [("s_next", "f4", shape), ("seen", "f4", shape)],
        nodes,
    )


@suite.case(opset=SCAN_OPSETS, reverse_input=[0, 1], reverse_output=[0, 1])
def scan(b, reverse_input, reverse_output):
    return b.node(
        "Scan",
        b.input((2, 3)),
        b.input((5, 2, 3), (1, 2, 3)),
        outputs=2,
        body=_accumulate([2, 3]),
        num_scan_inputs=1,
        scan_input_directions=[reverse_input],
        scan_output_directions=[reverse_output],
    )


@suite.case(opset=[9, 11, 21], input_axis=[0, 1, -1], output_axis=[0, 1, -1])
def scan_axes(b, input_axis, output_axis):
    if b.opset == 9 and (input_axis < 0 or output_axis < 0):
        input_axis, output_axis = abs(input_axis), abs(output_axis)
    shape = [2, 3]
    shape.insert(input_axis if input_axis >= 0 else 2, 4)
    return b.node(
        "Scan",
        b.input((2, 3)),
        b.input(tuple(shape)),
        outputs=2,
        body=_accumulate([2, 3]),
        num_scan_inputs=1,
        scan_input_axes=[input_axis],
        scan_output_axes=[output_axis],
    )


@suite.case(opset=[9, 21], known=[False, True])
def scan_shapes(b, known):
    """Several states and sequences of different types; shapes known inside the body, or not."""
    f4, i8 = ([2, 3], []) if known else (None, None)
    nodes = [
        helper.make_node("Add", ["s", "x"], ["s_next"]),
        helper.make_node("Add", ["n", "k"], ["n_next"]),
        helper.make_node("Cast", ["n_next"], ["as_float"], to=1),
        helper.make_node("Mul", ["s_next", "as_float"], ["y"]),
        helper.make_node("Identity", ["k"], ["k_out"]),
    ]
    body = subgraph(
        "body",
        [("s", "f4", f4), ("n", "i8", i8), ("x", "f4", f4), ("k", "i8", i8)],
        [("s_next", "f4", f4), ("n_next", "i8", i8), ("y", "f4", f4), ("k_out", "i8", i8)],
        nodes,
    )
    inputs = [
        b.input((2, 3)),
        b.input((), dtype="i8", low=-3, high=3),
        b.input((4, 2, 3), (2, 2, 3)),
        b.input((4,), (2,), dtype="i8", low=-3, high=3),
    ]
    return b.node("Scan", *inputs, outputs=4, body=body, num_scan_inputs=2)


@suite.case(opset=[9, 21])
def scan_outer_value(b):
    """The body reads values of the graph around it: an input, a computed one and an initializer."""
    outer, weights = b.input((3,)), b.weights(3, 3)
    doubled = b.node("Add", outer, outer)
    nodes = [
        helper.make_node("MatMul", ["x", weights], ["product"]),
        helper.make_node("Add", ["product", doubled], ["shifted"]),
        helper.make_node("Tanh", ["shifted"], ["y"]),
    ]
    body = subgraph("body", [("x", "f4", [2, 3])], [("y", "f4", [2, 3])], nodes)
    return b.node("Scan", b.input((4, 2, 3), (1, 2, 3)), body=body, num_scan_inputs=1)


@suite.case()
def scan_nested(b):
    """A Scan in a Scan's body; the inner one reads a state of the outer one's."""
    inner = subgraph(
        "inner",
        [("e", "f4", [])],
        [("e_out", "f4", [])],
        [helper.make_node("Add", ["e", "total"], ["e_out"])],
    )
    nodes = [
        helper.make_node("ReduceSum", ["row"], ["row_sum"], keepdims=0),
        helper.make_node("Add", ["s", "row_sum"], ["total"]),
        helper.make_node("Scan", ["row"], ["row_out"], body=inner, num_scan_inputs=1),
        helper.make_node("Identity", ["total"], ["s_next"]),
    ]
    body = subgraph(
        "outer",
        [("s", "f4", []), ("row", "f4", [3])],
        [("s_next", "f4", []), ("row_out", "f4", [3])],
        nodes,
    )
    return b.node("Scan", b.input(()), b.input((4, 3)), outputs=2, body=body, num_scan_inputs=1)


@suite.case(lengths=[False, True], directions=[[0], [1]])
def scan_8(b, lengths, directions):
    """Opset 8: a batch axis before all else, lengths for each item, short ones padded with zeros."""
    b.opset = 8
    length = b.input(values=[np.array([4, 2, 1])]) if lengths else ""
    return b.node(
        "Scan",
        length,
        b.input((3, 2)),
        b.input((3, 4, 2)),
        outputs=2,
        body=_accumulate([2]),
        num_scan_inputs=1,
        directions=directions,
    )


def _loop_body(state_shape, keep_going, scan=True):
    nodes = [
        helper.make_node("Cast", ["i"], ["i_float"], to=1),
        helper.make_node("Add", ["s", "i_float"], ["s_next"]),
        *keep_going,
    ]
    outputs = [("going", "?", []), ("s_next", "f4", state_shape)]
    if scan:
        nodes.append(helper.make_node("Mul", ["s_next", "s"], ["seen"]))
        outputs.append(("seen", "f4", state_shape))
    return subgraph(
        "body", [("i", "i8", []), ("cond", "?", []), ("s", "f4", state_shape)], outputs, nodes
    )


ALWAYS = [helper.make_node("Identity", ["cond"], ["going"])]


@suite.case(opset=[8, 11, 13, 16, 19, 21, 25], trip=[1, 4])
def loop_counted(b, trip):
    count = b.input(values=[np.array(trip), np.array(3)])
    return b.node(
        "Loop", count, b.constant(True), b.input((2, 3)), outputs=2, body=_loop_body([2, 3], ALWAYS)
    )


@suite.case(opset=[11, 21], trip={"none": None, "few": 3, "many": 50})
def loop_while(b, trip):
    """Until the total is above 10."""
    going = [
        helper.make_node("ReduceSum", ["s_next"], ["total"], keepdims=0),
        helper.make_node("Less", ["total", b.constant(10, "f4")], ["going"]),
    ]
    count = "" if trip is None else b.integers(trip)
    return b.node(
        "Loop", count, b.constant(True), b.input((2, 3)), outputs=2, body=_loop_body([2, 3], going)
    )


@suite.case(by=["trip", "condition"])
def loop_of_no_iterations(b, by):
    trip = b.input(values=[np.array(0 if by == "trip" else 3)])
    condition = b.input(values=[np.array(by == "trip")])
    return b.node(
        "Loop", trip, condition, b.input((2, 3)), outputs=2, body=_loop_body([2, 3], ALWAYS)
    )


@suite.case()
def loop_growing_state(b):
    nodes = [
        helper.make_node("Concat", ["s", "s"], ["s_next"], axis=0),
        helper.make_node("Identity", ["cond"], ["going"]),
    ]
    body = subgraph(
        "body",
        [("i", "i8", []), ("cond", "?", []), ("s", "f4", None)],
        [("going", "?", []), ("s_next", "f4", None)],
        nodes,
    )
    return b.node("Loop", b.integers(3), "", b.input((1, 2)), body=body)


@suite.case()
def loop_swapped_states(b):
    nodes = [helper.make_node("Identity", ["cond"], ["going"])]
    body = subgraph(
        "body",
        [("i", "i8", []), ("cond", "?", []), ("p", "f4", [2]), ("q", "f4", [2])],
        [("going", "?", []), ("q", "f4", [2]), ("p", "f4", [2])],
        nodes,
    )
    return b.node("Loop", b.integers(3), "", b.input((2,)), b.input((2,)), outputs=2, body=body)


@suite.case(opset=[8, 11, 13, 16, 19, 21, 25])
def if_branches(b):
    """Both branches read the outer graph."""
    x, y = b.input((2, 3)), b.input((3,))
    chosen = b.input(values=[np.array(True), np.array(False)])
    branches = [
        subgraph("then", [], [("t", "f4", None)], [helper.make_node("Add", [x, y], ["t"])]),
        subgraph("else", [], [("e", "f4", None)], [helper.make_node("Mul", [x, x], ["e"])]),
    ]
    return b.node("If", chosen, then_branch=branches[0], else_branch=branches[1])


@suite.case()
def if_in_loop(b):
    """The body adds or subtracts by the iteration's number."""
    x = b.input((2,))
    branches = [
        subgraph("then", [], [("t", "f4", [2])], [helper.make_node("Add", ["s", x], ["t"])]),
        subgraph("else", [], [("e", "f4", [2])], [helper.make_node("Sub", ["s", x], ["e"])]),
    ]
    two = b.integers(2)
    nodes = [
        helper.make_node("Mod", ["i", two], ["odd"]),
        helper.make_node("Cast", ["odd"], ["is_odd"], to=9),
        helper.make_node(
            "If", ["is_odd"], ["s_next"], then_branch=branches[0], else_branch=branches[1]
        ),
        helper.make_node("Identity", ["cond"], ["going"]),
        helper.make_node("Identity", ["s_next"], ["seen"]),
    ]
    body = subgraph(
        "body",
        [("i", "i8", []), ("cond", "?", []), ("s", "f4", [2])],
        [("going", "?", []), ("s_next", "f4", [2]), ("seen", "f4", [2])],
        nodes,
    )
    return b.node("Loop", b.integers(5), "", b.input((2,)), outputs=2, body=body)
