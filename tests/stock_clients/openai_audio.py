#!/usr/bin/env python3
"""OpenAI's Python package, unmodified, against POST /v1/audio/transcriptions: every response format, words, streams, other kinds
of files, and what is refused. BIN/beamwright recognize says what is right.

Usage: openai_audio.py BIN MODEL TOOLS.
"""

import io
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import wave

import openai
from served import check, server

DIGITS = pathlib.Path(__file__).parents[2] / "models/digits-en"
SPOKEN = dict(line.split("\t") for line in (DIGITS / "spoken.tsv").read_text().splitlines())


def au_of(path):
    """The recording as an AU file."""
    with wave.open(str(path)) as file:
        samples = struct.unpack(f"<{file.getnframes()}h", file.readframes(file.getnframes()))
        rate = file.getframerate()
    return b".snd" + struct.pack(">IIIII", 24, 0xFFFFFFFF, 3, rate, 1) + struct.pack(f">{len(samples)}h", *samples)


def heard(grpc, path):
    done = subprocess.run([pathlib.Path(sys.argv[1]) / "beamwright", "recognize", path, "--server", grpc, "--model", "digits-en",
                           "--json"], check=True, capture_output=True, text=True)
    return [segment["hypotheses"][0] for line in done.stdout.splitlines() for segment in json.loads(line).get("segments", [])]


def formats(client, grpc):
    for name, said in SPOKEN.items():
        path = DIGITS / name
        answer = client.audio.transcriptions.create(file=path, model="digits-en")
        check(answer.text == said, f"{name}: {answer.text!r}, expected {said!r}")
        right = heard(grpc, path)
        full = client.audio.transcriptions.create(file=path, model="digits-en", response_format="verbose_json", language="en",
                                                  timestamp_granularities=["word", "segment"])
        with wave.open(str(path)) as file:
            seconds = file.getnframes() / file.getframerate()
        check(abs(full.duration - seconds) < 0.002 and full.language == "en", f"{full.duration} of {seconds} s")
        check(full.text == said and [word.word for word in full.words] == said.split(), f"words {full.words}")
        check([part.text for part in full.segments] == [part["text"] for part in right], f"segments {full.segments}")
        times = [(word.start, word.end) for word in full.words]
        check(all(0 <= begin < end <= seconds + 1 for begin, end in times) and times == sorted(times), f"times {times}")
        first = right[0]["token_frames"][0] if "token_frames" in right[0] else None
        check(first is None or full.words[0].start >= 0, "the first word's time")
    path = DIGITS / "spoken-1.wav"
    said = SPOKEN["spoken-1.wav"]
    ask = lambda form: client.audio.transcriptions.create(file=path, model="digits-en", response_format=form)  # noqa: E731
    check(ask("text").strip() == said, ask("text"))
    clock = r"\d\d:\d\d:\d\d"
    check(re.fullmatch(rf"1\n{clock},\d\d\d --> {clock},\d\d\d\n{said}\n\n", ask("srt")), ask("srt"))
    check(re.fullmatch(rf"WEBVTT\n\n{clock}\.\d\d\d --> {clock}\.\d\d\d\n{said}\n\n", ask("vtt")), ask("vtt"))
    other = client.audio.transcriptions.create(file=("talk.au", au_of(path)), model="digits-en", prompt="three, four, no digit")
    check(other.text == said, f"an AU file: {other.text!r}")


def large(client):
    """A recording of 20 MB, most of it silence: 48 kHz, two channels."""
    path = DIGITS / "spoken-1.wav"
    with wave.open(str(path)) as file:
        samples = struct.unpack(f"<{file.getnframes()}h", file.readframes(file.getnframes()))
    frames = b"".join(struct.pack("<h", sample) * 6 for sample in samples)
    frames += bytes(20_000_000 - len(frames))
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((2, 2, 48000, 0, "NONE", ""))
        file.writeframes(frames)
    answer = client.audio.transcriptions.create(file=("long.wav", content.getvalue()), model="digits-en")
    check(answer.text == SPOKEN[path.name], f"20 MB: {answer.text!r}")
    try:
        client.audio.transcriptions.create(file=("larger.wav", bytes(27 << 20)), model="digits-en")
    except openai.APIStatusError as error:
        check(error.status_code == 413 and "26 MiB" in str(error), f"27 MiB: {error}")
    except openai.APIConnectionError:  # the connection was closed while the client sent
        pass
    else:
        check(False, "27 MiB were answered")


def newer_fields(client):
    """Fields that came after the endpoint: with an effect, without one, and refused."""
    path = DIGITS / "spoken-1.wav"
    said = SPOKEN[path.name]
    ask = lambda **options: client.audio.transcriptions.create(file=path, model="digits-en", **options)  # noqa: E731
    vad = {"type": "server_vad", "silence_duration_ms": 600, "prefix_padding_ms": 300, "threshold": 0.5}
    for options in ({"chunking_strategy": "auto"}, {"chunking_strategy": vad}, {"languages": ["en", "de"]}, {"temperature": 0.3},
                    {"keywords": ["three four", "no digit"]}):
        answer = ask(**options)
        check(answer.text == said and answer.logprobs is None, f"{options}: {answer}")
    answer = ask(include=["logprobs"])
    check("".join(token.token for token in answer.logprobs).strip() == said, f"tokens {answer.logprobs}")
    check(all(token.logprob <= 1e-3 and bytes(map(int, token.bytes)).decode() == token.token for token in answer.logprobs),
          f"tokens {answer.logprobs}")
    *_, done = ask(include=["logprobs"], stream=True)
    check(done.text == said and [token.logprob for token in done.logprobs] == [token.logprob for token in answer.logprobs],
          f"the last event {done}")
    short = ask(response_format="verbose_json", chunking_strategy={**vad, "silence_duration_ms": 40})
    check(len(short.segments) > len(ask(response_format="verbose_json").segments), f"segments {short.segments}")
    for message, options in (("known_speaker_names", {"known_speaker_names": ["agent"]}),
                             ("known_speaker_references", {"known_speaker_references": ["data:audio/wav;base64," + "A" * 99999]}),
                             ("verbose_json", {"response_format": "diarized_json"}),
                             ("response_format json", {"include": ["logprobs"], "response_format": "verbose_json"}),
                             ("server_vad", {"chunking_strategy": {"type": "semantic_vad"}})):
        try:
            answer = ask(**options)
        except openai.BadRequestError as error:
            check(message in str(error), f"{error} does not say {message}")
        else:
            check(False, f"{options}: {answer} instead of an error")


def streams(client):
    said = SPOKEN["spoken-3.wav"]
    events = list(client.audio.transcriptions.create(file=DIGITS / "spoken-3.wav", model="digits-en", stream=True))
    check(events[-1].type == "transcript.text.done" and events[-1].text == said, f"the last event is {events[-1]}")
    deltas = [event.delta for event in events[:-1]]
    check("".join(deltas) == said and len(deltas) > 0, f"deltas {deltas}")
    return len(events)


def refused(client, address):
    wav = (DIGITS / "spoken-1.wav").read_bytes()
    for kind, message, options in (
            (openai.NotFoundError, "whisper-1", {"file": ("a.wav", wav), "model": "whisper-1"}),
            (openai.BadRequestError, "response_format", {"file": ("a.wav", wav), "model": "digits-en", "response_format": "xml"}),
            (openai.BadRequestError, "is MP4", {"file": ("a.m4a", b"\0\0\0\x20ftypM4A "), "model": "digits-en"}),
            (openai.BadRequestError, "no known kind", {"file": ("a.wav", b"\0" * 3000), "model": "digits-en"}),
            (openai.BadRequestError, "temperature", {"file": ("a.wav", wav), "model": "digits-en", "temperature": 7}),
            (openai.BadRequestError, "is no field", {"file": ("a.wav", wav), "model": "digits-en", "extra_body": {"beam": 3}}),
            (openai.BadRequestError, "decodes token by token", {"file": ("a.wav", wav), "model": "g2p-en"})):
        try:
            answer = client.audio.transcriptions.create(**options)
        except kind as error:
            check(message in str(error), f"{error} does not say {message}")
        else:
            check(False, f"{options['model']}: {answer} instead of {kind.__name__}")
    for content_type, body, status in (("application/json", b"{}", 400), ("multipart/form-data", b"--x--", 400),
                                       ("multipart/form-data; boundary=x", b"--x\r\n", 400)):
        request = urllib.request.Request(f"http://{address}/v1/audio/transcriptions", body, {"Content-Type": content_type})
        try:
            urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            check(error.code == status, f"{body}: {error.code}")
        else:
            check(False, f"{body} was answered")
    try:
        urllib.request.urlopen(f"http://{address}/v1/audio/transcriptions", timeout=60)
    except urllib.error.HTTPError as error:
        check(error.code == 405, f"GET: {error.code}")


def counted(process):
    with urllib.request.urlopen(f"http://{process.metrics}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    mine = [line for line in lines if line.startswith("beamwright_requests_total{") and 'method="Recognize"' in line
            and 'protocol="http"' in line]
    check(any('code="OK"' in line for line in mine), f"the metrics have {mine}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        models = pathlib.Path(folder) / "models"
        models.mkdir()
        (models / "digits-en").symlink_to(DIGITS)
        with server("--model-repository", models) as (grpc, http, process):
            client = openai.OpenAI(base_url=f"http://{http}/v1", api_key="none", max_retries=0, timeout=120)
            formats(client, grpc)
            newer_fields(client)
            large(client)
            events = streams(client)
            refused(client, http)
            counted(process)
    print(f"{len(SPOKEN)} recordings in every format, {events} events of a stream, refusals")


if __name__ == "__main__":
    main()
