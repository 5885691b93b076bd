"""A language model with a vocabulary of words and random weights, which takes prompts and has states."""

import subprocess

import numpy as np

TOKENS = ["<s>", "</s>", *"once upon a time there was one small bird which sang and flew away".split()]
SIZE = len(TOKENS)


def layer(number, name, kind, data, ports, out, precision):
    shape = lambda dims: "".join(f"<dim>{d}</dim>" for d in dims)  # noqa: E731
    inputs = "".join(f'<port id="{i}">{shape(dims)}</port>' for i, dims in enumerate(ports))
    output = f'<output><port id="{len(ports)}" precision="{precision}">{shape(out)}</port></output>' if precision else ""
    return f'<layer id="{number}" name="{name}" type="{kind}" version="opset1"><data {data}/><input>{inputs}</input>{output}</layer>'


def make_model(programs, folder, bundle):
    """h' = 0.5 h + table[token]; logits = 3 tanh(h'): random, so that every token is probable somewhere. Its graph is
    written into `folder`, its bundle into `bundle`."""
    width, rows = (-1, SIZE), (-1,)
    table = np.random.default_rng(3).standard_normal((SIZE, SIZE)).astype(np.float32)
    size = table.nbytes
    layers = [
        layer(0, "token", "Parameter", 'shape="?" element_type="i64"', [], rows, "I64"),
        layer(1, "h", "Parameter", f'shape="?,{SIZE}" element_type="f32"', [], width, "FP32"),
        layer(2, "table", "Const", f'element_type="f32" shape="{SIZE},{SIZE}" offset="0" size="{size}"', [], (SIZE, SIZE), "FP32"),
        layer(3, "axis", "Const", f'element_type="i64" shape="" offset="{size}" size="8"', [], (), "I64"),
        layer(4, "x", "Gather", 'batch_dims="0"', [(SIZE, SIZE), rows, ()], width, "FP32"),
        layer(5, "half", "Const", f'element_type="f32" shape="" offset="{size + 8}" size="4"', [], (), "FP32"),
        layer(6, "old", "Multiply", 'auto_broadcast="numpy"', [width, ()], width, "FP32"),
        layer(7, "h_next", "Add", 'auto_broadcast="numpy"', [width, width], width, "FP32"),
        layer(8, "tanh", "Tanh", "", [width], width, "FP32"),
        layer(9, "three", "Const", f'element_type="f32" shape="" offset="{size + 12}" size="4"', [], (), "FP32"),
        layer(10, "logits", "Multiply", 'auto_broadcast="numpy"', [width, ()], width, "FP32"),
        layer(11, "h_next", "Result", "", [width], (), ""),
        layer(12, "logits", "Result", "", [width], (), ""),
    ]
    edges = [(2, 0, 4, 0), (0, 0, 4, 1), (3, 0, 4, 2), (1, 0, 6, 0), (5, 0, 6, 1), (6, 2, 7, 0), (4, 3, 7, 1), (7, 2, 8, 0),
             (8, 1, 10, 0), (9, 0, 10, 1), (7, 2, 11, 0), (10, 2, 12, 0)]
    lines = [f'<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}"/>' for a, b, c, d in edges]
    floats = np.float32([0.5, 3]).tobytes()
    (folder / "step.bin").write_bytes(table.tobytes() + np.int64(0).tobytes() + floats)
    (folder / "step.xml").write_text(
        f'<net name="step" version="11"><layers>{"".join(layers)}</layers><edges>{"".join(lines)}</edges></net>')
    (folder / "words.txt").write_text("\n".join(TOKENS) + "\n")
    subprocess.run([programs / "beamwright-graph", "init", folder / "step.xml", "--target-vocab", folder / "words.txt",
                    "--begin", "<s>", "--end", "</s>", "--out", bundle], check=True, stdout=subprocess.DEVNULL)
