#!/usr/bin/env python3
"""Silero's graph over windows (silero_vad_16k_sequence.onnx of the package silero-vad, 6.2.3) in beamwright-graph and in ONNX
Runtime: the largest difference, and how many seconds of speech and of made-up noise and music are speech to it.

Usage: silero.py BEAMWRIGHT_GRAPH SILERO.onnx   (numpy, onnxruntime)
"""

import pathlib
import subprocess
import sys
import tempfile
import wave

import numpy as np
import onnxruntime

RATE, WINDOW, CONTEXT = 16000, 512, 64
SPOKEN = sorted((pathlib.Path(__file__).parents[3] / "models/digits-en").glob("spoken-*.wav"))
draw = np.random.default_rng(3)


def spoken(path):
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768


def noise(seconds, fall, level):
    """White (fall 0), pink (1) or brown (2)."""
    lines = np.fft.rfft(draw.normal(size=RATE * seconds))
    samples = np.fft.irfft(lines / np.maximum(np.arange(len(lines)), 1) ** (fall / 2))
    return level * samples / np.abs(samples).max()


def music(seconds):
    """Chords and drums."""
    samples = np.zeros(RATE * seconds)
    at = 0
    while at < len(samples):
        time = np.arange(min(int(RATE * draw.choice([0.25, 0.5, 1])), len(samples) - at)) / RATE
        root = 110 * 2 ** (draw.integers(0, 24) / 12)
        for pitch in (1, 1.26, 1.5, 2):
            for harmonic in (1, 2, 3, 4):
                samples[at:at + len(time)] += np.sin(2 * np.pi * root * pitch * harmonic * time) / harmonic**1.5 * np.exp(-2 * time)
        beat = min(2000, len(time)) if draw.random() < 0.5 else 0
        samples[at:at + beat] += 3 * draw.normal(size=beat) * np.exp(-np.arange(beat) / 300)
        at += len(time)
    return 0.5 * samples / np.abs(samples).max()


def main():
    program, graph = sys.argv[1:]
    session = onnxruntime.InferenceSession(graph)
    sounds = {path.name: spoken(path) for path in SPOKEN} | {
        "white noise, -30 dB": noise(100, 0, 0.03), "pink noise": noise(100, 1, 0.3), "brown noise": noise(100, 2, 0.5),
        "music": music(200), "music in noise": 0.5 * music(100) + noise(100, 1, 0.2)}
    for name, samples in sounds.items():
        count = len(samples) // WINDOW
        padded = np.concatenate([np.zeros(CONTEXT), samples]).astype(np.float32)
        inputs = {"input": np.stack([padded[i * WINDOW:][:CONTEXT + WINDOW] for i in range(count)]),
                  "h": np.zeros((1, 1, 128), np.float32), "c": np.zeros((1, 1, 128), np.float32)}
        with tempfile.TemporaryDirectory() as folder:
            np.savez(f"{folder}/in.npz", **inputs)
            subprocess.run([program, "run", graph, "--inputs", f"{folder}/in.npz", "--outputs", f"{folder}/out.npz"],
                           check=True, stdout=subprocess.DEVNULL)
            ours = np.load(f"{folder}/out.npz")["speech_probs"]
        difference = np.abs(ours - session.run(["speech_probs"], inputs)[0]).max()
        print(f"{name}: {len(samples) / RATE:.1f} s, speech {(ours >= 0.5).sum() * WINDOW / RATE:.1f} s, difference {difference:.1g}")


if __name__ == "__main__":
    main()
