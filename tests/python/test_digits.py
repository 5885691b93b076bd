"""The demonstration model that hears digits, from a recording and in pieces."""

from __future__ import annotations

import pathlib
import threading
import wave

import numpy as np
import pytest

import beamwright

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "digits-en"
SPOKEN = dict(line.split("\t") for line in (MODEL / "spoken.tsv").read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module")
def client():
    with beamwright.serve(MODEL, threads=1) as server, server.client() as client:
        yield client


def samples(name):
    with wave.open(str(MODEL / name)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        return np.frombuffer(file.readframes(file.getnframes()), np.int16)


@pytest.mark.parametrize("name", SPOKEN)
def test_what_is_said_is_heard(client, name):
    assert client.recognize(MODEL / name).result().text == SPOKEN[name]


def test_a_recording_is_transcribed(client):
    name, said = next(iter(SPOKEN.items()))
    assert client.transcribe(MODEL / name, beam_size=2).text == said


@pytest.mark.parametrize("name", SPOKEN)
def test_pieces_change_nothing(client, name):
    whole = client.recognize(samples(name)).result().segments[0].hypotheses[0]
    pieces = client.recognize(np.array_split(samples(name), 29))
    assert pieces.result().segments[0].hypotheses[0] == whole


def test_words_are_stable_while_others_are_said(client):
    name, said = max(SPOKEN.items(), key=lambda item: len(item[1]))
    half = samples(name)[: len(samples(name)) * 3 // 4]
    heard = threading.Event()

    def pieces():
        yield half
        heard.wait(60)
        yield samples(name)[len(half) :]

    with client.recognize(pieces()) as stream:
        first = next(update.stable.text for update in stream if update.stable)
        heard.set()
        assert first
        assert said.startswith(first)
        assert stream.result().text == said


def test_silence_has_no_word(client):
    assert client.recognize(np.zeros(32000, np.int16)).result().text == ""
