"""Writes the bundle of a transducer's checkpoint: encoder, predictor and joiner, weights in f16, vocabularies, model.textproto."""

import numpy as np
import onnx

from export_ctc import GraphWriter, floats, integers, read_arguments, write_bundle, write_frames

CONFIG = """# proto-file: beamwright/v1/model.proto
# proto-message: beamwright.v1.ModelConfig
format_version: 1
name: "{name}"
description: "{description}"
encoder {{ graph: "encoder.onnx" input: "source" }}
transducer {{
  predictor {{
    graph: "predictor.onnx"
    token_input: "token"
    states {{ input: "h" output: "h_next" constant: 0 }}
    states {{ input: "c" output: "c_next" constant: 0 }}
    output: "said"
  }}
  joiner {{ graph: "joiner.onnx" encoder_input: "frame" predictor_input: "said" logits_output: "logits" }}
  blank: 0
  max_symbols: 3
}}
source {{ form: {source_form} vocabulary: "source.vocab" unknown_token: "<unk>" lowercase: true }}
target {{ form: {target_form} vocabulary: "target.vocab" }}
"""


def encoder_of(arrays: dict[str, np.ndarray]) -> onnx.ModelProto:
    layers = {name.removeprefix("ctc."): values for name, values in arrays.items()}
    writer = GraphWriter(layers)
    x = writer.linear("join_frame", write_frames(writer, 2))
    writer.add("Transpose", [x], "frame", perm=[1, 0, 2])
    return writer.model("encoder", [integers("source", ["rows", "length"])],
                        [floats("frame", ["rows", "frames", len(layers["join_frame.bias"])])])


def predictor_of(arrays: dict[str, np.ndarray]) -> onnx.ModelProto:
    writer = GraphWriter(arrays)
    table = writer.weight("target_table", arrays["target_table.weight"])
    x = writer.add("Transpose", [writer.add("Gather", [table, "token"], "embedded")], "steps", perm=[1, 0, 2])
    weights, hidden = writer.lstm_weights("predictor", ("",))
    writer.nodes.append(onnx.helper.make_node("LSTM", [x, *weights, "", "h", "c"], ["all", "h_next", "c_next"],
                                              name="LSTM/predictor", hidden_size=hidden))
    last = writer.add("Reshape", ["h_next", writer.integers("flat", [-1, hidden])], "last")
    product = writer.linear("join_said", last)
    writer.add("Identity", [product], "said")
    states = [1, "rows", hidden]
    return writer.model("predictor",
                        [integers("token", ["rows", 1]), floats("h", states), floats("c", states)],
                        [floats("said", ["rows", len(arrays["join_said.bias"])]), floats("h_next", states), floats("c_next", states)])


def joiner_of(arrays: dict[str, np.ndarray]) -> onnx.ModelProto:
    writer = GraphWriter(arrays)
    x = writer.add("Tanh", [writer.add("Add", ["frame", "said"], "sum")], "joined")
    writer.add("Identity", [writer.linear("scores", x)], "logits")
    width = len(arrays["join_said.bias"])
    return writer.model("joiner", [floats("frame", ["rows", width]), floats("said", ["rows", width])],
                        [floats("logits", ["rows", len(arrays["scores.bias"])])])


def main() -> None:
    args = read_arguments(__doc__)
    arrays = dict(np.load(args.checkpoint))
    graphs = {"encoder.onnx": encoder_of(arrays), "predictor.onnx": predictor_of(arrays), "joiner.onnx": joiner_of(arrays)}
    write_bundle(args, graphs, arrays, CONFIG)


if __name__ == "__main__":
    main()
