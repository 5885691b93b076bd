#!/usr/bin/env python3
"""Writes data/*.npy: what kaldi-native-fbank says of sounds that fbank_test.cc makes again.

    python3 -m venv V; V/bin/pip install numpy kaldi-native-fbank==1.23.0; V/bin/python make_references.py
"""

import pathlib

import kaldi_native_fbank as knf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent


def noise(count):
    """A linear congruential generator's upper half, at a quarter of full scale."""
    state, samples = 1, []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        samples.append(((state >> 16) - 32768) / 131072)
    return np.array(samples, np.float32)


def tones(count, rate):
    """A tone and one that rises: most bins have a millionth of their energy, and less."""
    at = np.arange(count) / rate
    return (0.5 * np.sin(2 * np.pi * 440 * at) + 0.25 * np.sin(2 * np.pi * (1000 + 3000 * at) * at)).astype(np.float32)


def features(samples, rate, snip_edges, scale):
    options = knf.FbankOptions()
    options.frame_opts.samp_freq = rate
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = snip_edges
    options.mel_opts.num_bins = 80
    options.mel_opts.high_freq = -400
    fbank = knf.OnlineFbank(options)
    fbank.accept_waveform(rate, (samples * scale).tolist())
    fbank.input_finished()
    return np.stack([fbank.get_frame(i) for i in range(fbank.num_frames_ready)])


for rate, snip_edges, scale in [(16000, False, 1), (16000, True, 32768), (8000, False, 1)]:
    count, edges = rate // 5 + 37, "snip" if snip_edges else "mirror"
    for name, samples in [("noise", noise(count)), ("tones", tones(count, rate))]:
        np.save(HERE / "data" / f"{name}_{rate}_{edges}.npy", features(samples, rate, snip_edges, scale).astype(np.float32))
