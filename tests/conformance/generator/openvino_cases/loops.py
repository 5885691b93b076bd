"""TensorIterator, Loop and If: random port maps, trip counts, conditions, branches."""

import numpy as np
import openvino
from openvino import opset16 as ops

from .. import reference
from ..openvino_build import body_parameter
from .registry import suite


def _random_map(b, partial):
    """(axis, stride, start, end, shape) of up to three sliced inputs with the same number of parts."""
    count = int(b.rng.integers(1, 5))
    maps = []
    for _ in range(int(b.rng.integers(1, 4))):
        rank, part = int(b.rng.integers(2, 5)), int(b.rng.integers(1, 4))
        axis = int(b.rng.integers(1, rank))
        before, after = b.rng.integers(0, 3, 2) if partial else (0, 0)
        shape = [2, *(int(extent) for extent in b.rng.integers(1, 5, rank - 1))]
        shape[axis] = int(before) + count * part + int(after)
        first, last = int(before), -1 - int(after)
        forward = b.rng.random() < 0.5
        start, end = (first, last) if forward else (last, first)
        if not partial:
            start, end = (0, -1) if forward else (-1, 0)
        maps.append((axis, part if forward else -part, start, end, tuple(shape)))
    return maps


def _total(part):
    """[batch, ...] -> [batch, 1], in either library's words."""
    if isinstance(part, np.ndarray):
        return part.reshape(part.shape[0], -1).sum(1, keepdims=True)
    flat = ops.reshape(part, ops.constant(np.array([0, -1])), True)
    return ops.reduce_sum(flat, ops.constant(np.array([1])), True)


def _tensor_iterator_reference(maps, weight):
    def run(*inputs):
        *sliced, state, invariant = inputs
        pieces = [
            reference.parts(array, *spec[:1], spec[2], spec[3], spec[1])
            for array, spec in zip(sliced, maps)
        ]
        states, outputs = [], [[] for _ in maps]
        for t in range(len(pieces[0])):
            totals = sum(_total(piece[t]) for piece in pieces)
            state = np.tanh(state * weight + totals + invariant)
            states.append(state)
            for output, piece in zip(outputs, pieces):
                output.append(piece[t] * 2 + 1)
        joined = [
            np.concatenate(output if spec[1] > 0 else output[::-1], spec[0])
            for output, spec in zip(outputs, maps)
        ]
        return [state, np.concatenate(states, 1), *joined]

    return run


def _tensor_iterator(b, partial):
    """state' = tanh(state * w + all parts' totals + invariant); each part p also gives 2 p + 1."""
    maps = _random_map(b, partial)
    weight = b.random((1, 3))
    if partial:
        b.expect(
            _tensor_iterator_reference(maps, weight),
            "the CPU plugin reads partial ranges from element 0",
        )
    sliced = [b.input(spec[4]) for spec in maps]
    state, invariant = b.input((2, 3)), b.input((1, 3))

    part_shapes = [
        [abs(spec[1]) if axis == spec[0] else extent for axis, extent in enumerate(spec[4])]
        for spec in maps
    ]
    parts = [body_parameter(shape) for shape in part_shapes]
    state_in, invariant_in = body_parameter([2, 3]), body_parameter([1, 3])
    total = _total(parts[0])
    for part in parts[1:]:
        total = ops.add(total, _total(part))
    update = ops.add(ops.add(ops.multiply(state_in, ops.constant(weight)), total), invariant_in)
    state_out = ops.result(ops.tanh(update))
    two, one = ops.constant(np.float32(2)), ops.constant(np.float32(1))
    outputs = [ops.result(ops.add(ops.multiply(part, two), one)) for part in parts]

    loop = ops.tensor_iterator()
    loop.set_body(openvino.Model([state_out, *outputs], [*parts, state_in, invariant_in], "body"))
    for (axis, stride, start, end, _), outer, inner in zip(maps, sliced, parts):
        loop.set_sliced_input(inner, outer.output(0), start, stride, abs(stride), end, axis)
    loop.set_merged_input(state_in, state.output(0), state_out.output(0))
    loop.set_invariant_input(invariant_in, invariant.output(0))
    results = [
        loop.get_iter_value(state_out.output(0), -1),
        loop.get_concatenated_slices(state_out.output(0), 0, 3, 3, -1, 1),
    ]
    for (axis, stride, _, _, _), output in zip(maps, outputs):
        start, end = (0, -1) if stride > 0 else (-1, 0)
        results.append(
            loop.get_concatenated_slices(output.output(0), start, stride, abs(stride), end, axis)
        )
    return results


@suite.case(seed=list(range(30)))
def tensor_iterator(b, seed):
    return _tensor_iterator(b, partial=False)


@suite.case(seed=list(range(20)))
def tensor_iterator_partial(b, seed):
    return _tensor_iterator(b, partial=True)


@suite.case(states=[2, 3])
def tensor_iterator_rotated_states(b, states):
    """Each state becomes the next one's; all back edges act at once."""
    sequence = b.input((2, 4, 3))
    initial = [b.input((2, 1, 3)) for _ in range(states)]

    def run(x, *values):
        values, seen = list(values), []
        for t in range(4):
            seen.append(x[:, t : t + 1] + values[0])
            values = values[1:] + values[:1]
        return [np.concatenate(seen, 1), *values]

    b.expect(run, "the CPU plugin moves states one after the other")
    part = body_parameter([2, 1, 3])
    inner = [body_parameter([2, 1, 3]) for _ in range(states)]
    seen = ops.result(ops.add(part, inner[0]))
    moved = [ops.result(parameter) for parameter in inner[1:] + inner[:1]]
    loop = ops.tensor_iterator()
    loop.set_body(openvino.Model([seen, *moved], [part, *inner], "body"))
    loop.set_sliced_input(part, sequence.output(0), 0, 1, 1, -1, 1)
    for parameter, first, last in zip(inner, initial, moved):
        loop.set_merged_input(parameter, first.output(0), last.output(0))
    joined = loop.get_concatenated_slices(seen.output(0), 0, 1, 1, -1, 1)
    return [joined, *(loop.get_iter_value(result.output(0), -1) for result in moved)]


@suite.case(reverse=[False, True], compress=[False, True], cell=["lstm", "gru", "rnn"])
def tensor_iterator_cell(b, reverse, compress, cell):
    """A cell over [batch, time, 5], batch and time dynamic."""
    b.compress = compress
    sequence = b.input((3, 4, 5), (1, 6, 5))
    initial = [b.input((3, 4), (1, 4)) for _ in range(2 if cell == "lstm" else 1)]
    part = body_parameter([-1, 1, 5])
    inner = [body_parameter([-1, 4]) for _ in initial]
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[cell]
    weights = [b.weights(4 * gates, 5), b.weights(4 * gates, 4), b.weights(4 * gates)]
    axis = b.integers([1])
    arguments = [ops.squeeze(part, axis), *inner, *weights, 4]
    if cell == "rnn":
        node = ops.rnn_cell(*arguments, ["tanh"], [], [])
    else:
        node = (ops.lstm_cell if cell == "lstm" else ops.gru_cell)(*arguments)
    states = [ops.result(output) for output in node.outputs()]
    y = ops.result(ops.unsqueeze(node.output(0), axis))
    loop = ops.tensor_iterator()
    loop.set_body(openvino.Model([y, *states], [part, *inner], "body"))
    start, end, stride = (-1, 0, -1) if reverse else (0, -1, 1)
    loop.set_sliced_input(part, sequence.output(0), start, stride, 1, end, 1)
    for parameter, first, last in zip(inner, initial, states):
        loop.set_merged_input(parameter, first.output(0), last.output(0))
    joined = loop.get_concatenated_slices(y.output(0), start, stride, 1, end, 1)
    return [joined, *(loop.get_iter_value(state.output(0), -1) for state in states)]


def _as_part(value):
    """A Result that Loop can join: its parts have extent 1, here on a new first axis."""
    return ops.result(ops.unsqueeze(value, ops.constant(np.array([0]))))


def _joined(loop, part, axis=0, stride=1):
    start, end = (0, -1) if stride > 0 else (-1, 0)
    return loop.get_concatenated_slices(part.output(0), start, stride, 1, end, axis)


def _loop(trip, condition, parameters, results, special):
    loop = ops.loop(trip.output(0), condition.output(0))
    loop.set_function(openvino.Model(results, parameters, "body"))
    loop.set_special_body_ports(special)
    return loop


@suite.case(trip=[1, 5], known=[True, False], counter=[False, True])
def loop_counted(b, trip, known, counter):
    """state' = state * 0.5 + x (+ the iteration's number); all states are joined."""
    count = b.integers(trip) if known else b.input(values=[np.array(trip), np.array(2)])
    state, x = b.input((2, 3)), b.input((2, 3))
    state_in, x_in = body_parameter([2, 3]), body_parameter([2, 3])
    parameters = [state_in, x_in]
    update = ops.add(ops.multiply(state_in, b.constant(0.5, "f4")), x_in)
    if counter:
        parameters.append(body_parameter([1], "i8"))
        update = ops.add(update, ops.convert(parameters[-1], "f32"))
    state_out, part, going = ops.result(update), _as_part(update), ops.result(b.constant([True]))
    loop = _loop(
        count, b.constant(True), parameters, [going, state_out, part], [2 if counter else -1, 0]
    )
    loop.set_merged_input(state_in, state.output(0), state_out.output(0))
    loop.set_invariant_input(x_in, x.output(0))
    return [loop.get_iter_value(state_out.output(0), -1), _joined(loop, part)]


@suite.case(limit=[1.0, 20.0, 1000.0], trip=[-1, 4])
def loop_while(b, limit, trip):
    """Doubles until the total exceeds the limit."""
    state = b.input((2, 3), low=0.5, high=1)
    state_in = body_parameter([2, 3])
    doubled = ops.add(state_in, state_in)
    total = ops.reduce_sum(doubled, b.integers([0, 1]), False)
    going = ops.result(ops.unsqueeze(ops.less(total, b.constant(limit, "f4")), b.integers([0])))
    state_out, part = ops.result(doubled), _as_part(doubled)
    loop = _loop(b.integers(trip), b.constant(True), [state_in], [going, state_out, part], [-1, 0])
    loop.set_merged_input(state_in, state.output(0), state_out.output(0))
    return [loop.get_iter_value(state_out.output(0), -1), _joined(loop, part)]


@suite.case(by=["trip", "condition"])
def loop_of_no_iterations(b, by):
    trip = b.input(values=[np.array(0 if by == "trip" else 3)])
    condition = b.input(values=[np.array(by == "trip")])
    state = b.input((2, 3))
    b.expect(
        lambda trip, condition, state: [state],
        "the initial states, although OpenVINO's reference throws",
    )
    state_in = body_parameter([2, 3])
    state_out, going = ops.result(ops.add(state_in, state_in)), ops.result(b.constant([True]))
    loop = _loop(trip, condition, [state_in], [going, state_out], [-1, 0])
    loop.set_merged_input(state_in, state.output(0), state_out.output(0))
    return [loop.get_iter_value(state_out.output(0), -1)]


@suite.case()
def loop_growing_state(b):
    """The state gains a row in each iteration."""
    state = b.input((1, 3), shape="?,3")
    state_in = body_parameter([-1, 3])
    row = ops.reduce_sum(state_in, b.integers([0]), True)
    state_out, going = ops.result(ops.concat([state_in, row], 0)), ops.result(b.constant([True]))
    loop = _loop(b.integers(4), b.constant(True), [state_in], [going, state_out], [-1, 0])
    loop.set_merged_input(state_in, state.output(0), state_out.output(0))
    return [loop.get_iter_value(state_out.output(0), -1)]


@suite.case()
def loop_sliced(b):
    sequence, state = b.input((2, 5, 3)), b.input((2, 1, 3))
    part, state_in = body_parameter([2, 1, 3]), body_parameter([2, 1, 3])
    state_out, going = ops.result(
        ops.maximum(ops.multiply(state_in, b.constant(0.9, "f4")), part)
    ), ops.result(b.constant([True]))
    loop = _loop(b.integers(5), b.constant(True), [part, state_in], [going, state_out], [-1, 0])
    loop.set_sliced_input(part, sequence.output(0), 0, 1, 1, -1, 1)
    loop.set_merged_input(state_in, state.output(0), state_out.output(0))
    return [_joined(loop, state_out, axis=1), loop.get_iter_value(state_out.output(0), -1)]


def _if(condition, pairs, then_results, else_results):
    """pairs: (outer value, then's Parameter or None, else's)."""
    node = ops.if_op(condition.output(0))
    node.set_then_body(openvino.Model(then_results, [t for _, t, _ in pairs if t], "then"))
    node.set_else_body(openvino.Model(else_results, [e for _, _, e in pairs if e], "else"))
    for value, then_parameter, else_parameter in pairs:
        node.set_input(value.output(0), then_parameter, else_parameter)
    return [node.set_output(t, e) for t, e in zip(then_results, else_results)]


@suite.case(condition=["constant", "input", "computed"])
def if_branches(b, condition):
    """x + y, or x * 3: one input is read by both branches, one by the first alone."""
    x, y = b.input((2, 3), (4, 3), (1, 3)), b.input((1, 3))
    if condition == "constant":
        chosen = b.constant(True)
    elif condition == "input":
        chosen = b.input(values=[np.array(value) for value in (True, False, True)])
    else:
        chosen = ops.less(ops.reduce_sum(x, b.integers([0, 1]), False), b.constant(0, "f4"))
    then_x, then_y, else_x = (
        body_parameter([-1, 3]),
        body_parameter([1, 3]),
        body_parameter([-1, 3]),
    )
    then_result = ops.result(ops.add(then_x, then_y))
    else_result = ops.result(ops.multiply(else_x, b.constant(3, "f4")))
    return _if(chosen, [(x, then_x, else_x), (y, then_y, None)], [then_result], [else_result])


@suite.case()
def if_shapes(b):
    """Branches whose results differ in shape, and that read nothing."""
    chosen = b.input(values=[np.array(True), np.array(False)])
    first, second = b.weights(2, 3), b.weights(5, 3)
    return _if(chosen, [], [ops.result(first)], [ops.result(second)])


@suite.case()
def if_in_loop(b):
    """A loop whose body adds or subtracts, by the iteration's number."""
    state, x = b.input((2, 3)), b.input((2, 3))
    state_in, x_in, number = (
        body_parameter([2, 3]),
        body_parameter([2, 3]),
        body_parameter([1], "i8"),
    )
    even = ops.equal(ops.squeeze(ops.mod(number, b.integers([2]))), b.integers(0))
    ts, tx, es, ex = (body_parameter([2, 3]) for _ in range(4))
    chosen = _if(
        even,
        [(state_in, ts, es), (x_in, tx, ex)],
        [ops.result(ops.add(ts, tx))],
        [ops.result(ops.subtract(es, ex))],
    )
    state_out, part, going = (
        ops.result(chosen[0]),
        _as_part(chosen[0]),
        ops.result(b.constant([True])),
    )
    loop = _loop(
        b.integers(5), b.constant(True), [state_in, x_in, number], [going, state_out, part], [2, 0]
    )
    loop.set_merged_input(state_in, state.output(0), state_out.output(0))
    loop.set_invariant_input(x_in, x.output(0))
    return [_joined(loop, part)]
