"""Streams against sherpa-onnx: part of `./dev frames-parity`.

A random LSTM transducer in icefall's format, whose encoder reads chunk by chunk (export.py), hears
tones in noise; features are brought to the size that its weights are made for, without which it would
say one token all the time. sherpa-onnx's online recogniser decodes what its feature extractor makes of them, and
reads as many chunks as are wholly there; ours is given the features that these chunks advance over,
sent in pieces. Both search greedily, and an utterance counts where no frame's two best tokens are
closer than MARGIN and none is the unknown token.
"""

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
from served_tones import unpacked
from tones import RATE, features
from tones import utterances as made

LSTM = unpacked("frames/exports/icefall_lstm")
CHUNK, SHIFT = 9, 4
TAIL = np.zeros(RATE // 2, np.float32)  # quiet, so that what lies behind the last chunk is silence
MARGIN = 1e-3
UNKNOWN = 2


def chunks_of(frames: int) -> int:
    """That sherpa-onnx reads: as long as more than a chunk is there."""
    return max(0, -((CHUNK - frames) // SHIFT))


def scaled_encoder(path: Path) -> None:
    """The encoder, of (x + 6) / 0.3."""
    model = onnx.load(str(LSTM / "encoder-chunk.onnx"))
    for node in model.graph.node:
        node.input[:] = ["scaled" if name == "x" else name for name in node.input]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.array(value, np.float32), name)
                                   for name, value in (("middle", 6), ("size", 0.3)))
    model.graph.node.insert(0, onnx.helper.make_node("Add", ["x", "middle"], ["centred"]))
    model.graph.node.insert(1, onnx.helper.make_node("Div", ["centred", "size"], ["scaled"]))
    onnx.save(model, str(path))


def sherpa_tokens(encoder: Path, sounds: list[np.ndarray]) -> list[list[str]]:
    import sherpa_onnx

    recognizer = sherpa_onnx.OnlineRecognizer.from_transducer(
        encoder=str(encoder), decoder=str(LSTM / "decoder.onnx"),
        joiner=str(LSTM / "joiner.onnx"), tokens=str(LSTM / "tokens.txt"), num_threads=1,
        decoding_method="greedy_search")
    streams = []
    for sound in sounds:
        stream = recognizer.create_stream()
        stream.accept_waveform(RATE, sound)
        stream.input_finished()
        streams.append(stream)
    while ready := [stream for stream in streams if recognizer.is_ready(stream)]:
        recognizer.decode_streams(ready)  # their batches are of equal chunks
    return [recognizer.tokens(stream) for stream in streams]


def margins(path: Path, sources: list[np.ndarray]) -> list[float]:
    """The least difference of the two best scores on a greedy search's way."""
    from answers import in_chunks, session

    encoder, decoder, joiner = map(session, (path, LSTM / "decoder.onnx", LSTM / "joiner.onnx"))
    least = []
    for source in sources:
        context, apart = [-1, 0], np.inf
        for frame in in_chunks(encoder, source, CHUNK, SHIFT, tail=0):
            said = decoder.run(None, {"y": np.array([context], np.int64)})[0]
            scores = joiner.run(None, {"encoder_out": frame[None], "decoder_out": said})[0][0]
            second, first = np.sort(scores)[-2:]
            apart = min(apart, first - second)
            if (token := int(scores.argmax())) == UNKNOWN:
                apart = 0.0  # which sherpa-onnx passes over as if it were blank
            if token:
                context = [context[1], token]
        least.append(float(apart))
    return least


def recognized(binary: Path, port: str, source: Path) -> str:
    done = subprocess.run(
        [binary, "recognize", "--server", f"127.0.0.1:{port}", "--features", source, "--beam-size", "1"],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"recognize: {done.stderr}")
    return done.stdout


def parity(server_of: type, init: object, binary: Path, utterances: int, work: Path) -> bool:
    sounds = [np.concatenate([sound, TAIL]) for _, sound, _ in made(utterances, 26)]
    encoder = work / "scaled.onnx"
    scaled_encoder(encoder)
    theirs = sherpa_tokens(encoder, sounds)
    sources = [source[:SHIFT * chunks_of(len(source))] for source in map(features, sounds)]
    bundle = init(work / "lstm", encoder, LSTM / "decoder.onnx", LSTM / "joiner.onnx",
                  "--tokens", LSTM / "tokens.txt")
    text = (bundle / "model.textproto").read_text()
    text, tails = re.subn(r"tail: \d+\n", "tail: 0\n", text)
    assert tails == 1
    (bundle / "model.textproto").write_text(text)
    np.savez(work / "lstm.npz", **{f"{i:05}": source for i, source in enumerate(sources)})
    streamed = 0
    with server_of(bundle) as server:
        answers = server.decode(work / "lstm.npz", "--beam-size", 1)
        for i, source in enumerate(sources[:10]):
            np.save(work / "one.npy", source)
            heard = recognized(binary, server.port, work / "one.npy")
            streamed += heard.strip().endswith(answers[i]["hypotheses"][0].get("text", ""))
    names = [line.split()[0] for line in (LSTM / "tokens.txt").read_text().splitlines()]
    counted = same = same_all = 0
    for answer, tokens, apart in zip(answers, theirs, margins(encoder, sources)):
        ours = [names[token] for token in answer["hypotheses"][0].get("tokens", [])]
        equal = ours == [token.replace(" ", "▁") for token in tokens]
        same_all += equal
        if apart > MARGIN:
            counted += 1
            same += equal
    said = sum(len(tokens) for tokens in theirs)
    kinds = len({token for tokens in theirs for token in tokens})
    print(f"streams: {utterances} utterances, {said} tokens of {kinds} kinds in sherpa-onnx; the same tokens in {same_all} "
          f"of all, in {same} of {counted} whose margin exceeds {MARGIN:g} (all of them); sent in pieces, "
          f"{streamed} of {min(10, utterances)} have the text of decode")
    return kinds > 5 and counted > utterances // 2 and same == counted and streamed == min(10, utterances)
