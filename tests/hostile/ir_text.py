"""Pieces of OpenVINO IR as text."""


def port(number, dims="", precision="FP32"):
    extents = "".join(f"<dim>{d}</dim>" for d in dims.split(",") if d)
    return f'<port id="{number}" precision="{precision}">{extents}</port>'


def layer(number, kind, data="", inputs=(), outputs=(), inside=""):
    ports = f"<input>{''.join(inputs)}</input>" if inputs else ""
    ports += f"<output>{''.join(outputs)}</output>" if outputs else ""
    data = f"<data {data}/>" if data else ""
    return f'<layer id="{number}" name="n{number}" type="{kind}">{data}{ports}{inside}</layer>'


def parameter(number, shape, kind="f32"):
    precision = {"f32": "FP32", "i64": "I64"}[kind]
    return layer(number, "Parameter", f'element_type="{kind}" shape="{shape}"', (),
                 [port(0, "" if shape == "..." else shape, precision)])


def result(number):
    return layer(number, "Result", "", [port(0)])


def constant(number, kind, shape, offset, size):
    precision = {"f32": "FP32", "i64": "I64"}[kind]
    return layer(number, "Const",
                 f'element_type="{kind}" shape="{shape}" offset="{offset}" size="{size}"', (),
                 [port(0, shape, precision)])


def content(layers, edges):
    """edges: "0.0-1.0 1.1-2.0", from layer.port to layer.port."""
    lines = []
    for edge in edges.split():
        (a, b), (c, d) = (end.split(".") for end in edge.split("-"))
        lines.append(f'<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}"/>')
    return f"<layers>{''.join(layers)}</layers><edges>{''.join(lines)}</edges>"


def net(layers, edges):
    return f'<net name="net" version="11">{content(layers, edges)}</net>'
