"""client.recognize: sound and frames, whole and in pieces, with threads and asyncio."""

from __future__ import annotations

import asyncio
import shutil
import struct
import threading
import wave

import numpy as np
import pytest
from conftest import unpacked

import beamwright
from beamwright import ArgumentTypeError, Features, InvalidArgumentError, _sound

FRAMES_BUNDLE = """
format_version: 1 name: "frames" frame_ms: 40 ctc { kind: LOGITS_KIND_LOG_PROBS }
target { form: TEXT_FORM_WHITESPACE vocabulary: "tokens.txt" }
"""
TONES_BUNDLE = """
format_version: 1 name: "tones" frame_ms: 40
encoder { graph: "encoder.onnx" input: "x" length_kind: LENGTH_INPUT_LENGTHS length_input: "x_lens" }
target { form: TEXT_FORM_PIECES vocabulary: "target.vocab" }
transducer {
  predictor { graph: "decoder.onnx" token_input: "y" output: "decoder_out" context_start: -1 }
  joiner {
    graph: "joiner.onnx" encoder_input: "encoder_out" predictor_input: "decoder_out" logits_output: "logit"
  }
  context_size: 2
  encoder_output: "encoder_out"
}
sound {}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    frames, tones = folder / "frames" / "1", folder / "tones" / "1"
    frames.mkdir(parents=True)
    tones.mkdir(parents=True)
    (frames / "model.textproto").write_text(FRAMES_BUNDLE)
    (frames / "tokens.txt").write_text("<blk>\na\nb\n")
    (tones / "model.textproto").write_text(TONES_BUNDLE)
    (tones / "target.vocab").write_text("<blk>\n" + "".join(f"▁t{i}\n" for i in range(1, 21)))
    for name in ("encoder", "decoder", "joiner"):
        shutil.copy(unpacked("frames/exports/tones") / f"{name}.onnx", tones)
    with beamwright.serve(repository=folder, threads=1) as server:
        yield server


@pytest.fixture
def client(models):
    with models.client() as client:
        yield client


def saying(*columns):
    rows = np.full((len(columns), 3), np.log(0.1), np.float32)
    rows[np.arange(len(columns)), columns] = np.log(0.8)
    return Features(rows)


def tones(*labels, rate=16000):
    """As tests/frames/tones.py makes them."""
    draw = np.random.default_rng(26)
    parts = [np.zeros(rate // 10)]
    for label in labels:
        count = rate * 15 // 100
        pitch = 200 * 1.18**label
        parts.append(0.3 * np.sin(2 * np.pi * pitch * np.arange(count) / rate) * np.hanning(count) ** 0.3)
    parts.append(np.zeros(rate // 10))
    sound = np.concatenate(parts)
    return (sound + draw.normal(0, 0.05, len(sound))).astype(np.float32)


def test_frames_in_pieces(client):
    pieces = [saying(1, 1), saying(0, 2, 0, 0), saying(0, 0, 2, 1)]
    with client.recognize(iter(pieces), model="frames", endpoint={"pause_ms": 120}, n_best=2) as stream:
        updates = list(stream)
        heard = stream.result()
    assert updates[-1].is_last
    assert [segment.text for segment in heard.segments] == ["a b", "b a"]
    assert heard.text == "a b b a"
    first = heard.segments[0]
    assert (first.number, first.first_frame, first.begin_ms, first.end_ms) == (0, 0, 0, 280)
    assert first.hypotheses[0].token_frames == (0, 3)
    assert len(first.hypotheses) == 2
    assert (heard.model, heard.num_frames, heard.frame_ms) == ("frames", 10, 40)


def test_the_best_so_far_is_told_before_the_source_ends(client):
    first_is_heard = threading.Event()

    def pieces():
        yield saying(1, 1)
        first_is_heard.wait(60)
        yield saying(2)

    with client.recognize(pieces(), model="frames", provisional=True) as stream:
        assert next(stream).provisional.text == "a"
        first_is_heard.set()
        assert stream.result().text == "a b"


@pytest.mark.parametrize("rate", [16000, 44100])
def test_sound(client, tmp_path, rate):
    samples = tones(3, 17, 8, rate=rate)
    as_floats = client.recognize(samples, sample_rate=rate, model="tones").result()
    assert as_floats.text == "t3 t17 t8"
    integers = np.round(samples * 32767).astype(np.int16)
    assert client.recognize(np.array_split(integers, 9), sample_rate=rate, model="tones").result().text == "t3 t17 t8"
    path = tmp_path / "tones.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(integers.tobytes())
    heard = client.recognize(path, model="tones").result()
    assert heard.text == "t3 t17 t8"
    words = heard.segments[0].words
    assert words[0].posterior == 1
    assert [word.text for word in words] == ["t3", "t17", "t8"]
    assert all(word.begin_ms < word.end_ms and 0 < word.confidence <= 1 for word in words)
    assert sorted(word.begin_ms for word in words) == [word.begin_ms for word in words]


def test_asyncio(models):
    async def run():
        async def pieces():
            for piece in np.array_split(tones(5, 9), 7):
                await asyncio.sleep(0)
                yield piece

        async with models.async_client() as client:
            first = client.recognize(pieces(), model="tones")
            second = client.recognize(saying(1, 0, 2), model="frames")
            return (await first.result()).text, (await second.result()).text

    assert asyncio.run(run()) == ("t5 t9", "a b")


def test_what_is_wrong_is_said(client, tmp_path):
    with pytest.raises(ArgumentTypeError, match="source is int"):
        client.recognize(7, model="tones")
    with pytest.raises(ArgumentTypeError, match="is not sound"):
        client.recognize(np.zeros((3, 3), np.float32), model="tones")
    with pytest.raises(InvalidArgumentError, match="has no piece"):
        client.recognize([], model="tones")
    with pytest.raises(InvalidArgumentError, match="there is no 'pause'"):
        client.recognize(saying(1), model="frames", endpoint={"pause": 3})
    with pytest.raises(InvalidArgumentError, match=r"config.audio.sample_rate"):
        client.recognize(tones(1), sample_rate=17, model="tones").result()
    with pytest.raises(InvalidArgumentError, match=r"config.audio: the bundle of model 'frames'"):
        client.recognize(tones(1), model="frames").result()
    for content, message in (
        (b"", "no known kind"),
        (b"\0" * 400, "no known kind"),
        (b"\0\0\0\x20ftypM4A ", "is MP4"),
        (b"RIFF\0\0\0\0WAVE", "has no samples"),
    ):
        path = tmp_path / "refused"
        path.write_bytes(content)
        with pytest.raises(InvalidArgumentError, match=message):
            client.recognize(path, model="tones")


def wav(content, kind, channels, rate, bits, size=None):
    head = struct.pack("<HHIIHH", kind, channels, rate, 0, 0, bits)
    return (
        b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0" + head + b"data" + struct.pack("<I", len(content) if size is None else size) + content
    )


def test_encodings_of_wav(tmp_path):
    """Against arithmetic on the values themselves; mu-law and A-law against values of ITU-T G.711's tables."""
    values = np.array([0, 0.5, -0.5, 0.25, -1], np.float64)
    wide = (values * 2**31).astype("<i4")
    cases = {
        (1, 8): (values * 128 + 128).astype(np.uint8).tobytes(),
        (1, 16): (values * 2**15).astype("<i2").tobytes(),
        (1, 24): wide.view(np.uint8).reshape(-1, 4)[:, 1:].tobytes(),
        (1, 32): wide.tobytes(),
        (3, 32): values.astype("<f4").tobytes(),
        (3, 64): values.astype("<f8").tobytes(),
    }
    path = tmp_path / "sound.wav"
    for (kind, bits), content in cases.items():
        for size in (None, 0, 0xFFFFFFFF):
            path.write_bytes(wav(content, kind, 1, 22050, bits, size))
            rate, samples = _sound.read(path)
            scale = 32768 if samples.dtype == np.int16 else 1
            assert rate == 22050
            np.testing.assert_allclose(samples / scale, values, atol=1e-7, err_msg=f"{kind}, {bits} bits")
    path.write_bytes(wav(np.array([100, 300, -100, 100], "<i2").tobytes(), 1, 2, 16000, 16))
    np.testing.assert_allclose(_sound.read(path)[1], [200 / 32768, 0])
    codes = bytes([0, 0x80, 0xFF, 0x7F, 0x78, 0xD5, 0x2A, 0x55])
    for kind, expected in (
        (7, [-32124, 32124, 0, 0, -56, 716, -5372, -716]),
        (6, [-5504, 5504, 848, -848, -944, 8, -32256, -8]),
    ):
        path.write_bytes(wav(codes, kind, 1, 8000, 8))
        assert _sound.read(path)[1].tolist() == expected


def test_what_a_source_raises_reaches_its_caller(client, models):
    def breaks():
        yield saying(1)
        raise OSError("the microphone is gone")

    with pytest.raises(OSError, match="the microphone is gone"):
        client.recognize(breaks(), model="frames").result()

    async def run():
        async def nothing():
            return
            yield

        async def breaks_later():
            yield saying(1)
            raise OSError("the microphone is gone")

        async with models.async_client() as asynchronous:
            with pytest.raises(InvalidArgumentError, match="source: has no piece"):
                await asynchronous.recognize(nothing(), model="frames").result()
            with pytest.raises(OSError, match="the microphone is gone"):
                await asynchronous.recognize(breaks_later(), model="frames").result()
            with pytest.raises(ArgumentTypeError, match="source is int"):
                await asynchronous.recognize(7, model="frames").result()
            with pytest.raises(InvalidArgumentError, match="has no piece"):
                await asynchronous.recognize([], model="frames").result()

    asyncio.run(run())
