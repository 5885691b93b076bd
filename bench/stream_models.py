"""Makes the random streaming transducers and the sound of the benchmark's section 'streams'.

    stream_models.py OUT

Encoders are those of icefall's lstm_transducer_stateless2 as its export-onnx.py writes them, operator by operator:
three convolutions that leave one frame of four, then 12 layers with states in and out, a frame (40 ms) a run. `small`
has 12 LSTMs of 512 and nothing else in its layers; `full` is icefall's default, the size of the models that
sherpa-onnx lists: cells of 1,024 projected to 512, and a feed-forward part of 2,048. Run in the environment of
bench/streams_requirements.txt. `full-int8` is `full` as icefall's export-onnx.py quantizes it: products with weights, by
ONNX Runtime's quantize_dynamic.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
from frame_models import TOKENS, floats, joiner, save, stateless, waves
from onnx import helper
from onnxruntime.quantization import QuantType, quantize_dynamic

LAYERS = 12
WIDTH = 512
BINS = 80
CHUNK, SHIFT = 9, 4  # features that a run reads, and by how many the next begins later
SOURCES = 24
BLANK_BIAS = 4.2  # so that about one frame in six yields a token


class Writer:
    """Nodes and weights of an encoder, with names that count up."""

    def __init__(self, draw: np.random.Generator) -> None:
        self.draw, self.nodes, self.weights = draw, [], {}

    def __call__(self, operator: str, *inputs: str, outputs: list[str] | None = None, **attributes: object) -> str:
        named = outputs or [f"v{len(self.nodes)}"]
        self.nodes.append(helper.make_node(operator, list(inputs), named, **attributes))
        return named[0]

    def constant(self, values: object) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(values)
        return name

    def random(self, *shape: int, size: float) -> str:
        return self.constant(self.draw.normal(0, size, shape).astype(np.float32))

    def linear(self, x: str, width: int, out: int) -> str:
        product = self("MatMul", x, self.random(width, out, size=width ** -0.5))
        return self("Add", product, self.constant(np.zeros(out, np.float32)))

    def double_swish(self, x: str) -> str:
        return self("Mul", x, self("Sigmoid", self("Sub", x, self.constant(np.float32(1)))))

    def basic_norm(self, x: str) -> str:
        mean = self("ReduceMean", self("Pow", x, self.constant(np.float32(2))), axes=[-1], keepdims=1)
        return self("Mul", x, self("Pow", self("Add", mean, self.constant(np.float32(0.25))),
                                   self.constant(np.float32(-0.5))))

    def convolved(self, x: str) -> str:
        """x [N, 9, 80] -> [1, N, 512]. Features lie around -6; the first bias brings them to 0."""
        y = self("Unsqueeze", x, self.constant(np.array([1], np.int64)))
        for channels, out, stride in ((1, 8, 1), (8, 32, 2), (32, 128, 2)):
            kernel = self.random(out, channels, 3, 3, size=(9 * channels) ** -0.5)
            bias = 6 * self.weights[kernel].sum(axis=(1, 2, 3)) * (channels == 1)
            y = self.double_swish(self("Conv", y, kernel, self.constant(bias.astype(np.float32)),
                                       strides=[stride, stride]))
        y = self("Transpose", y, perm=[0, 2, 1, 3])  # [N, 1, 128, 18]
        y = self("Reshape", y, self.constant(np.array([0, 0, -1], np.int64)))
        return self("Transpose", self.basic_norm(self.linear(y, 128 * 18, WIDTH)), perm=[1, 0, 2])

    def lstm(self, x: str, h: str, c: str) -> tuple[str, str, str]:
        """x [1, N, 512], h and c [1, N, 512] -> the same."""
        number = len(self.nodes)
        weights = [self.random(1, 4 * WIDTH, WIDTH, size=WIDTH ** -0.5) for _ in range(2)]
        outputs = [f"{name}{number}" for name in ("all", "h", "c")]
        self("LSTM", x, *weights, self.constant(np.zeros((1, 8 * WIDTH), np.float32)), "", h, c, outputs=outputs,
             hidden_size=WIDTH)
        return self("Squeeze", outputs[0], self.constant(np.array([1], np.int64))), outputs[1], outputs[2]

    def projected_lstm(self, x: str, h: str, c: str, cells: int) -> tuple[str, str, str]:
        """The same with c [1, N, cells], as icefall spells a projection out for export."""
        gates = self("Add", self.linear(x, WIDTH, 4 * cells), self.linear(h, WIDTH, 4 * cells))
        parts = [f"g{i}_{len(self.nodes)}" for i in range(4)]
        self("Split", gates, self.constant(np.full(4, cells, np.int64)), outputs=parts, axis=2)
        i, f, g, o = parts
        c = self("Add", self("Mul", self("Sigmoid", f), c), self("Mul", self("Sigmoid", i), self("Tanh", g)))
        hidden = self("Mul", self("Sigmoid", o), self("Tanh", c))
        h = self("MatMul", hidden, self.random(cells, WIDTH, size=cells ** -0.5))
        return h, h, c


def encoder(path: Path, cells: int, feed_forward: int, draw: np.random.Generator) -> None:
    write = Writer(draw)
    y = write.convolved("x")
    zero = write.constant(np.array([0], np.int64))
    h_next, c_next = [], []
    for layer in range(LAYERS):
        begin, end = (write.constant(np.array([at], np.int64)) for at in (layer, layer + 1))
        h, c = (write("Slice", state, begin, end, zero) for state in ("state0", "state1"))
        said, h, c = write.lstm(y, h, c) if cells == WIDTH else write.projected_lstm(y, h, c, cells)
        h_next.append(h)
        c_next.append(c)
        y = write("Add", y, said)
        if feed_forward:
            wide = write.double_swish(write.linear(y, WIDTH, feed_forward))
            y = write("Add", y, write.linear(wide, feed_forward, WIDTH))
        y = write.basic_norm(y)
    write("Concat", *h_next, outputs=["new_state0"], axis=0)
    write("Concat", *c_next, outputs=["new_state1"], axis=0)
    write("Transpose", write.linear(y, WIDTH, WIDTH), outputs=["encoder_out"], perm=[1, 0, 2])
    save(path, write.nodes,
         [floats("x", "N", CHUNK, BINS), floats("state0", LAYERS, "N", WIDTH), floats("state1", LAYERS, "N", cells)],
         [floats("encoder_out", "N", 1, WIDTH), floats("new_state0", LAYERS, "N", WIDTH),
          floats("new_state1", LAYERS, "N", cells)], write.weights,
         model_type="lstm", version=1, model_author="k2-fsa", decode_chunk_len=SHIFT, T=CHUNK,
         num_encoder_layers=LAYERS, d_model=WIDTH, rnn_hidden_size=cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    draw = np.random.default_rng(26)
    for name, cells, feed_forward in (("small", WIDTH, 0), ("full", 2 * WIDTH, 4 * WIDTH)):
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        encoder(folder / "encoder.onnx", cells, feed_forward, draw)
        stateless(folder / "decoder.onnx", draw)
        joiner(folder / "joiner.onnx", WIDTH, draw, blank_bias=BLANK_BIAS)
        tokens = ["<blk>", *(f"▁w{i}" for i in range(1, TOKENS))]
        (folder / "tokens.txt").write_text("".join(f"{token} {i}\n" for i, token in enumerate(tokens)))
    shutil.copytree(out / "full", out / "full-int8", ignore=shutil.ignore_patterns("encoder*", "bundle"), dirs_exist_ok=True)
    quantize_dynamic(out / "full/encoder.onnx", out / "full-int8/encoder.onnx", op_types_to_quantize=["MatMul"],
                     weight_type=QuantType.QInt8)
    np.savez(out / "sounds.npz", **{f"{i:02}": wave for i, wave in enumerate(waves(draw)[:SOURCES])})


if __name__ == "__main__":
    main()
