"""ONNX models as bytes, written field by field: also those that no library would write."""

F32, I64, BOOL = 1, 7, 9
GRAPH, INT, INTS, TENSOR = 5, 2, 7, 4


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, *parts):
    content = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(content)) + content


def model(graph, *others, opset=17):
    return number(1, 8) + message(8, number(2, opset)) + message(7, graph) + b"".join(others)


def node(op, inputs=(), outputs=(), *attributes, domain="", name=""):
    parts = [message(1, i) for i in inputs] + [message(2, o) for o in outputs]
    parts += [message(3, name)] if name else []
    parts += [message(4, op)] + [message(5, a) for a in attributes]
    return b"".join(parts) + (message(7, domain) if domain else b"")


def in_graph(*nodes):
    return b"".join(message(1, n) for n in nodes)


def attribute(name, kind, value):
    fields = {GRAPH: 6, TENSOR: 5}
    if kind == INT:
        content = number(3, value)
    elif kind == INTS:
        content = b"".join(number(8, v) for v in value)
    else:
        content = message(fields[kind], value)
    return message(1, name) + content + number(20, kind)


def tensor(dtype, dims, raw=None, name="", *others):
    parts = [number(1, dim) for dim in dims] + [number(2, dtype)]
    parts += [message(8, name)] if name else []
    parts += [message(9, raw)] if raw is not None else []
    return b"".join(parts) + b"".join(others)


def i64s(name, values):
    raw = b"".join(v.to_bytes(8, "little", signed=True) for v in values)
    return message(5, tensor(I64, [len(values)], raw, name))


def external(dtype, dims, name, **entries):
    data = b"".join(message(13, message(1, k), message(2, str(v))) for k, v in entries.items())
    return message(5, tensor(dtype, dims, None, name, data, number(14, 1)))


def value(field, name, dtype, dims=None):
    """field: 11 for a graph's input, 12 for an output. dims: None for an unknown rank."""
    shape = b"" if dims is None else message(2, *(message(1, number(1, d)) for d in dims))
    return message(field, message(1, name), message(2, message(1, number(1, dtype), shape)))


def function(name, inputs, outputs, *nodes, opset=17):
    return message(25, message(1, name), *(message(4, i) for i in inputs),
                   *(message(5, o) for o in outputs), *(message(7, n) for n in nodes),
                   message(9, number(2, opset)), message(9, message(1, "own"), number(2, 1)),
                   message(10, "own"))
