"""Makes the random models, frames and language models of the benchmark's section 'frames'.

    frame_models.py OUT

Transducers are written as icefall and NeMo export them, so that sherpa-onnx and `beamwright-graph init`
read the same files; the CTC frames are log-probabilities, which every decoder takes. Run in the
environment of bench/frames_requirements.txt.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

TOKENS = 500
JOINED = 512
STREAMS = 16
SOURCES = 64  # of ours, which keeps what a stateless predictor said: few come twice in a run
SECONDS = 4
RATE = 16000
CONTEXT = 2
LSTM = 640
BLANK_BIAS = 2.2  # so that about one frame in six yields a token


def constant(name: str, values: np.ndarray) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(values), name)


def save(path: Path, nodes: list, inputs: list, outputs: list, weights: dict[str, np.ndarray],
         **metadata: object) -> None:
    graph = helper.make_graph(nodes, path.stem, inputs, outputs,
                              [constant(name, values) for name, values in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, {key: str(value) for key, value in metadata.items()})
    onnx.save(model, path)


def floats(name: str, *shape: object) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def integers(name: str, *shape: object) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.INT64, list(shape))


def encoder(path: Path, draw: np.random.Generator) -> None:
    """One layer, next to nothing: the search is what is measured."""
    save(path, [helper.make_node("MatMul", ["x", "w"], ["encoder_out"]),
                helper.make_node("Identity", ["x_lens"], ["encoder_out_lens"])],
         [floats("x", "N", "T", 80), integers("x_lens", "N")],
         [floats("encoder_out", "N", "T", JOINED), integers("encoder_out_lens", "N")],
         {"w": draw.normal(0, 0.06, (80, JOINED)).astype(np.float32)}, model_type="zipformer2",
         version=1, model_author="k2-fsa", comment="random")


def stateless(path: Path, draw: np.random.Generator) -> None:
    groups = JOINED // 4
    save(path,
         [helper.make_node("Max", ["y", "zero"], ["ids"]),
          helper.make_node("Gather", ["table", "ids"], ["embedded"]),
          helper.make_node("Less", ["y", "zero"], ["absent"]),
          helper.make_node("Not", ["absent"], ["present"]),
          helper.make_node("Cast", ["present"], ["mask"], to=TensorProto.FLOAT),
          helper.make_node("Unsqueeze", ["mask", "last"], ["mask3"]),
          helper.make_node("Mul", ["embedded", "mask3"], ["masked"]),
          helper.make_node("Transpose", ["masked"], ["channels"], perm=[0, 2, 1]),
          helper.make_node("Conv", ["channels", "kernel"], ["read"], group=groups),
          helper.make_node("Squeeze", ["read", "last"], ["flat"]),
          helper.make_node("Relu", ["flat"], ["positive"]),
          helper.make_node("Gemm", ["positive", "w", "b"], ["decoder_out"])],
         [integers("y", "N", CONTEXT)], [floats("decoder_out", "N", JOINED)],
         {"zero": np.array(0, np.int64), "last": np.array([2], np.int64),
          "table": draw.normal(0, 1, (TOKENS, JOINED)).astype(np.float32),
          "kernel": draw.normal(0, 0.5, (JOINED, 4, CONTEXT)).astype(np.float32),
          "w": draw.normal(0, 0.04, (JOINED, JOINED)).astype(np.float32),
          "b": np.zeros(JOINED, np.float32)}, context_size=CONTEXT, vocab_size=TOKENS)


def joiner(path: Path, width: int, draw: np.random.Generator, blank_bias: float = BLANK_BIAS) -> None:
    bias = np.zeros(TOKENS, np.float32)
    bias[0] = blank_bias
    save(path, [helper.make_node("Add", ["encoder_out", "decoder_out"], ["sum"]),
                helper.make_node("Tanh", ["sum"], ["tanh"]),
                helper.make_node("Gemm", ["tanh", "w", "b"], ["logit"])],
         [floats("encoder_out", "N", width), floats("decoder_out", "N", width)],
         [floats("logit", "N", TOKENS)],
         {"w": draw.normal(0, 0.11, (width, TOKENS)).astype(np.float32), "b": bias}, joiner_dim=width)


def lstm(path: Path, draw: np.random.Generator) -> None:
    """y [N, 1], h and c [1, N, 640] -> decoder_out [N, 640] and the next states."""
    save(path,
         [helper.make_node("Gather", ["table", "y"], ["embedded"]),
          helper.make_node("Transpose", ["embedded"], ["x"], perm=[1, 0, 2]),
          helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["all", "h_next", "c_next"],
                           hidden_size=LSTM),
          helper.make_node("Squeeze", ["h_next", "zero"], ["decoder_out"])],
         [integers("y", "N", 1), floats("h", 1, "N", LSTM), floats("c", 1, "N", LSTM)],
         [floats("decoder_out", "N", LSTM), floats("h_next", 1, "N", LSTM),
          floats("c_next", 1, "N", LSTM)],
         {"zero": np.array([0], np.int64),
          "table": draw.normal(0, 1, (TOKENS, LSTM)).astype(np.float32),
          "w": draw.normal(0, 0.06, (1, 4 * LSTM, LSTM)).astype(np.float32),
          "r": draw.normal(0, 0.06, (1, 4 * LSTM, LSTM)).astype(np.float32),
          "b": np.zeros((1, 8 * LSTM), np.float32)})


def waves(draw: np.random.Generator) -> list[np.ndarray]:
    """Noise whose loudness and colour change, so that frames differ."""
    found = []
    for _ in range(SOURCES):
        noise = draw.normal(0, 0.1, SECONDS * RATE)
        steps = np.repeat(draw.uniform(0.05, 1, SECONDS * 10), RATE // 10)
        tones = np.sin(np.cumsum(np.repeat(draw.uniform(0.05, 1.5, SECONDS * 10), RATE // 10)))
        found.append((steps * (noise + 0.3 * tones)).astype(np.float32))
    return found


def features(wave: np.ndarray) -> np.ndarray:
    """As sherpa-onnx makes them."""
    import kaldi_native_fbank  # which the streams' environment has not

    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = 80
    options.mel_opts.high_freq = -400
    bank = kaldi_native_fbank.OnlineFbank(options)
    bank.accept_waveform(RATE, wave.tolist())
    bank.input_finished()
    return np.stack([bank.get_frame(i) for i in range(bank.num_frames_ready)]).astype(np.float32)


def transducers(out: Path) -> None:
    draw = np.random.default_rng(1)
    folder = out / "transducer"
    folder.mkdir(parents=True, exist_ok=True)
    encoder(folder / "encoder.onnx", draw)
    stateless(folder / "decoder.onnx", draw)
    joiner(folder / "joiner.onnx", JOINED, draw)
    lstm(folder / "lstm.onnx", draw)
    joiner(folder / "lstm-joiner.onnx", LSTM, draw)
    tokens = ["<blk>", *(f"▁w{i}" for i in range(1, TOKENS))]
    (folder / "tokens.txt").write_text("".join(f"{t} {i}\n" for i, t in enumerate(tokens)))
    sounds = waves(draw)
    np.savez(folder / "waves.npz", **{f"{i:03}": wave for i, wave in enumerate(sounds[:STREAMS])})
    session = onnxruntime.InferenceSession(str(folder / "encoder.onnx"))
    frames = {}
    for i, wave in enumerate(sounds):
        x = features(wave)
        frames[f"{i:03}"] = session.run(["encoder_out"], {
            "x": x[None], "x_lens": np.array([len(x)], np.int64)})[0][0]
    np.savez(folder / "frames.npz", **frames)
    np.savez(folder / "lstm-frames.npz", **{
        name: draw.normal(0, 0.7, (200, LSTM)).astype(np.float32) for name in sorted(frames)[:STREAMS]})
    hotwords = "".join(
        f"hotwords {{ ids {{ ids: [{', '.join(map(str, draw.integers(1, TOKENS, 3)))}] }} bonus: 2 }}\n"
        for _ in range(1000))
    (folder / "hotwords.textproto").write_text(hotwords)
    (folder / "beam.textproto").write_text("max_symbols_per_frame: 1\n")


def arpa(path: Path, draw: np.random.Generator) -> None:
    """A 4-gram model of the tokens' texts. </s> has probability 1: it changes no score."""
    words = [f"w{i}" for i in range(1, TOKENS)]
    grams: dict[int, dict[tuple[str, ...], float]] = {
        1: {(word,): draw.uniform(-4, -1) for word in words}}
    for order in (2, 3, 4):
        grams[order] = {}
        contexts = list(grams[order - 1])
        for _ in range(30000):
            context = contexts[draw.integers(len(contexts))]
            grams[order][(*context, words[draw.integers(len(words))])] = draw.uniform(-2, -0.2)
    for order in (3, 2):  # a suffix that is not listed can't be a context to fall back on
        for gram in list(grams[order + 1]):
            grams[order].setdefault(gram[1:], draw.uniform(-2, -0.2))
            grams[order].setdefault(gram[:-1], draw.uniform(-2, -0.2))
    lines = ["\\data\\"]
    lines += [f"ngram {order}={len(found) + (3 if order == 1 else 0)}" for order, found in grams.items()]
    for order, found in grams.items():
        lines += ["", f"\\{order}-grams:"]
        if order == 1:
            lines += ["-99\t<s>\t0", "0\t</s>", "-5\t<unk>\t0"]
        lines += [f"{value:.4f}\t{' '.join(gram)}" + (f"\t{draw.uniform(-0.5, 0):.4f}" if order < 4 else "")
                  for gram, value in found.items()]
    path.write_text("\n".join([*lines, "", "\\end\\", ""]))


def ctc(out: Path) -> None:
    draw = np.random.default_rng(2)
    folder = out / "ctc"
    folder.mkdir(parents=True, exist_ok=True)
    frames = {}
    for i in range(STREAMS):
        logits = draw.normal(0, 1.5, (400, TOKENS))
        spoken = draw.random(400) < 0.3
        best = np.where(spoken, draw.integers(1, TOKENS, 400), 0)
        logits[np.arange(400), best] += 7
        rows = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        frames[f"{i:03}"] = rows.astype(np.float32)
    np.savez(folder / "frames.npz", **frames)
    arpa(folder / "lm.arpa", draw)
    words = [f"w{i}" for i in range(1, TOKENS)]
    (folder / "words.arpa").write_text((folder / "lm.arpa").read_text())
    bundle = folder / "bundle"
    bundle.mkdir(exist_ok=True)
    (bundle / "target.vocab").write_text("".join(f"{t}\n" for t in ["<blk>", *words]))
    (bundle / "lm.arpa").write_text((folder / "lm.arpa").read_text())
    (bundle / "model.textproto").write_text("""format_version: 1
name: "ctc"
ctc { blank: 0 kind: LOGITS_KIND_LOG_PROBS }
target { form: TEXT_FORM_WHITESPACE vocabulary: "target.vocab" }
scorers { name: "lm" ngram { file: "lm.arpa" } }
""")
    (folder / "fusion.textproto").write_text('fusion { name: "lm" weight: 0.5 }\nexpansion: 20\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    transducers(args.out)
    ctc(args.out)


if __name__ == "__main__":
    main()
