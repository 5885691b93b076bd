"""OpenVINO IR that means no good. files() yields its name, what its error says (nothing: it may load) and a
function that makes the files."""

import struct

from ir_text import constant, content, layer, net, parameter, port, result

MANY = 100_000
HUGE = 1 << 62


def unary(number, kind="Relu", data=""):
    return layer(number, kind, data, [port(0)], [port(1)])


def small():
    return net([parameter(0, "2"), unary(1), result(2)], "0.0-1.0 1.1-2.0")


def chain(count):
    layers = [parameter(0, "2")] + [unary(i) for i in range(1, count)] + [result(count)]
    edges = " ".join(f"{i}.{1 if i else 0}-{i + 1}.0" for i in range(count))
    return net(layers, edges)


def loop(number, body):
    """A TensorIterator whose body has Parameter 0 and Result 9."""
    rules = ('<port_map><input external_port_id="0" internal_layer_id="0"/>'
             '<output external_port_id="1" internal_layer_id="9"/></port_map>')
    return layer(number, "TensorIterator", "", [port(0)], [port(1)],
                 f"{rules}<body>{body}</body>")


def decoder(count):
    """A loop over tokens with a long chain of layers behind it, which a search would make one step."""
    rules = ('<port_map><input external_port_id="0" internal_layer_id="0" axis="1"/>'
             '<output external_port_id="1" internal_layer_id="9" axis="1"/></port_map>')
    body = content([parameter(0, "?,1"), unary(1), result(9)], "0.0-1.0 1.1-9.0")
    layers = [parameter(0, "?,?", "i64"),
              layer(1, "Convert", 'destination_type="f32"', [port(0, "", "I64")], [port(1)]),
              layer(2, "TensorIterator", "", [port(0)], [port(1)], f"{rules}<body>{body}</body>")]
    layers += [unary(i) for i in range(3, count)] + [result(count)]
    return net(layers, " ".join(f"{i}.{1 if i else 0}-{i + 1}.0" for i in range(count)))


def nested_loops(depth):
    body = content([parameter(0, "2"), unary(1), result(9)], "0.0-1.0 1.1-9.0")
    before = ('<layers>' + parameter(0, "2") + '<layer id="1" name="l" type="TensorIterator"><input>' +
              port(0) + '</input><output>' + port(1) + '</output><port_map>'
              '<input external_port_id="0" internal_layer_id="0"/>'
              '<output external_port_id="1" internal_layer_id="9"/></port_map><body>')
    after = ('</body></layer>' + result(9) + '</layers><edges>'
             '<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>'
             '<edge from-layer="1" from-port="1" to-layer="9" to-port="0"/></edges>')
    return '<net version="11">' + before * depth + body + after * depth + '</net>'


def broadcasts(count, extent, again=""):
    """`count` times a constant becomes [extent] f32, all are added up; `again`: and each by this."""
    target = struct.pack("<q", extent)
    weights = target + struct.pack("<f", 1)
    layers = [constant(0, "i64", "1", 0, 8), constant(1, "f32", "1", 8, 4)]
    edges = []
    last = None
    for i in range(count):
        number = 10 * (i + 1)
        layers.append(layer(number, "Broadcast", 'mode="numpy"', [port(0), port(1)], [port(2)]))
        edges += [f"1.0-{number}.0", f"0.0-{number}.1"]
        here = f"{number}.2"
        if again:
            layers.append(unary(number + 1, again))
            edges.append(f"{here}-{number + 1}.0")
            here = f"{number + 1}.1"
        if last:
            layers.append(layer(number + 2, "Add", "", [port(0), port(1)], [port(2)]))
            edges += [f"{last}-{number + 2}.0", f"{here}-{number + 2}.1"]
            here = f"{number + 2}.2"
        last = here
    layers.append(result(5))
    edges.append(f"{last}-5.0")
    return {"model.xml": net(layers, " ".join(edges)), "model.bin": weights}


def folded_in_loops(depth):
    """Each of nested bodies makes what it is given eight times as large."""
    weights = struct.pack("<qf", 1 << 18, 1.0) + struct.pack("<q", 8)
    body = ""
    for level in range(depth):
        inner = (unary(2) if level == 0 else loop(2, body))
        tile = layer(1, "Tile", "", [port(0), port(1)], [port(2)])
        body = content([parameter(0, "..."), constant(3, "i64", "1", 12, 8), tile, inner, result(9)],
                       "0.0-1.0 3.0-1.1 1.2-2.0 2.1-9.0")
    layers = [constant(0, "i64", "1", 0, 8), constant(1, "f32", "1", 8, 4),
              layer(2, "Broadcast", 'mode="numpy"', [port(0), port(1)], [port(2)]), loop(3, body),
              result(4)]
    return {"model.xml": net(layers, "1.0-2.0 0.0-2.1 2.2-3.0 3.1-4.0"), "model.bin": weights}


def many_folding_loops(count):
    """Bodies side by side, each of which makes 16 MB of four bytes."""
    weights = struct.pack("<qf", 1 << 18, 1.0) + struct.pack("<q", 16)
    body = content([parameter(0, "..."), constant(3, "i64", "1", 0, 8), constant(4, "i64", "1", 12, 8),
                    layer(1, "Broadcast", 'mode="numpy"', [port(0), port(1)], [port(2)]),
                    layer(2, "Tile", "", [port(0), port(1)], [port(2)]), result(9)],
                   "0.0-1.0 3.0-1.1 1.2-2.0 4.0-2.1 2.2-9.0")
    layers = [constant(1, "f32", "1", 8, 4)]
    edges = []
    for i in range(count):
        layers += [loop(10 + 2 * i, body), result(11 + 2 * i)]
        edges += [f"1.0-{10 + 2 * i}.0", f"{10 + 2 * i}.1-{11 + 2 * i}.0"]
    return {"model.xml": net(layers, " ".join(edges)), "model.bin": weights}


def xml(text):
    return {"model.xml": text}


def const_file(shape, offset, size, weights=b"\0" * 16):
    text = net([constant(0, "f32", shape, offset, size), result(1)], "0.0-1.0")
    return {"model.xml": text, "model.bin": weights}


def files():
    yield "truncated xml", "not well-formed", lambda: xml(small()[:200])
    yield "truncated weights", "outside the weights", lambda: const_file("8", 0, 32)
    yield "cycle", "cycle", lambda: xml(net([unary(0), unary(1), result(2)], "0.1-1.0 1.1-0.0 1.1-2.0"))
    yield "huge constant", "size", lambda: const_file(f"{1 << 40}", 0, 16)
    yield "overflowing shape", "2^48", lambda: const_file(",".join([str(1 << 32)] * 4), 0, 16)
    yield "overflowing offset", "outside the weights", lambda: const_file("4", HUGE * 2 - 1, 16)
    yield "overflowing size", "size is", lambda: const_file("4", 8, HUGE * 2 - 1)
    yield "elements 100,000 deep", "root element", lambda: xml("<a>" * MANY + "</a>" * MANY)
    yield "net 100,000 deep", "not well-formed", lambda: xml('<net version="11">' + "<layers>" * MANY)
    yield "loops 17 deep", "nested more than 16", lambda: xml(nested_loops(17))
    yield "loops 12,500 deep", "nested more than 16", lambda: xml(nested_loops(12_500))
    yield "entity bomb", "", lambda: xml(
        '<!DOCTYPE net [<!ENTITY a "aaaaaaaaaa">' + "".join(
            f'<!ENTITY {c} "{("&" + p + ";") * 10}">' for p, c in zip("abcdefgh", "bcdefghi")) +
        "]>" + small().replace('name="n1"', 'name="&i;&i;"'))
    yield "external entity", "&x;", lambda: {
        "model.xml": '<!DOCTYPE net [<!ENTITY x SYSTEM "../secret">]>' +
                     small().replace('name="n1" type="Relu"', 'name="&x;" type="&x;"')}
    yield "many elements", "too many elements", lambda: xml('<net version="11">' + "<a/>" * (8_000_000) + "</net>")
    yield "many attributes", "too many elements", lambda: xml('<net version="11"><layers a' + "=''\na" * 5_000_000 +
                                     "=''/></net>")
    yield "many ports", "too many elements", lambda: xml(
        '<net version="11"><layers>' + "".join(
            f'<layer id="{i}" name="" type="A"><input>' + "".join(
                f'<port id="{j}"/>' for j in range(4096)) + "</input></layer>" for i in range(400)) +
        "</layers></net>")
    yield "many layers", "", lambda: xml('<net version="11"><layers>' + "".join(
        f'<layer id="{i}" type="A"/>' for i in range(MANY)) + "</layers></net>")
    yield "a chain of 50,000 layers", "", lambda: xml(chain(50_000))
    yield "a decoder of 50,000 layers", "", lambda: xml(decoder(50_000))
    yield "long names", "1024 bytes", lambda: xml(small().replace('name="n1"', f'name="{"x" * 30_000_000}"'))
    yield "larger than XML may be", "at most", lambda: xml(small() + " " * (40 << 20))
    yield "broadcast to 2^46 bytes", "", lambda: broadcasts(1, 1 << 44)
    yield "broadcast to 8 GB", "", lambda: broadcasts(1, 1 << 31)
    yield "a thousand broadcasts", "", lambda: broadcasts(1000, 250_000)
    yield "a thousand broadcasts with work", "", lambda: broadcasts(1000, 250_000, "Exp")
    yield "folding in nested loops", "", lambda: folded_in_loops(8)
    yield "a hundred folding loops", "", lambda: many_folding_loops(100)
    yield "two thousand loops", "more than 1000 bodies", lambda: many_folding_loops(2000)
