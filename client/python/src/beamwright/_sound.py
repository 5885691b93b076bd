"""Recordings as samples of one channel: WAV is read here, others by the package soundfile if it is there."""

from __future__ import annotations

import importlib
import os
import pathlib
import struct
from typing import TYPE_CHECKING, Any

from ._errors import invalid

if TYPE_CHECKING:
    import numpy as np

# Files by their first bytes, and what bytes 8 to 11 are; the third: whether soundfile reads them.
_KINDS = (
    (b"RIFX", b"WAVE", "big-endian WAV", True),
    (b"riff\x2e\x91\xcf\x11", b"", "W64", True),
    (b"fLaC", b"", "FLAC", True),
    (b"OggS", b"", "Ogg", True),
    (b"FORM", b"AIF", "AIFF", True),
    (b".snd", b"", "AU", True),
    (b"dns.", b"", "AU", True),
    (b"caff", b"", "CAF", True),
    (b"ID3", b"", "MP3", True),
    (b"\x1a\x45\xdf\xa3", b"", "WebM or Matroska", False),
    (b"#!AMR", b"", "AMR", False),
)
_INTEGERS, _FLOATS, _A_LAW, _MU_LAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_UNKNOWN_SIZES = (0, 0xFFFFFFFF)  # of programs that record into a pipe


def _kind(head: bytes) -> tuple[str, bool] | None:
    """A name, and whether soundfile reads it; None: no known kind."""
    for mark, at_8, name, is_read in _KINDS:
        if head.startswith(mark) and head[8:].startswith(at_8):
            return name, is_read
    if head[4:8] == b"ftyp":
        return "MP4 (M4A, AAC)", False
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:  # a frame of MPEG audio
        return ("MP3", True) if head[1] & 6 else ("AAC", False)
    return None


def _chunks(data: bytes) -> tuple[bytes, bytes]:
    """The format and the samples of a WAV file."""
    form = b""
    at = 12
    while at + 8 <= len(data):
        name, size = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        at += 8
        if name == b"data":
            return form, data[at:] if size in _UNKNOWN_SIZES else data[at : at + size]
        if name == b"fmt ":
            form = data[at : at + size]
        at += size + size % 2
    return form, b""


def _companded(codes: Any, a_law: bool) -> Any:
    """ITU-T G.711's codes as 16-bit integers."""
    import numpy as np

    codes = codes.astype(np.int32) ^ (0x55 if a_law else 0xFF)
    exponent, mantissa = codes >> 4 & 7, codes & 15
    if a_law:
        size = np.where(
            exponent == 0, (mantissa << 4) + 8, ((mantissa << 4) + 0x108) << np.maximum(exponent - 1, 0)
        )
        return np.where(codes & 0x80, size, -size).astype(np.int16)
    size = (((mantissa << 3) + 0x84) << exponent) - 0x84
    return np.where(codes & 0x80, -size, size).astype(np.int16)


def _samples(data: bytes, kind: int, bits: int) -> Any:
    """Samples of all channels: int16, or f32 at full scale 1; None: an encoding that is not known."""
    import numpy as np

    if kind in (_A_LAW, _MU_LAW) and bits == 8:
        return _companded(np.frombuffer(data, np.uint8), kind == _A_LAW)
    if kind == _FLOATS and bits in (32, 64):
        return np.frombuffer(data, f"<f{bits // 8}").astype(np.float32)
    if kind != _INTEGERS or bits not in (8, 16, 24, 32):
        return None
    if bits == 8:
        return (np.frombuffer(data, np.uint8).astype(np.int16) - 128) * np.int16(256)
    if bits == 16:
        return np.frombuffer(data, "<i2")
    width = bits // 8
    highest = np.zeros((len(data) // width, 4), np.uint8)
    highest[:, 4 - width :] = np.frombuffer(data, np.uint8).reshape(-1, width)
    return (highest.view("<i4")[:, 0] / 2.0**31).astype(np.float32)


def _read_wav(path: str, data: bytes) -> tuple[int, np.ndarray[Any, Any]] | None:
    """None: soundfile may know the encoding."""
    form, content = _chunks(data)
    if len(form) < 16:
        raise invalid("source", f"{path} has no samples, or they come before their format")
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", form)
    if kind == _EXTENSIBLE and len(form) >= 26:
        kind = struct.unpack_from("<H", form, 24)[0]
    if not 1 <= channels <= 64:
        raise invalid("source", f"{path} has {channels} channels; 1 to 64 are read")
    frame = channels * ((bits + 7) // 8)
    samples = _samples(content[: len(content) // max(frame, 1) * frame], kind, bits)
    return None if samples is None else (rate, samples if channels == 1 else _mean(samples, channels))


def _mean(samples: Any, channels: int) -> Any:
    import numpy as np

    scale = np.float32(1 / 32768 if samples.dtype == np.int16 else 1)
    return samples.reshape(-1, channels).mean(axis=1, dtype=np.float32) * scale


def read(path: str | os.PathLike[str]) -> tuple[int, np.ndarray[Any, Any]]:
    """The rate of a recording and its samples, int16 or f32 at full scale 1, the mean of all channels."""
    path = os.fspath(path)
    data = pathlib.Path(path).read_bytes()
    kind: tuple[str, bool] | None = ("WAV of this encoding", True)
    if data[:4] in (b"RIFF", b"RF64") and data[8:12] == b"WAVE":
        found = _read_wav(path, data)
        if found is not None:
            return found
    else:
        kind = _kind(data[:12])
    if kind is None:
        raise invalid("source", f"{path} begins as no known kind of sound file; arrays hold raw samples")
    if not kind[1]:
        raise invalid(
            "source", f"{path} is {kind[0]}, which is not read; convert it, as with ffmpeg -i FILE talk.wav"
        )
    try:
        soundfile = importlib.import_module("soundfile")
    except ImportError:
        raise invalid(
            "source", f"{path} is {kind[0]}, which the package soundfile reads; it is not installed"
        ) from None
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except RuntimeError as error:
        raise invalid("source", f"{path} begins as {kind[0]} and cannot be read: {error}") from None
    return rate, samples.mean(axis=1)
