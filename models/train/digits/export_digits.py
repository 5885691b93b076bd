"""Writes the bundle of trained weights: encoder.onnx with weights in f16 and states in and out, the vocabulary,
model.textproto.

    export_digits.py WEIGHTS --out FOLDER

The graph runs on a chunk of features and the states that the chunk before left; it is built from the arrays, without
PyTorch's exporter. ONNX Runtime then reads a source chunk by chunk and must say what the network says of the whole.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from export_ctc import GraphWriter, floats

from model_digits import BINS, FIELD, STRIDE, TOKENS, Digits, frames_of, load

SHIFT = 16  # features by which a chunk begins later: four frames
CHUNK = SHIFT + FIELD - STRIDE
TAIL = 66

CONFIG = """# proto-file: beamwright/v1/model.proto
# proto-message: beamwright.v1.ModelConfig
format_version: 1
name: "digits-en"
description: "A demonstration: spoken English digits, as they are said (convolutions and LSTM layers with a CTC output, trained on synthetic voices alone; 23.5 % of words wrong on people)"
sound {{}}
encoder {{
  graph: "encoder.onnx" input: "x"
  streaming {{
    chunk: {chunk} shift: {shift} tail: {tail}
    states {{ input: "h" output: "h_next" rows_axis: 1 }}
    states {{ input: "c" output: "c_next" rows_axis: 1 }}
  }}
}}
ctc {{ encoder_output: "log_probs" blank: 0 kind: LOGITS_KIND_LOG_PROBS }}
target {{ form: TEXT_FORM_WHITESPACE vocabulary: "target.vocab" }}
"""


class Writer(GraphWriter):
    def convolved(self, name: str, x: str) -> str:
        weights = [self.weight(f"{name}.{kind}", self.arrays[f"{name}.{kind}"]) for kind in ("weight", "bias")]
        y = self.add("Conv", [x, *weights], f"{name}/sum", strides=[2, 2], pads=[0, 1, 0, 1])
        return self.add("Relu", [y], f"{name}/out")

    def layer(self, index: int, x: str) -> str:
        """One LSTM layer. x [frames, rows, width] -> the same; states are row `index` of h and c."""
        names = {f"layer{index}.{kind}_l0": self.arrays[f"lstm.{kind}_l{index}"]
                 for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        self.arrays.update(names)
        weights, hidden = self.lstm_weights(f"layer{index}", ("",))
        starts = [self.add("Slice", [state, *(self.integers(f"{state}{index}/{at}", [value]) for at, value in
                                              (("begin", index), ("end", index + 1), ("axis", 0)))],
                           f"{state}{index}") for state in ("h", "c")]
        outputs = [f"layer{index}/all", f"h{index}/next", f"c{index}/next"]
        self.nodes.append(onnx.helper.make_node("LSTM", [x, *weights, "", *starts], outputs, name=f"layer{index}",
                                                hidden_size=hidden))
        return self.add("Squeeze", [outputs[0], self.integers(f"layer{index}/direction", [1])], f"layer{index}/out")


def graph_of(model: Digits) -> onnx.ModelProto:
    writer = Writer({name: array.numpy() for name, array in model.state_dict().items()})
    # Features are normalised in f32: what is subtracted is as large as what is left.
    for name in ("mean", "scale"):
        writer.constants.append(onnx.numpy_helper.from_array(writer.arrays[name], name))
    y = writer.add("Mul", [writer.add("Sub", ["x", "mean"], "centred"), "scale"], "normal")
    y = writer.add("Unsqueeze", [y, writer.integers("channel", [1])], "picture")
    y = writer.convolved("second", writer.convolved("first", y))  # [rows, channels, frames, bins / 4]
    y = writer.add("Transpose", [y], "by_frame", perm=[2, 0, 1, 3])
    y = writer.add("Reshape", [y, writer.integers("flat", [0, 0, -1])], "flattened")
    y = writer.add("Relu", [writer.linear("inner", y)], "inner/out")
    for index in range(model.shape.layers):
        y = writer.layer(index, y)
    for state in ("h", "c"):
        writer.add("Concat", [f"{state}{index}/next" for index in range(model.shape.layers)], f"{state}_next", axis=0)
    y = writer.add("Transpose", [writer.linear("project", y)], "logits", perm=[1, 0, 2])
    writer.add("LogSoftmax", [y], "log_probs", axis=2)
    states = [model.shape.layers, "rows", model.shape.width]
    return writer.model("digits", [floats("x", ["rows", CHUNK, BINS]), floats("h", states), floats("c", states)],
                        [floats("log_probs", ["rows", SHIFT // STRIDE, len(TOKENS)]), floats("h_next", states),
                         floats("c_next", states)])


def check(model: Digits, file: Path) -> float:
    """The largest difference of a log-probability between the whole source in PyTorch and chunks in ONNX Runtime."""
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).normal(-8, 4, (2, CHUNK + 20 * SHIFT, BINS)).astype(np.float32)
    h = c = np.zeros((model.shape.layers, 2, model.shape.width), np.float32)
    said = []
    for start in range(0, x.shape[1] - CHUNK + 1, SHIFT):
        log_probs, h, c = session.run(None, {"x": x[:, start:start + CHUNK], "h": h, "c": c})
        said.append(log_probs)
    with torch.no_grad():
        whole = model(torch.from_numpy(x))[0].numpy()
    assert whole.shape[1] == frames_of(x.shape[1])
    return float(np.abs(np.concatenate(said, 1) - whole).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    model = load(args.weights)
    with torch.no_grad():
        for layer in range(model.shape.layers):  # the graph has one bias a layer
            one, other = (getattr(model.lstm, f"bias_{kind}_l{layer}") for kind in ("ih", "hh"))
            one += other
            other.zero_()
        for parameter in model.parameters():
            parameter.data = parameter.data.half().float()  # as they are stored
    args.out.mkdir(parents=True, exist_ok=True)
    graph = graph_of(model)
    onnx.checker.check_model(graph, full_check=True)
    onnx.save(graph, args.out / "encoder.onnx")
    difference = check(model, args.out / "encoder.onnx")
    if difference > 1e-4:
        raise SystemExit(f"chunks in ONNX Runtime differ from the whole in PyTorch by {difference}")
    (args.out / "target.vocab").write_text("".join(f"{token}\n" for token in TOKENS), encoding="utf-8")
    (args.out / "model.textproto").write_text(CONFIG.format(chunk=CHUNK, shift=SHIFT, tail=TAIL), encoding="utf-8")
    size = (args.out / "encoder.onnx").stat().st_size
    print(f"{args.out}: {size / 1e6:.1f} MB; chunks differ from the whole by {difference:.1e}")


if __name__ == "__main__":
    main()
