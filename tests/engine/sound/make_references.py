#!/usr/bin/env python3
"""Writes data/*.npy: what kaldi-native-fbank says of sounds that front_end_test.cc makes again; and data/front_ends.tar.gz: what
the other toolkits say of 0.2 s of speech, noise, tones and silence, [4, frames, features].

    python3 -m venv V; V/bin/pip install numpy kaldi-native-fbank==1.23.0 librosa==0.11 torch torchaudio transformers
    V/bin/python make_references.py
"""

import pathlib
import sys
import wave

import kaldi_native_fbank as knf
import librosa
import numpy as np
import torch
import torchaudio
import transformers

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "support"))
from archives import pack  # noqa: E402


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


def spoken(begin, count):
    with wave.open(str(HERE.parents[2] / "models" / "digits-en" / "spoken-1.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    return samples[begin:begin + count].astype(np.float32) / 32768


def nemo(samples):
    """NeMo's AudioToMelSpectrogramPreprocessor, as transformers has it."""
    found = transformers.ParakeetFeatureExtractor()(samples, sampling_rate=16000, return_tensors="pt")
    return found["input_features"][0].numpy()[:int(found["attention_mask"][0].sum())]


def whisper(samples, bins):
    """The first frames; silence follows for 30 s."""
    extractor = transformers.WhisperFeatureExtractor(feature_size=bins)
    return extractor(samples, sampling_rate=16000, return_tensors="np")["input_features"][0].T[:24]


def mfcc(samples):
    options = knf.MfccOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = 40
    options.mel_opts.high_freq = -400
    options.num_ceps = 13
    options.use_energy = False
    online = knf.OnlineMfcc(options)
    online.accept_waveform(16000, samples.tolist())
    online.input_finished()
    return np.stack([online.get_frame(i) for i in range(online.num_frames_ready)])


def low_frame_rate(samples, stack=7, shift=6):
    """funasr_onnx.utils.frontend.WavFrontend: fbank and apply_lfr."""
    options = knf.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.window_type = "hamming"
    options.mel_opts.num_bins = 80
    options.energy_floor = 0
    online = knf.OnlineFbank(options)
    online.accept_waveform(16000, (samples * 32768).tolist())
    online.input_finished()
    frames = np.stack([online.get_frame(i) for i in range(online.num_frames_ready)])
    count = -(-len(frames) // shift)
    frames = np.vstack([np.tile(frames[0], ((stack - 1) // 2, 1)), frames])
    frames = np.vstack([frames, np.tile(frames[-1], (count * shift + stack, 1))])
    return np.stack([frames[i * shift:i * shift + stack].reshape(-1) for i in range(count)])


def torchaudio_of(samples, transform):
    """In double precision: next to a tone single precision shows what its Fourier transform rounded off."""
    return transform.to(torch.float64)(torch.from_numpy(samples.astype(np.float64))).numpy().T


def mel_spectrogram(samples):
    return np.log(torchaudio_of(samples, torchaudio.transforms.MelSpectrogram(16000, n_mels=80)) + 1e-6)


def power_to_db(samples):
    mel = librosa.feature.melspectrogram(y=samples, sr=16000, n_fft=512, win_length=400, hop_length=160, n_mels=64)
    return librosa.power_to_db(mel).T


def zero_mean(samples):
    return transformers.Wav2Vec2FeatureExtractor()(samples, sampling_rate=16000, return_tensors="np")["input_values"][0][:, None]


FRONT_ENDS = {
    "nemo": nemo,
    "whisper_80": lambda samples: whisper(samples, 80),
    "whisper_128": lambda samples: whisper(samples, 128),
    "torchaudio": mel_spectrogram,
    "torchaudio_mfcc": lambda samples: torchaudio_of(samples, torchaudio.transforms.MFCC(16000, n_mfcc=40)),
    "librosa": power_to_db,
    "librosa_mfcc": lambda samples: librosa.feature.mfcc(y=samples, sr=16000).T,
    "kaldi_mfcc": mfcc,
    "low_frame_rate": low_frame_rate,
    "wav2vec2": zero_mean,
}

LENGTH = 16000 // 5 + 37
SOUNDS = [spoken(12000, LENGTH), noise(LENGTH), tones(LENGTH, 16000), np.zeros(LENGTH, np.float32)]
(HERE / "data" / "front_ends").mkdir(exist_ok=True)
np.save(HERE / "data" / "front_ends" / "speech.npy", SOUNDS[0])
for name, compute in FRONT_ENDS.items():
    np.save(HERE / "data" / "front_ends" / f"{name}.npy", np.stack([compute(samples) for samples in SOUNDS]).astype(np.float32))
pack(HERE / "data" / "front_ends")
