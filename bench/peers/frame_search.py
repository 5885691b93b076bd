"""Searches by frames of other programs, for the benchmark's section 'frames' and for the parity check.

    frame_search.py sherpa|loop|pyctcdecode|flashlight FOLDER [--beam N] [--streams N] [--answers]

Prints JSON: CPU seconds of a frame of one stream, and with --answers what was found. Runs in the
environment of bench/frames_requirements.txt, with one thread.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

ROUNDS = 3


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def cpu_of(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The least of some rounds, after one that is not counted."""
    run()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def sherpa(folder: Path, args: argparse.Namespace) -> dict[str, object]:
    """Modified beam search over all streams in one batch; what the encoder takes is taken off."""
    import sherpa_onnx

    waves = [wave for _, wave in sorted(np.load(folder / "waves.npz").items())][:args.streams]
    recognizer = sherpa_onnx.OfflineRecognizer.from_transducer(
        encoder=str(folder / "encoder.onnx"), decoder=str(folder / "decoder.onnx"),
        joiner=str(folder / "joiner.onnx"), tokens=str(folder / "tokens.txt"), num_threads=1,
        decoding_method="modified_beam_search", max_active_paths=args.beam)
    answers: list[list[int]] = []

    def prepared() -> list[object]:
        streams = []
        for wave in waves:
            streams.append(recognizer.create_stream())
            streams[-1].accept_waveform(16000, wave)
        return streams

    used = []
    for _ in range(ROUNDS + 1):
        streams = prepared()
        start = time.process_time()
        recognizer.decode_streams(streams)
        used.append(time.process_time() - start)
        answers = [list(stream.result.tokens) for stream in streams]
    frames = [x for _, x in sorted(np.load(folder / "frames.npz").items())][:args.streams]
    encoder = session(folder / "encoder.onnx")
    x = np.zeros((len(frames), len(frames[0]), 80), np.float32)
    feed = {"x": x, "x_lens": np.full(len(frames), x.shape[1], np.int64)}
    encoding = cpu_of(lambda: encoder.run(None, feed))
    total = sum(len(frame) for frame in frames)
    return {"seconds": (min(used[1:]) - encoding) / total, "encoder_seconds": encoding / total,
            "answers": answers}


def loop(folder: Path, args: argparse.Namespace) -> dict[str, object]:
    """Modified beam search that runs predictor and joiner of one hypothesis at a time."""
    predictor, joiner = session(folder / "lstm.onnx"), session(folder / "lstm-joiner.onnx")
    frames = [x for _, x in sorted(np.load(folder / "lstm-frames.npz").items())][:args.streams]

    def predict(token: int, h: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
        return predictor.run(None, {"y": np.array([[token]], np.int64), "h": h, "c": c})

    def search(stream: np.ndarray) -> tuple[int, ...]:
        zeros = np.zeros((1, 1, 640), np.float32)
        beam = {(): (0.0, predict(0, zeros, zeros))}
        for t in range(len(stream)):
            candidates = []
            for labels, (total, said) in beam.items():
                logits = joiner.run(None, {"encoder_out": stream[t:t + 1], "decoder_out": said[0]})[0][0]
                top = logits.max()
                log_probs = logits - top - np.log(np.exp(logits - top).sum())
                best = np.argpartition(-log_probs, args.beam)[:args.beam]
                candidates += [(total + log_probs[i], labels, int(i), said) for i in {0, *best.tolist()}]
            candidates.sort(key=lambda one: -one[0])
            merged: dict[tuple[int, ...], tuple[float, object]] = {}
            for total, labels, token, said in candidates[:args.beam]:
                longer = labels if token == 0 else (*labels, token)
                before = merged.get(longer)
                if before is not None:
                    merged[longer] = (float(np.logaddexp(before[0], total)), before[1])
                else:
                    merged[longer] = (total, said if token == 0 else predict(token, said[1], said[2]))
            beam = merged
        return max(beam, key=lambda labels: beam[labels][0])

    answers = [list(search(stream)) for stream in frames]
    used = cpu_of(lambda: [search(stream) for stream in frames], 1)
    return {"seconds": used / sum(len(x) for x in frames), "answers": answers}


def words(folder: Path) -> list[str]:
    return (folder / "bundle/target.vocab").read_text().splitlines()


def ctc_frames(folder: Path, args: argparse.Namespace) -> list[np.ndarray]:
    return [x for _, x in sorted(np.load(folder / "frames.npz").items())][:args.streams]


def pyctcdecode(folder: Path, args: argparse.Namespace) -> dict[str, object]:
    """Each token is a word; the language model's weight is on its natural logarithms."""
    import logging

    from pyctcdecode import build_ctcdecoder

    logging.disable(logging.WARNING)
    labels = ["", *(f"▁{word}" for word in words(folder)[1:])]
    decoder = build_ctcdecoder(labels, str(folder / "lm.arpa"), alpha=args.weight, beta=0.0,
                               unk_score_offset=0.0, lm_score_boundary=True)
    frames = ctc_frames(folder, args)

    def run() -> list[list[object]]:
        return [decoder.decode_beams(x, beam_width=args.beam, beam_prune_logp=-1e9,
                                     token_min_logp=args.least, prune_history=False) for x in frames]

    answers = [[[int(word[1:]) for word in one[0].split()], float(one[-1])]
               for one in (beams[0] for beams in run())]
    return {"seconds": cpu_of(run, 1) / sum(len(x) for x in frames), "answers": answers}


def flashlight(folder: Path, args: argparse.Namespace) -> dict[str, object]:
    """Lexicon-free search with KenLM on tokens, log-sums (`log_add`)."""
    from flashlight.lib.text.decoder import (CriterionType, KenLM, LexiconFreeDecoder,
                                             LexiconFreeDecoderOptions, ZeroLM)
    from flashlight.lib.text.dictionary import Dictionary

    tokens = words(folder)
    lm = KenLM(str(folder / "lm.arpa"), Dictionary(tokens)) if args.weight else ZeroLM()
    options = LexiconFreeDecoderOptions(
        beam_size=args.beam, beam_size_token=args.expansion, beam_threshold=1e9,
        lm_weight=args.weight * float(np.log(10)), sil_score=0.0, log_add=True,
        criterion_type=CriterionType.CTC)
    decoder = LexiconFreeDecoder(options, lm, -1, 0, [])
    frames = [np.ascontiguousarray(x) for x in ctc_frames(folder, args)]

    def run() -> list[object]:
        return [decoder.decode(x.ctypes.data, x.shape[0], x.shape[1])[0] for x in frames]

    def labels(result: object) -> list[int]:
        path = [token for token in result.tokens[1:-1] if token >= 0]  # both ends are padding
        return [token for i, token in enumerate(path) if token != 0 and (i == 0 or token != path[i - 1])]

    answers = [[labels(one), float(one.score)] for one in run()]
    return {"seconds": cpu_of(run) / sum(len(x) for x in frames), "answers": answers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=("sherpa", "loop", "pyctcdecode", "flashlight"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--weight", type=float, default=0.5, help="of the language model")
    parser.add_argument("--expansion", type=int, default=20, help="tokens tried of a frame")
    parser.add_argument("--least", type=float, default=-5.0, help="log-probability of tokens tried")
    parser.add_argument("--answers", action="store_true")
    args = parser.parse_args()
    found = globals()[args.program](args.folder, args)
    if not args.answers:
        del found["answers"]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
