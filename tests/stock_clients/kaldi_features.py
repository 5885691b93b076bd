#!/usr/bin/env python3
"""Features of sound against kaldi-native-fbank: the same to 1e-5, whatever the sound, at every rate; and the same bits when the
sound comes in pieces of 7 ms.

Usage: kaldi_features.py BIN. BIN/../tests/sound_features computes ours.
"""

import pathlib
import subprocess
import sys

import kaldi_native_fbank as knf
import numpy as np
from served import check

RATES = (8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000)
# A unit in the last place of a feature is 1e-6 at most: both take the logarithm of the same float.
BOUND = 1e-5


def sounds(rate):
    """Two seconds and some samples of each kind, at full scale 1."""
    random = np.random.default_rng(rate)
    count = 2 * rate + 37
    at = np.arange(count) / rate
    voiced = sum(np.sin(2 * np.pi * 120 * harmonic * (at + 0.002 * np.sin(2 * np.pi * 3 * at)))
                 / (1 + abs(120 * harmonic - 700) / 150 + abs(120 * harmonic - 2200) / 900) for harmonic in range(1, 30))
    speech = voiced * np.maximum(0, np.sin(2 * np.pi * 2.5 * at)) + 0.03 * random.normal(size=count) * (np.sin(2 * np.pi * 2.5 * at) < -0.4)
    return {
        "noise": 0.1 * random.normal(size=count),
        "faint noise": 1e-4 * random.normal(size=count),
        "a tone": 0.5 * np.sin(2 * np.pi * 440 * at),
        "two tones": 0.5 * np.sin(2 * np.pi * 440 * at) + 0.25 * np.sin(2 * np.pi * 3000 * at),
        "a tone that rises": 0.5 * np.sin(2 * np.pi * (100 + rate / 8 * at) * at),
        "speech": 0.4 * speech / np.abs(speech).max(),
        "speech of 16 bits": np.round(13000 * speech / np.abs(speech).max()) / 32768,
        "clipped": np.clip(3 * np.sin(2 * np.pi * 300 * at), -1, 1),
        "an offset": 0.4 + 0.001 * random.normal(size=count),
        "nothing but an offset": np.full(count, 0.7),
        "silence": np.zeros(count),
        "clicks": (np.arange(count) % 997 == 0) * 1.0,
    }


def ours(samples, rate, bins, high, scaled, snip_edges, piece=0):
    config = (f"sample_rate: {rate} num_bins: {bins} high_frequency: {high} integer_scale: {str(scaled).lower()} "
              f"snip_edges: {str(snip_edges).lower()}")
    done = subprocess.run([pathlib.Path(sys.argv[1]).parent / "tests" / "sound_features", config, str(piece)],
                          input=samples.tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32).reshape(-1, bins)


def theirs(samples, rate, bins, high, scaled, snip_edges):
    options = knf.FbankOptions()
    options.frame_opts.samp_freq = rate
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = snip_edges
    options.mel_opts.num_bins = bins
    options.mel_opts.high_freq = high
    fbank = knf.OnlineFbank(options)
    fbank.accept_waveform(rate, (samples * np.float32(32768 if scaled else 1)).tolist())
    fbank.input_finished()
    return np.stack([fbank.get_frame(frame) for frame in range(fbank.num_frames_ready)])


def main():
    compared = differ = 0
    largest = 0.0
    for rate in RATES:
        for name, sound in sounds(rate).items():
            samples = sound.astype(np.float32)
            for bins, high, scaled, snip_edges in ((80, -400, False, False), (80, -400, True, True), (40, 0, False, True)):
                found = ours(samples, rate, bins, high, scaled, snip_edges)
                expected = theirs(samples, rate, bins, high, scaled, snip_edges)
                what = f"{name} at {rate} Hz, {bins} bins{', 16-bit scale' * scaled}{', edges snipped' * snip_edges}"
                check(found.shape == expected.shape, f"{what}: {found.shape}, kaldi-native-fbank {expected.shape}")
                distance = np.abs(found - expected)
                check(distance.max() <= BOUND,
                      f"{what}: {distance.max()} away at {np.unravel_index(distance.argmax(), distance.shape)}")
                compared += found.size
                differ += int((found != expected).sum())
                largest = max(largest, float(distance.max()))
            pieces = ours(samples, rate, 80, -400, False, False, piece=7 * rate // 1000)
            check((pieces == ours(samples, rate, 80, -400, False, False)).all(), f"{name} at {rate} Hz in pieces of 7 ms")
    print(f"{compared} features, {differ} not the same bits, the largest difference {largest:.2g}")


if __name__ == "__main__":
    main()
