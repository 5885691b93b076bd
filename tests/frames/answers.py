"""Writes answers.jsonl into the archive of each exported model: requests, and what they must be answered with.

    answers.py EXPORTS [--only NAME ...]

The files run in ONNX Runtime, one source and one hypothesis at a time; the searches and sums here are
as slow and plain as their definitions in docs/decoding.md, 'Frames', and share nothing with the
library. A line holds a source, options, the best hypothesis with the sum over all its alignments, and
targets with that sum for each. Sources whose two best hypotheses are closer than
MARGIN are passed over.
"""

import argparse
import base64
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from archives import pack, unpack  # noqa: E402

Labels = tuple[int, ...]
Sums = dict[Labels, float]

BEAM = 24
EXPANSION = 8
MARGIN = 0.05
NOTHING = -math.inf
# Of encoders that are read chunk by chunk.
TAIL = 3
SILENCE = -15.942385
POSITIONS = 256  # of WeNet's table


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def log_softmax(row: np.ndarray) -> np.ndarray:
    row = row.astype(np.float64)
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


def add(sums: dict, key: object, value: float) -> None:
    """Adds a probability, in logarithms."""
    sums[key] = np.logaddexp(sums.get(key, NOTHING), value)


def best(sums: Sums, count: int) -> Sums:
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:count])


@dataclass
class Row:
    """Log-probabilities of a frame after labels."""

    tokens: np.ndarray
    durations: np.ndarray | None = None


class Ctc:
    def __init__(self, frames: np.ndarray, blank: int) -> None:
        self.frames, self.blank = frames, blank

    def decode(self) -> Sums:
        ends: dict[Labels, tuple[float, float]] = {(): (0.0, NOTHING)}  # in blank, in the last label
        for row in self.frames:
            blanks: Sums = {}
            spoken: Sums = {}
            for labels, (blank, label) in ends.items():
                add(blanks, labels, np.logaddexp(blank, label) + row[self.blank])
                for token in range(len(row)):
                    if token == self.blank:
                        continue
                    if labels and token == labels[-1]:
                        add(spoken, labels, label + row[token])
                        add(spoken, (*labels, token), blank + row[token])
                    else:
                        add(spoken, (*labels, token), np.logaddexp(blank, label) + row[token])
            totals: Sums = {}
            for part in (blanks, spoken):
                for labels, value in part.items():
                    add(totals, labels, value)
            ends = {labels: (blanks.get(labels, NOTHING), spoken.get(labels, NOTHING))
                    for labels in best(totals, 10 * BEAM)}
        return {labels: float(np.logaddexp(*parts)) for labels, parts in ends.items()}

    def score(self, labels: Labels) -> float:
        spelled = [self.blank]
        for label in labels:
            spelled += [label, self.blank]
        alpha = np.full(len(spelled), NOTHING)
        for t, row in enumerate(self.frames):
            old, alpha = alpha, np.full(len(spelled), NOTHING)
            for s, token in enumerate(spelled):
                ways = [old[s], old[s - 1] if s > 0 else NOTHING]
                if s > 1 and token != self.blank and token != spelled[s - 2]:
                    ways.append(old[s - 2])
                reached = np.logaddexp.reduce(ways) if t else (0.0 if s < 2 else NOTHING)
                alpha[s] = reached + row[token]
        return float(np.logaddexp.reduce(alpha[-2:]))


@dataclass
class Transducer:
    frames: int
    row: Callable[[int, Labels], Row]
    blank: int
    durations: list[int] = field(default_factory=list)
    most: int = 1  # labels a frame

    def moves(self, row: Row, token: int, said: int) -> Iterator[tuple[int, float]]:
        """Frames to move on by, and the log-probability of the token and them. said: labels of this frame
        before it."""
        ends = token == self.blank or said + 1 == self.most
        if not self.durations:
            yield (1 if ends else 0), row.tokens[token]
            return
        for duration, value in zip(self.durations, row.durations):
            yield max(duration, 1 if ends else 0), row.tokens[token] + value

    def decode(self) -> Sums:
        arrived: list[Sums] = [{} for _ in range(self.frames + 1)]
        arrived[0][()] = 0.0
        for t in range(self.frames):
            current = best(arrived[t], BEAM)
            for said in range(self.most):
                following: Sums = {}
                for labels, value in current.items():
                    row = self.row(t, labels)
                    order = [int(token) for token in np.argsort(-row.tokens, kind="stable")]
                    labelled = [token for token in order if token != self.blank][:EXPANSION]
                    for token in [self.blank, *labelled]:
                        longer = labels if token == self.blank else (*labels, token)
                        for move, more in self.moves(row, token, said):
                            where = following if move == 0 else arrived[min(t + move, self.frames)]
                            add(where, longer, value + more)
                current = best(following, BEAM)
        return arrived[self.frames]

    def score(self, labels: Labels) -> float:
        sums: dict[tuple[int, int, int], float] = {(0, 0, 0): 0.0}  # frame, labels, of this frame
        for t in range(self.frames):
            for u in range(len(labels) + 1):
                for said in range(self.most):
                    value = sums.get((t, u, said))
                    if value is None:
                        continue
                    row = self.row(t, labels[:u])
                    tokens = [self.blank] + ([labels[u]] if u < len(labels) else [])
                    for token in tokens:
                        for move, more in self.moves(row, token, said):
                            key = (min(t + move, self.frames), u + (token != self.blank),
                                   0 if move else said + 1)
                            add(sums, key, value + more)
        return float(sums.get((self.frames, len(labels), 0), NOTHING))


def in_chunks(encoder: onnxruntime.InferenceSession, features: np.ndarray, chunk: int,
              shift: int, tail: int = TAIL) -> np.ndarray:
    """Frames [frames, width] of features [frames, 80], read chunk by chunk with `tail` frames of
    silence behind them."""
    dtypes = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
    source, *states = encoder.get_inputs()
    feed = {port.name: np.zeros([size if isinstance(size, int) else 1 for size in port.shape],
                                dtypes[port.type]) for port in states}
    names = [port.name for port in encoder.get_outputs()]
    runs = math.ceil((len(features) + tail) / shift)
    padded = np.full(((runs - 1) * shift + chunk, 80), SILENCE, np.float32)
    padded[:len(features)] = features[:len(padded)]
    outputs = []
    for run in range(runs):
        feed[source.name] = padded[None, run * shift:run * shift + chunk]
        results = dict(zip(names, encoder.run(None, feed)))
        outputs.append(results["encoder_out"][0])
        feed = {port.name: results[f"new_{port.name}"] for port in states}
    return np.concatenate(outputs)


def icefall(folder: Path, features: np.ndarray, suffix: str = "") -> Transducer:
    encoder = session(folder / f"encoder{suffix}.onnx")
    feed = {"x": features[None]}
    if "x_lens" in [port.name for port in encoder.get_inputs()]:
        feed["x_lens"] = np.array([len(features)], np.int64)
    else:
        feed |= {name: np.zeros((2, 1, 32), np.float32) for name in ("state0", "state1")}
    return icefall_search(folder, encoder.run(["encoder_out"], feed)[0][0], suffix)


def icefall_chunks(folder: Path, features: np.ndarray) -> Transducer:
    frames = in_chunks(session(folder / "encoder-chunk.onnx"), features, 9, 4)
    return icefall_search(folder, frames)


def zipformer2_chunks(folder: Path, features: np.ndarray) -> Transducer:
    frames = in_chunks(session(folder / "encoder.onnx"), features, 45, 32)
    return icefall_search(folder.parent / "icefall_lstm", frames)


def icefall_search(folder: Path, frames: np.ndarray, suffix: str = "") -> Transducer:
    decoder, joiner = (session(folder / f"{name}{suffix}.onnx") for name in ("decoder", "joiner"))

    @cache
    def predicted(context: Labels) -> np.ndarray:
        return decoder.run(None, {"y": np.array([context], np.int64)})[0]

    @cache
    def row(t: int, context: Labels) -> Row:
        return Row(log_softmax(joiner.run(None, {"encoder_out": frames[t:t + 1],
                                                 "decoder_out": predicted(context)})[0][0]))

    return Transducer(len(frames), lambda t, labels: row(t, (-1, 0, *labels)[-2:]), 0)


def icefall_int8(folder: Path, features: np.ndarray) -> Transducer:
    return icefall(folder, features, ".int8")


def nemo_frames(path: Path, features: np.ndarray) -> np.ndarray:
    """features [bins, T] -> [1, width, T']."""
    return session(path).run(["outputs"], {"audio_signal": features[None],
                                           "length": np.array([features.shape[1]], np.int64)})[0]


def nemo(folder: Path, features: np.ndarray) -> Transducer:
    frames = nemo_frames(folder / "encoder-model.onnx", features)
    both = session(folder / "decoder_joint-model.onnx")
    blank = both.get_outputs()[0].shape[3] - 1

    def run(t: int, token: int, states: list[np.ndarray]) -> list[np.ndarray]:
        return both.run(["outputs", "output_states_1", "output_states_2"],
                        {"encoder_outputs": frames[:, :, t:t + 1],
                         "targets": np.array([[token]], np.int32),
                         "target_length": np.array([1], np.int32),
                         "input_states_1": states[0], "input_states_2": states[1]})

    @cache
    def states(labels: Labels) -> list[np.ndarray]:
        """Before the last label is read."""
        if not labels:
            return [np.zeros((2, 1, 32), np.float32)] * 2
        return run(0, ((blank, *labels)[-2]), states(labels[:-1]))[1:]

    @cache
    def row(t: int, labels: Labels) -> Row:
        return Row(log_softmax(run(t, (blank, *labels)[-1], states(labels))[0][0, 0, 0]))

    return Transducer(frames.shape[2], row, blank, most=10)


def nemo_tdt(folder: Path, features: np.ndarray) -> Transducer:
    frames = nemo_frames(folder / "encoder.onnx", features)
    decoder, joiner = session(folder / "decoder.onnx"), session(folder / "joiner.onnx")
    durations = [0, 1, 2, 3, 4]
    blank = joiner.get_outputs()[0].shape[3] - len(durations) - 1
    names = [port.name for port in decoder.get_inputs()]

    @cache
    def predicted(labels: Labels) -> list[np.ndarray]:
        states = [np.zeros((2, 1, 32), np.float32)] * 2 if not labels else predicted(labels[:-1])[2:]
        token = np.array([[(blank, *labels)[-1]]], np.int32)
        return decoder.run(None, dict(zip(names, [token, np.array([1], np.int32), *states])))

    @cache
    def row(t: int, labels: Labels) -> Row:
        scores = joiner.run(None, {"encoder_outputs": frames[:, :, t:t + 1],
                                   "decoder_outputs": predicted(labels)[0]})[0][0, 0, 0]
        return Row(log_softmax(scores[:blank + 1]), log_softmax(scores[blank + 1:]))

    return Transducer(frames.shape[2], row, blank, durations, most=10)


def ctc(output: str, blank: int, path: str = "model.onnx") -> Callable[[Path, np.ndarray], Ctc]:
    def build(folder: Path, features: np.ndarray) -> Ctc:
        runner = session(folder / path)
        feed = {}
        for port in runner.get_inputs():
            if "len" in port.name:
                feed[port.name] = np.array([max(features.shape) if features.shape[0] == 80
                                            else len(features)], np.int64)
            else:
                feed[port.name] = features[None]
        scores = runner.run([output], feed)[0]
        scores = scores[:, 0] if scores.shape[1] == 1 and scores.shape[0] > 1 else scores[0]
        if (scores >= 0).all():
            scores = np.log(scores)
        rows = np.stack([log_softmax(row) for row in scores])
        return Ctc(rows, blank % rows.shape[1])

    return build


def wenet(folder: Path, features: np.ndarray) -> Ctc:
    """encoder.onnx and ctc.onnx of WeNet's exporter, chunk by chunk, as its own check of the export calls them."""
    encoder = session(folder / "encoder.onnx")
    chunk, cached, shift, window = 16, 64, 64, 67
    feed = {"att_cache": np.zeros((2, 2, cached, 16), np.float32),
            "cnn_cache": np.zeros((2, 1, 16, 7), np.float32),
            "required_cache_size": np.array(cached, np.int64)}
    runs = math.ceil(len(features) / shift)
    padded = np.full(((runs - 1) * shift + window, 80), SILENCE, np.float32)
    padded[:len(features)] = features
    heard = np.zeros((1, 1, cached + chunk), bool)
    frames = []
    for run in range(runs):
        heard[:, :, -chunk * (run + 1):] = True
        # The place of a chunk stays where the table of positions ends.
        offset = np.array(min(cached + run * chunk, POSITIONS - chunk), np.int64)
        out, feed["att_cache"], feed["cnn_cache"] = encoder.run(
            ["output", "r_att_cache", "r_cnn_cache"],
            feed | {"offset": offset, "att_mask": heard,
                    "chunk": padded[None, run * shift:run * shift + window]})
        frames.append(out[0])
    return ctc_of_wenet(folder, np.concatenate(frames))


def ctc_of_wenet(folder: Path, frames: np.ndarray) -> Ctc:
    probs = session(folder / "ctc.onnx").run(None, {"hidden": frames[None]})[0][0]
    return Ctc(probs.astype(np.float64), 0)


def wenet_whole(folder: Path, features: np.ndarray) -> Ctc:
    encoder = session(folder / "encoder.onnx")
    feed = {"chunk": features[None]}
    for port in encoder.get_inputs()[1:]:
        shape = [size if isinstance(size, int) else 0 for size in port.shape]
        feed[port.name] = np.zeros(shape, np.int64 if "int64" in port.type else np.float32)
    return ctc_of_wenet(folder, encoder.run(["output"], feed)[0][0])


@dataclass
class Case:
    """A model of the folder `name`, and the shape of its sources for a length."""

    name: str
    build: Callable[[Path, np.ndarray], Ctc | Transducer]
    shape: Callable[[int], tuple[int, ...]]
    answers: str = "answers.jsonl"
    lengths: tuple[int, ...] = (9, 14, 21)


def rows_first(length: int) -> tuple[int, ...]:
    return length, 80


def bins_first(length: int) -> tuple[int, ...]:
    return 80, length


CASES = [
    Case("icefall_offline", icefall, rows_first),
    Case("icefall_offline", icefall_int8, rows_first, "answers.int8.jsonl"),
    Case("icefall_lstm", icefall, rows_first),
    Case("icefall_lstm", icefall_chunks, rows_first, "answers.chunks.jsonl", (1, 6, 9, 14)),
    Case("icefall_zipformer2", zipformer2_chunks, rows_first, lengths=(9, 45, 80)),
    Case("nemo", nemo, bins_first),
    Case("nemo_tdt", nemo_tdt, bins_first),
    Case("ctc_icefall", ctc("log_probs", 0), rows_first),
    Case("ctc_icefall", ctc("log_probs", 0, "model.int8.onnx"), rows_first, "answers.int8.jsonl"),
    Case("ctc_nemo", ctc("logprobs", -1), bins_first),
    Case("ctc_wav2vec", ctc("logits", 0), lambda length: (20 * length,)),
    Case("wenet", wenet, rows_first, lengths=(30, 67, 150, 330)),
    Case("wenet_whole", wenet_whole, rows_first, lengths=(9, 40, 110)),
    Case("wenet_sherpa", ctc("log_probs", 0), rows_first, lengths=(9, 40, 110)),
    Case("ocr_crnn", ctc("output", 0), lambda length: (1, 32, 4 * length)),
    Case("ocr_paddle", ctc("softmax_0.tmp_0", 0), lambda length: (3, 48, 2 * length)),
]


def source_of(features: np.ndarray) -> dict[str, object]:
    return {"features": {"dtype": "f32", "shape": list(features.shape),
                         "data": base64.b64encode(features.tobytes()).decode()}}


def lines_of(case: Case, folder: Path) -> Iterator[dict[str, object]]:
    draw = np.random.default_rng(len(case.name))
    for length in case.lengths:
        for _ in range(60):
            features = draw.normal(0, 1, case.shape(length)).astype(np.float32)
            model = case.build(folder, features)
            found = best(model.decode(), 12)
            full = sorted(((model.score(labels), labels) for labels in found), reverse=True)
            if full[0][0] - full[1][0] > MARGIN:
                break
        else:
            raise SystemExit(f"{case.name}: no source of length {length} has a clear answer")
        asked = [labels for _, labels in full[:3]] + [full[0][1][::-1]]
        yield {"source": source_of(features), "options": {"beam_size": BEAM, "n_best": 3},
               "tokens": list(full[0][1]), "full_log_prob": round(full[0][0], 6),
               "targets": [{"ids": {"ids": list(labels)}} for labels in asked if labels],
               "log_probs": [round(model.score(labels), 6) for labels in asked if labels]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exports", type=Path)
    parser.add_argument("--only", nargs="+", help="names of models")
    args = parser.parse_args()
    for case in CASES:
        if args.only and case.name not in args.only:
            continue
        folder = args.exports / case.name
        unpack(folder)
        lines = list(lines_of(case, folder))
        (folder / case.answers).write_text("".join(json.dumps(line) + "\n" for line in lines))
        pack(folder)
        print(case.name, case.answers, [(len(line["tokens"]), line["full_log_prob"])
                                        for line in lines], flush=True)


if __name__ == "__main__":
    main()
