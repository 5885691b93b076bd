"""Sound files, Kaldi's features, and what happens to a voice on its way to a recording."""

import wave
from math import gcd
from pathlib import Path

import kaldi_native_fbank
import numpy as np
from scipy.signal import fftconvolve, resample_poly

RATE = 16000
SILENCE = -15.942385  # of every feature: the logarithm of the least energy that Kaldi's features have

Draw = np.random.Generator


def read(file: str | Path) -> np.ndarray:
    """16-bit mono WAV -> f32 at 16 kHz."""
    with wave.open(str(file)) as opened:
        samples = np.frombuffer(opened.readframes(opened.getnframes()), np.int16)
        return resampled(samples.astype(np.float32) / 32768, opened.getframerate())


def write(file: str | Path, samples: np.ndarray) -> None:
    with wave.open(str(file), "wb") as opened:
        opened.setnchannels(1)
        opened.setsampwidth(2)
        opened.setframerate(RATE)
        opened.writeframes((np.clip(samples, -1, 1) * 32767).astype(np.int16).tobytes())


def resampled(samples: np.ndarray, rate: int, to: int = RATE) -> np.ndarray:
    if rate == to:
        return samples.astype(np.float32)
    common = gcd(rate, to)
    return resample_poly(samples, to // common, rate // common).astype(np.float32)


def features(samples: np.ndarray) -> np.ndarray:
    """[frames, 80], as docs/speech.md says."""
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = 80
    options.mel_opts.high_freq = -400
    bank = kaldi_native_fbank.OnlineFbank(options)
    bank.accept_waveform(RATE, samples.tolist())
    bank.input_finished()
    frames = [bank.get_frame(i) for i in range(bank.num_frames_ready)]
    return np.stack(frames) if frames else np.zeros((0, 80), np.float32)


def noise(draw: Draw, length: int) -> np.ndarray:
    """White to brown, by chance, of power 1."""
    spectrum = np.fft.rfft(draw.standard_normal(length))
    spectrum /= np.maximum(np.arange(len(spectrum)), 1) ** draw.uniform(0, 1)
    sound = np.fft.irfft(spectrum, length)
    return sound / (np.sqrt(np.mean(sound ** 2)) + 1e-9)


def room(draw: Draw) -> np.ndarray:
    """An impulse response: the direct sound, a few echoes, and noise that dies away within 0.1 to 0.6 s."""
    length = int(RATE * draw.uniform(0.05, 0.3))
    decay = np.exp(-np.arange(length) / RATE * 6.9 / draw.uniform(0.1, 0.6))
    response = draw.standard_normal(length) * decay * draw.uniform(0.005, 0.06)
    response[0] = 1
    for at in draw.integers(1, length, 4):
        response[at] += draw.uniform(-0.3, 0.3) * decay[at]
    return response


def equalised(draw: Draw, samples: np.ndarray) -> np.ndarray:
    """Through a smooth random response of up to 8 dB either way, steeper where the voice is at the ends of the band."""
    spectrum = np.fft.rfft(samples)
    at = np.linspace(0, RATE / 2, len(spectrum))
    points = np.array([0, 150, 300, 700, 1500, 3000, 5000, 8000])
    response = np.interp(at, points, draw.uniform(-8, 8, len(points)))
    return np.fft.irfft(spectrum * 10 ** (response / 20), len(samples))


def telephone(draw: Draw, samples: np.ndarray) -> np.ndarray:
    """Through 8 or 11 kHz, sometimes without what a line cuts off, and in the 8 bits of mu-law."""
    rate = int(draw.choice([8000, 8000, 11025]))
    narrow = resampled(samples, RATE, rate)
    if draw.random() < 0.5:
        spectrum = np.fft.rfft(narrow)
        at = np.linspace(0, rate / 2, len(spectrum))
        spectrum *= 1 / (1 + (draw.uniform(100, 300) / (at + 1)) ** 4)
        narrow = np.fft.irfft(spectrum, len(narrow))
    if draw.random() < 0.4:
        peak = np.abs(narrow).max() + 1e-9
        pressed = np.sign(narrow) * np.log1p(255 * np.abs(narrow) / peak) / np.log(256)
        pressed = np.round(pressed * 127) / 127
        narrow = np.sign(pressed) * (256 ** np.abs(pressed) - 1) / 255 * peak
    return resampled(narrow, rate)


def recorded(draw: Draw, samples: np.ndarray, babble: np.ndarray | None) -> np.ndarray:
    """One recording of `samples`: another speaker size, room, noise, channel and level."""
    speed = int(draw.integers(84, 119))
    samples = resampled(samples, speed, 100)
    if draw.random() < 0.4:
        samples = fftconvolve(samples, room(draw))[:len(samples)]
    if draw.random() < 0.7:
        samples = equalised(draw, samples)
    power = np.sqrt(np.mean(samples ** 2)) + 1e-9
    if draw.random() < 0.6:
        samples = samples + noise(draw, len(samples)) * power * 10 ** (-draw.uniform(5, 45) / 20)
    if babble is not None and draw.random() < 0.15:
        babble = np.resize(babble, len(samples))
        babble = babble / (np.sqrt(np.mean(babble ** 2)) + 1e-9)
        samples = samples + babble * power * 10 ** (-draw.uniform(12, 30) / 20)
    if draw.random() < 0.45:
        samples = telephone(draw, samples)
    peak = np.abs(samples).max() + 1e-9
    samples = samples / peak * 10 ** (-draw.uniform(0, 30) / 20)
    if draw.random() < 0.5:
        samples = np.round(samples * 32767) / 32767
    return samples.astype(np.float32)
