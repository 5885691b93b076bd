"""Writes the bundle of a CTC checkpoint: encoder.onnx with weights in f16, vocabularies, model.textproto.

The graph is built from the checkpoint's arrays, without PyTorch. LSTM layers become ONNX's LSTM, whose
gates stand in another order; every weight is stored in f16 and converted where it is read.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CONFIG = """# proto-file: beamwright/v1/model.proto
# proto-message: beamwright.v1.ModelConfig
format_version: 1
name: "{name}"
description: "{description}"
encoder {{ graph: "encoder.onnx" input: "source" }}
ctc {{ encoder_output: "log_probs" blank: 0 kind: LOGITS_KIND_LOG_PROBS }}
source {{ form: {source_form} vocabulary: "source.vocab" unknown_token: "<unk>" lowercase: true }}
target {{ form: {target_form} vocabulary: "target.vocab" }}
"""


class GraphWriter:
    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add(self, op: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{op}/{output}", **attributes))
        return output

    def integers(self, name: str, values: list[int]) -> str:
        self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def weight(self, name: str, values: np.ndarray) -> str:
        """In f16, read as f32."""
        self.constants.append(numpy_helper.from_array(values.astype(np.float16), f"{name}/f16"))
        return self.add("Cast", [f"{name}/f16"], name, to=TensorProto.FLOAT)

    def linear(self, name: str, x: str) -> str:
        product = self.add("MatMul", [x, self.weight(f"{name}.weight", self.arrays[f"{name}.weight"].T)],
                           f"{name}/product")
        return self.add("Add", [product, self.weight(f"{name}.bias", self.arrays[f"{name}.bias"])],
                        f"{name}/sum")

    def lstm_weights(self, name: str, sides: tuple[str, ...]) -> tuple[list[str], int]:
        """What ONNX's LSTM reads behind its input, by the suffixes of the directions, and the hidden size."""
        def of(kind: str, suffix: str) -> np.ndarray:
            gates = np.split(self.arrays[f"{name}.{kind}_l0{suffix}"], 4)  # input, forget, cell, output
            return np.concatenate([gates[i] for i in (0, 3, 1, 2)])

        weights = [self.weight(f"{name}/{kind}", np.stack([of(kind, side) for side in sides]))
                   for kind in ("weight_ih", "weight_hh")]
        # The two biases are always added; the second is zeros here.
        bias = np.stack([of("bias_ih", side) + of("bias_hh", side) for side in sides])
        biases = self.weight(f"{name}/bias", np.concatenate([bias, np.zeros_like(bias)], axis=1))
        return [*weights, biases], bias.shape[1] // 4

    def lstm(self, name: str, x: str) -> str:
        """x [time, rows, width], both directions -> [time, rows, 2 hidden]."""
        weights, hidden = self.lstm_weights(name, ("", "_reverse"))
        both = self.add("LSTM", [x, *weights], f"{name}/both", direction="bidirectional", hidden_size=hidden)
        turned = self.add("Transpose", [both], f"{name}/turned", perm=[0, 2, 1, 3])
        return self.add("Reshape", [turned, self.integers(f"{name}/shape", [0, 0, -1])], f"{name}/all")

    def model(self, name: str, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
              ) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def floats(name: str, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def integers(name: str, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.INT64, shape)


def write_frames(writer: GraphWriter, frames_per_letter: int) -> str:
    """From `source` [rows, letters] to what the last layer says of each frame, [frames, rows, 2 upper]."""
    arrays = writer.arrays
    table = writer.weight("source_table", arrays["source_table.weight"])
    x = writer.add("Gather", [table, "source"], "embedded")
    x = writer.add("Transpose", [x], "letters", perm=[1, 0, 2])
    x = writer.lstm("encoder1", writer.lstm("encoder0", x))
    x = writer.linear("spread", x)  # [letters, rows, frames * width]
    width = arrays["spread.bias"].shape[0] // frames_per_letter
    # A letter's frames come one behind the other; the rows stay on a separate axis.
    x = writer.add("Transpose", [x], "words", perm=[1, 0, 2])
    x = writer.add("Reshape", [x, writer.integers("apart", [0, -1, width])], "spread_frames")
    x = writer.add("Tanh", [writer.add("Transpose", [x], "steps", perm=[1, 0, 2])], "frames")
    return writer.lstm("upper", x)


def graph_of(arrays: dict[str, np.ndarray], frames_per_letter: int) -> onnx.ModelProto:
    writer = GraphWriter(arrays)
    x = writer.linear("project", write_frames(writer, frames_per_letter))
    x = writer.add("Transpose", [x], "logits", perm=[1, 0, 2])
    writer.add("LogSoftmax", [x], "log_probs", axis=2)
    tokens = arrays["project.bias"].shape[0]
    return writer.model("ctc", [integers("source", ["rows", "length"])],
                        [floats("log_probs", ["rows", "frames", tokens])])


def form_of(tokens: list[str]) -> str:
    plain = [token for token in tokens if not token.startswith("<")]
    return "TEXT_FORM_CHARACTERS" if all(len(token) == 1 for token in plain) else "TEXT_FORM_WHITESPACE"


def read_arguments(doc: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--checkpoint", type=Path, required=True, help="best.npz of the training")
    parser.add_argument("--name", required=True)
    parser.add_argument("--description", default="trained by models/train")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def write_bundle(args: argparse.Namespace, graphs: dict[str, onnx.ModelProto],
                 arrays: dict[str, np.ndarray], config: str) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    for file, model in graphs.items():
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, args.out / file)
    sides = {side: arrays[f"vocabulary.{side}"].tolist() for side in ("source", "target")}
    for side, tokens in sides.items():
        (args.out / f"{side}.vocab").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    (args.out / "model.textproto").write_text(config.format(
        name=args.name, description=args.description, source_form=form_of(sides["source"]),
        target_form=form_of(sides["target"])), encoding="utf-8")
    size = sum((args.out / file).stat().st_size for file in graphs)
    print(f"{args.out}: {size / 1e6:.1f} MB")


def main() -> None:
    args = read_arguments(__doc__)
    arrays = dict(np.load(args.checkpoint))
    write_bundle(args, {"encoder.onnx": graph_of(arrays, 2)}, arrays, CONFIG)


if __name__ == "__main__":
    main()
