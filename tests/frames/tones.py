"""The sounds that the model of train_tones.py hears: each token is a tone of another pitch."""

from collections.abc import Iterator

import kaldi_native_fbank
import numpy as np

RATE = 16000
TONES = 20
TOKENS = ["<blk>", *(f"▁t{i}" for i in range(1, TONES + 1))]


def wave(labels: list[int], draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A little quiet, the tones, a little quiet, noise over all; and the label of each sample, 0 where it
    is quiet."""
    parts = [np.zeros(int(draw.uniform(0.05, 0.15) * RATE))]
    said = [0]
    for label in labels:
        pitch = 200 * 1.18 ** label * draw.uniform(0.98, 1.02)
        count = int(draw.uniform(0.08, 0.2) * RATE)
        parts.append(0.3 * np.sin(2 * np.pi * pitch * np.arange(count) / RATE)
                     * np.hanning(count) ** 0.3)
        said.append(label)
    parts.append(np.zeros(int(draw.uniform(0.05, 0.15) * RATE)))
    said.append(0)
    sound = np.concatenate(parts)
    heard = np.concatenate([np.full(len(part), label) for part, label in zip(parts, said)])
    return (sound + draw.normal(0, 0.05, len(sound))).astype(np.float32), heard


def features(sound: np.ndarray) -> np.ndarray:
    """As sherpa-onnx makes them."""
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = 80
    options.mel_opts.high_freq = -400
    bank = kaldi_native_fbank.OnlineFbank(options)
    bank.accept_waveform(RATE, sound.tolist())
    bank.input_finished()
    return np.stack([bank.get_frame(i) for i in range(bank.num_frames_ready)]).astype(np.float32)


def utterances(count: int, seed: int) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
    """Labels, and as of `wave`."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        labels = [int(label) for label in draw.integers(1, TONES + 1, draw.integers(3, 9))]
        yield labels, *wave(labels, draw)
