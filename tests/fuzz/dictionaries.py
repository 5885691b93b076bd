#!/usr/bin/env python3
"""Writes the fuzz targets' dictionaries: words that files are made of.

Usage: beamwright-graph operators | dictionaries.py FOLDER
"""

import pathlib
import re
import sys

IR = """<net name="n" version="11">|</net>|<layers>|</layers>|<edges>|</edges>|<layer id="|</layer>|<data |<input>|
</input>|<output>|</output>|<port id="|</port>|<dim>|</dim>|<edge from-layer="|" from-port="|" to-layer="|" to-port="|
<body>|</body>|<then_body>|</then_body>|<else_body>|</else_body>|<port_map>|</port_map>|<then_port_map>|<else_port_map>|
<back_edges>|</back_edges>|external_port_id="|internal_layer_id="|axis="|start="|end="|stride="|part_size="|
purpose="current_iteration"|purpose="execution_condition"|type="|version="opset|precision="|element_type="|shape="|
offset="|size="|names="|variable_id="|Parameter|Const|Result|TensorIterator|LSTMSequence|GRUSequence|RNNSequence|
ReadValue|Assign|f16|f32|f64|bf16|i8|i32|i64|u8|u64|boolean|true|false|-1|9223372036854775807|-9223372036854775808|
281474976710656|?|...|1..8|&lt;|<!--|-->|<![CDATA[|<!DOCTYPE""".replace("\n", "").split("|")
ATTRIBUTES = """axis axes perm keepdims to value mode direction hidden_size layout linear_before_reset activations
activation_alpha activation_beta clip input_forget body then_branch else_branch num_scan_inputs
scan_input_axes scan_input_directions scan_output_axes scan_output_directions alpha beta epsilon transA transB
allowzero num_outputs split starts ends steps pads strides dilations group kernel_shape auto_pad ceil_mode
count_include_pad output_shape output_padding equation largest sorted exclusive reverse reduction depth
batch_dims noop_with_empty_axes select_last_index start end time_axis batch_axis location offset length
""".split()


def main():
    internal, onnx = ([line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ") and "---" not in line]
                      for table in sys.stdin.read().split("\n\n"))
    # A row of the first table: operators of equal attributes, and these ("none": no attribute).
    operators = [name.strip() for row in internal[1:] for name in row[0].split(",")]
    attributes = {name.strip() for row in internal[1:] for name in row[1].split(",")} - {"none"}
    ir = IR + operators + [f'{name}="' for name in sorted(attributes)]
    # A row of the second: an opset, and operators with what they become in brackets. "\\x04" and the like: a model spells
    # the length before each text.
    onnx = [name.strip() for row in onnx[1:] for name in re.sub(r"\([^)]*\)", "", row[1]).split(",")] + ATTRIBUTES
    onnx = [chr(len(word)) + word for word in onnx] + ["ai.onnx", "com.microsoft"]
    folder = pathlib.Path(sys.argv[1])
    for target, words in (("openvino_ir", ir), ("onnx", onnx), ("execution", ir + onnx)):
        lines = []
        for word in dict.fromkeys(words):
            text = "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\x{ord(c):02x}" for c in word)
            lines.append(f'"{text}"\n')
        (folder / f"{target}.dict").write_text("".join(lines))


main()
