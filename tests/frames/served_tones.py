"""The model of train_tones.py as a bundle, and recordings for it: for tests that have no NumPy."""

import math
import pathlib
import random
import struct
import sys
import wave

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from archives import pack, unpacked  # noqa: E402, F401

RATE = 16000
BUNDLE = """format_version: 1 name: "tones" frame_ms: 40
encoder { graph: "encoder.onnx" input: "x" length_kind: LENGTH_INPUT_LENGTHS length_input: "x_lens" }
target { form: TEXT_FORM_PIECES vocabulary: "target.vocab" }
transducer {
  predictor { graph: "decoder.onnx" token_input: "y" output: "decoder_out" context_start: -1 }
  joiner { graph: "joiner.onnx" encoder_input: "encoder_out" predictor_input: "decoder_out" logits_output: "logit" }
  context_size: 2
  encoder_output: "encoder_out"
}
sound {}
"""
# Of spot_tones.py.
CHUNKS_BUNDLE = """format_version: 1 name: "tones_chunks"
encoder {
  graph: "encoder.onnx" input: "x"
  streaming { chunk: 10 shift: 8 tail: 16 states { input: "cached_mean" output: "cached_mean_next" } }
}
target { form: TEXT_FORM_PIECES vocabulary: "target.vocab" }
ctc { encoder_output: "logits" kind: LOGITS_KIND_LOGITS }
sound {}
"""


def write_vocabulary(folder):
    (folder / "target.vocab").write_text("<blk>\n" + "".join(f"\u2581t{i}\n" for i in range(1, 21)))


def make_chunks_bundle(folder):
    """Writes the model that reads chunk by chunk into the folder, which is new."""
    folder.mkdir(parents=True)
    (folder / "model.textproto").write_text(CHUNKS_BUNDLE)
    write_vocabulary(folder)
    (folder / "encoder.onnx").write_bytes((unpacked("frames/exports/tones_chunks") / "encoder.onnx").read_bytes())


def make_bundle(folder):
    """Writes it into the folder, which is new."""
    folder.mkdir(parents=True)
    (folder / "model.textproto").write_text(BUNDLE)
    write_vocabulary(folder)
    for part in ("encoder", "decoder", "joiner"):
        (folder / f"{part}.onnx").write_bytes((unpacked("frames/exports/tones") / f"{part}.onnx").read_bytes())


def tones(labels):
    """16-bit samples that say the labels."""
    noise = random.Random(5)
    samples = [0.0] * (RATE // 10)
    for label in labels:
        pitch, count = 200 * 1.18**label, RATE * 15 // 100
        samples += [0.3 * math.sin(2 * math.pi * pitch * i / RATE)
                    * (0.5 - 0.5 * math.cos(2 * math.pi * i / (count - 1)))**0.3 for i in range(count)]
    samples += [0.0] * (RATE // 10)
    return [round(32767 * (sample + noise.uniform(-0.04, 0.04))) for sample in samples]


def write_wave(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
