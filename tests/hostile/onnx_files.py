"""ONNX models that mean no good. files() yields their name, what the error says (nothing: it may load) and a
function that makes the files."""

from onnx_wire import (BOOL, F32, GRAPH, I64, INT, INTS, TENSOR, attribute, external, function, i64s,
                       in_graph, message, model, node, number, tensor, value, varint)

MANY = 100_000
HUGE = 1 << 62
X = value(11, "x", F32, [2])
Y = value(12, "y", F32)
ONE = message(5, tensor(F32, [1], b"\0\0\x80\x3f", "one"))


def relu(inputs="x", outputs="y"):
    return node("Relu", [inputs], [outputs])


def small():
    return model(in_graph(relu()) + X + Y)


def onnx(content, **others):
    return {"model.onnx": content, **others}


def outside(location, **entries):
    graph = external(F32, [4], "w", location=location, **entries)
    return onnx(model(graph + in_graph(node("Add", ["x", "w"], ["y"])) + value(11, "x", F32, [4]) + Y))


def nested_if(depth):
    graph = in_graph(node("Identity", ["x"], ["y"])) + message(12, message(1, "y"))
    for _ in range(depth):
        graph = in_graph(node("If", ["c"], ["y"], attribute("then_branch", GRAPH, graph)))
        graph += message(12, message(1, "y"))
    return onnx(model(graph + value(11, "c", BOOL, []) + X))


def nested_bytes(depth):
    """Graph in attribute in node in graph; `depth` is a multiple of three."""
    heads, size = [], 0
    for i in range(depth):
        heads.append(varint((6, 5, 1)[i % 3] << 3 | 2) + varint(size))
        size += len(heads[-1])
    return onnx(number(1, 8) + message(7, *reversed(heads)))


def nested_loops(depth):
    """Each body's state changes its shape, so that bodies are looked at again and again."""
    body = in_graph(node("Concat", ["s", "s"], ["t"], attribute("axis", INT, 0)))
    for _ in range(depth):
        inner = (value(11, "i", I64, []) + value(11, "k", BOOL, []) + value(11, "s", F32) + body +
                 in_graph(node("Identity", ["k"], ["m"])) +
                 message(12, message(1, "m")) + message(12, message(1, "t")))
        body = in_graph(node("Loop", ["n", "c", "s"], ["t"], attribute("body", GRAPH, inner)))
    return onnx(model(body + i64s("n", [3]) + value(11, "c", BOOL, []) + value(11, "s", F32, [2]) +
                      message(12, message(1, "t"))))


def doubling_functions(depth):
    functions = [function("f0", ["x"], ["y"], relu())]
    for i in range(1, depth):
        functions.append(function(f"f{i}", ["x"], ["y"],
                                  node(f"f{i - 1}", ["x"], ["a"], domain="own"),
                                  node(f"f{i - 1}", ["a"], ["y"], domain="own")))
    return onnx(model(in_graph(node(f"f{depth - 1}", ["x"], ["y"], domain="own")) + X + Y,
                      message(8, message(1, "own"), number(2, 1)), *functions))


def calls(count, *inside):
    """A function of these nodes, called `count` times in a row."""
    nodes = [node("f", ["x" if i == 0 else f"a{i - 1}"], ["y" if i == count - 1 else f"a{i}"],
                  domain="own") for i in range(count)]
    return onnx(model(in_graph(*nodes) + X + Y, message(8, message(1, "own"), number(2, 1)),
                      function("f", ["x"], ["y"], *inside)))


def chain(count, op="Relu", *attributes):
    names = ["x"] + [f"a{i}" for i in range(count - 1)] + ["y"]
    return onnx(model(in_graph(*(node(op, [a], [b], *attributes) for a, b in zip(names, names[1:]))) +
                      X + Y))


def folds(count, elements, *more):
    """Constants of zeros, made by ConstantOfShape and handed through `more`, added up."""
    nodes = []
    last = None
    for i in range(count):
        nodes.append(node("ConstantOfShape", ["n"], [f"c{i}"]))
        here = f"c{i}"
        for op in more:
            nodes.append(node(op, [here], [f"{op}{i}"]))
            here = f"{op}{i}"
        if last:
            nodes.append(node("Add", [last, here], [f"s{i}"]))
            here = f"s{i}"
        last = here
    nodes.append(node("Identity", [last], ["y"]))
    return onnx(model(i64s("n", [elements]) + in_graph(*nodes) + Y))


def filled(name, dims):
    return node("ConstantOfShape", [name + "_shape"], [name]), i64s(name + "_shape", dims)


def computed(op, *shapes, attributes=(), repeat=1):
    """An operator on constants of zeros, `repeat` times."""
    nodes, constants = [], b""
    for i, shape in enumerate(shapes):
        made, shape = filled(f"c{i}", shape)
        nodes.append(made)
        constants += shape
    inputs = [f"c{i}" for i in range(len(shapes))]
    nodes += [node(op, inputs, [f"y{i}"], *attributes) for i in range(repeat)]
    outputs = b"".join(message(12, message(1, f"y{i}")) for i in range(repeat))
    return onnx(model(constants + in_graph(*nodes) + outputs))


def ranges(start, limit, step):
    constants = b"".join(message(5, tensor(I64, [], v.to_bytes(8, "little", signed=True), n))
                         for n, v in (("a", start), ("b", limit), ("c", step)))
    return onnx(model(constants + in_graph(node("Range", ["a", "b", "c"], ["y"])) +
                      message(12, message(1, "y"))))


def lstms(count):
    """Recurrent sequences become many nodes each."""
    constants = b"".join(message(5, tensor(F32, dims, b"\0" * (4 * n), name)) for name, dims, n in
                         (("w", [1, 4, 1], 4), ("r", [1, 4, 1], 4)))
    nodes = [node("LSTM", ["x", "w", "r"], [f"y{i}"], attribute("hidden_size", INT, 1))
             for i in range(count)]
    outputs = b"".join(message(12, message(1, f"y{i}")) for i in range(count))
    return onnx(model(constants + in_graph(*nodes) + value(11, "x", F32, [2, 1, 1]) + outputs))


def files():
    yield "truncated model", "malformed", lambda: onnx(small()[:-9])
    yield "cycle", "depends on itself", lambda: onnx(
        model(in_graph(relu("a", "b"), relu("b", "a"), relu("b", "y")) + Y))
    yield "huge initializer", "bytes of elements", lambda: onnx(
        model(message(5, tensor(F32, [1 << 40], b"1234", "x")) + in_graph(relu()) + Y))
    yield "overflowing dims", "2^48", lambda: onnx(
        model(message(5, tensor(F32, [1 << 32] * 4, b"1234", "x")) + in_graph(relu()) + Y))
    yield "negative dims", "negative", lambda: onnx(
        model(message(5, tensor(F32, [-4], b"1234", "x")) + in_graph(relu()) + Y))
    for location in ("../secret", "/etc/passwd", "a/../../secret", "./../secret", "a\\..\\..\\secret",
                     "", "secret\0.bin"):
        yield f"external data in {location!r}", "external data", (
            lambda location=location: outside(location))
    yield "external data through a link", "outside", lambda: {**outside("link"), "link -> ../secret": b""}
    yield "external data through a linked folder", "outside", lambda: {
        **outside("folder/secret"), "folder -> ..": b""}
    yield "external data from a device", "outside", lambda: {**outside("zero"), "zero -> /dev/zero": b""}
    yield "external data beyond its file", "outside", lambda: {
        **outside("data", offset=HUGE * 2 - 8, length=16), "data": b"0" * 32}
    yield "external data of 2^62 bytes", "length is", lambda: {
        **outside("data", offset=0, length=HUGE), "data": b"0" * 32}
    yield "branches 30 deep", "nested more than 16", lambda: nested_if(30)
    yield "messages 99,999 deep", "nested more than 100 deep", lambda: nested_bytes(99_999)
    yield "groups 100,000 deep", "malformed", lambda: onnx(b"\x0b" * MANY)
    yield "loops 12 deep that change shapes", "", lambda: nested_loops(12)
    yield "functions that double 60 times", "nested more than 16", lambda: doubling_functions(60)
    yield "a function that calls itself", "nested more than 16", lambda: onnx(model(
        in_graph(node("f", ["x"], ["y"], domain="own")) + X + Y,
        message(8, message(1, "own"), number(2, 1)),
        function("f", ["x"], ["y"], node("f", ["x"], ["y"], domain="own"))))
    yield "a long name", "at most 4096", lambda: calls(
        50_000, node("Relu", ["x"], ["y"], name="n" * 500_000))
    yield "a long list in a function called 50,000 times", "calls of functions", lambda: calls(
        50_000, node("Constant", [], ["c"], attribute("value_ints", INTS, [0] * 200_000)),
        node("Identity", ["x"], ["y"]))
    yield "a constant in a function called 50,000 times", "", lambda: calls(
        50_000, node("Constant", [], ["c"], attribute("value", TENSOR, tensor(
            F32, [100_000], b"\0" * 400_000))), node("ReduceMax", ["c"], ["d"]),
        node("Add", ["x", "d"], ["y"]))
    yield "two million empty nodes", "would take more", lambda: onnx(model(b"\x0a\x00" * 2_000_000))
    yield "a chain of 90,000 nodes", "", lambda: chain(90_000)
    yield "50,000 nodes that become many", "", lambda: chain(50_000, "HardSwish")
    yield "50,000 normalisations", "", lambda: chain(50_000, "MeanVarianceNormalization",
                                            attribute("axes", INTS, [0]))
    yield "20,000 recurrent sequences", "bodies", lambda: lstms(20_000)
    yield "packed numbers", "would take more", lambda: onnx(model(message(
        5, number(1, 16_000_000), number(2, I64), message(7, b"\0" * 16_000_000), message(8, "x")) +
        in_graph(node("Neg", ["x"], ["y"])) + Y))
    yield "2^46 bytes of zeros", "", lambda: folds(1, 1 << 44)
    yield "8 GB of zeros", "", lambda: folds(1, 1 << 31)
    yield "a thousand megabytes of zeros", "", lambda: folds(1000, 250_000)
    yield "a thousand megabytes of sines", "", lambda: folds(1000, 250_000, "Sin", "Cos")
    yield "a range of 2^60", "", lambda: ranges(0, 1 << 60, 1)
    yield "a range with overflow", "", lambda: ranges(-HUGE * 2, HUGE * 2 - 1, 1)
    yield "a large convolution", "", lambda: computed("Conv", [1, 1, 1 << 18], [1, 1, 1 << 17])
    yield "a large pooling", "", lambda: computed(
        "MaxPool", [1, 1, 1 << 18], attributes=[attribute("kernel_shape", INTS, [1 << 17])])
    yield "many large sums", "", lambda: computed("ReduceSum", [1 << 18], repeat=50_000)
    yield "a large outer product", "", lambda: computed("MatMul", [1 << 18, 1], [1, 1 << 18])
    yield "5,000 products of large constants", "", lambda: computed(
        "MatMul", [512, 512], [512, 512], repeat=5000)
    yield "50,000 long inner products", "", lambda: computed(
        "MatMul", [1, 1 << 18], [1 << 18, 1], repeat=50_000)
    yield "padding to 2^40", "", lambda: onnx(model(
        ONE + i64s("p", [1 << 40, 1 << 40]) + in_graph(node("Pad", ["one", "p"], ["y"])) + Y))
    yield "tiles of tiles", "", lambda: onnx(model(
        ONE + i64s("t", [8]) + in_graph(*(node("Tile", ["one" if i == 0 else f"a{i - 1}", "t"],
                                               ["y" if i == 15 else f"a{i}"]) for i in range(16))) + Y))
    yield "a loop of 2^62 iterations", "", lambda: onnx(model(
        i64s("n", [HUGE]) + X + Y + in_graph(node("Loop", ["n", "", "x"], ["y"], attribute(
            "body", GRAPH, value(11, "i", I64, []) + value(11, "k", BOOL, []) + value(11, "s", F32) +
            in_graph(node("Identity", ["k"], ["m"]), node("Relu", ["s"], ["t"])) +
            message(12, message(1, "m")) + message(12, message(1, "t")))))))
