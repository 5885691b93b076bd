#!/usr/bin/env python3
"""The WebSocket listener and clients of sherpa-onnx's online server: its own program, unmodified; what its Python examples
send, through the library that they use; and clients that send what they should not.

Usage: sherpa_online.py BIN MODEL TOOLS. BIN/beamwright recognize says what is right.
"""

import asyncio
import contextlib
import base64
import hashlib
import json
import math
import pathlib
import re
import signal
import ssl
import struct
import subprocess
import sys
import tempfile
import time

import websockets
from served import check, server

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/frames"))
from served_tones import make_bundle, tones, write_wave  # noqa: E402

SHERPA = pathlib.Path(sys.executable).parent / "sherpa-onnx-online-websocket-client"
def as_floats(samples):
    return struct.pack(f"<{len(samples)}f", *(sample / 32768 for sample in samples))


def recognized(grpc, path, model="tones", more=()):
    """What the command line hears in the file: of each segment its best hypothesis."""
    done = subprocess.run([pathlib.Path(sys.argv[1]) / "beamwright", "recognize", path, "--server", grpc, "--model", model,
                           "--json", *more], check=True, capture_output=True, text=True)
    return [segment["hypotheses"][0] for line in done.stdout.splitlines() for segment in json.loads(line).get("segments", [])]


def metrics(process, name):
    done = subprocess.run(["curl", "--silent", "--noproxy", "*", f"http://{process.metrics}/metrics"], check=True,
                          capture_output=True, text=True)
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()
            if line.startswith(name)}


def becomes(asked, what):
    until = time.monotonic() + 120
    while not asked():
        check(time.monotonic() < until, what)
        time.sleep(0.02)


def own_program(port, path, right):
    """sherpa-onnx-online-websocket-client as it is published."""
    done = subprocess.run([SHERPA, "--server-ip=127.0.0.1", f"--server-port={port}", "--samples-per-message=1600",
                           "--seconds-per-message=0.01", path], capture_output=True, text=True, timeout=120)
    answers = [json.loads(found) for found in re.findall(r"(\{\"text\".*\})", done.stderr)]
    check(done.returncode == 0 and answers, f"sherpa-onnx's client: {done.stderr}")
    check(answers[-1]["text"] == right["text"] and answers[-1]["is_final"], f"its last answer is {answers[-1]}")
    print(f"sherpa-onnx's own client: {answers[-1]['text']}")


def connect(uri, **options):
    """As websockets does, but that a busy machine may take its time to answer a handshake, a ping or a farewell."""
    return websockets.connect(uri, **{"open_timeout": 120, "ping_timeout": None, "close_timeout": 120, **options})


async def send_file(uri, samples, **options):
    """As python-api-examples/online-websocket-client-decode-file.py does: answers are read while sound is sent."""
    async with connect(uri, **options) as socket:
        async def receive():
            answers = []
            async for message in socket:
                if message == "Done!":
                    return answers
                answers.append(json.loads(message))
            return answers

        receiving = asyncio.create_task(receive())
        sound = as_floats(samples)
        for begin in range(0, len(sound), 6400):
            await socket.send(sound[begin:begin + 6400])
            await asyncio.sleep(0)
        await socket.send("Done")
        return await receiving


async def examples(uri, samples, right):
    answers = await send_file(uri, samples)
    last = answers[-1]
    check(last["text"] == right["text"], f"{last} instead of {right['text']}")
    check(last["is_final"] and last["is_eof"] and last["segment"] == 0, f"the last answer is {last}")
    check([token.strip() for token in last["tokens"]] == right["text"].split(), f"tokens {last['tokens']}")
    check(last["timestamps"] == [round(frame * 0.04, 3) for frame in right["token_frames"]], f"times {last['timestamps']}")
    for answer in answers:
        check(len(answer["timestamps"]) == len(answer["tokens"]), f"times of {answer}")
        check(last["text"].startswith(answer["stable"]), f"'{answer['stable']}' was said to be stable")
    print(f"as its Python examples: {len(answers)} answers")


async def refused(uri, messages, code, text, **options):
    """A source that fails: why, in an object, and then the close."""
    async with connect(uri, **options) as socket:
        answers = []
        try:
            with contextlib.suppress(websockets.ConnectionClosedError):  # the refusal may arrive before all is sent
                for message in messages:
                    await socket.send(message)
            async for message in socket:
                answers.append(message)
            closed = socket.close_code
        except websockets.ConnectionClosedError:
            closed = socket.close_code
        check(closed == code, f"closed with {closed} instead of {code}: {answers}")
        said = answers[-1] if answers else socket.close_reason
        check(text in said, f"'{text}' is not in {said}")


async def not_accepted(uri, status, text, **options):
    try:
        async with connect(uri, **options):
            check(False, f"{uri} was accepted")
    except websockets.InvalidStatus as error:
        check(error.response.status_code == status, f"status {error.response.status_code} instead of {status}")
        check(text in error.response.body.decode(), f"'{text}' is not in {error.response.body}")


async def nonsense(uri, port, process, sound):
    await refused(uri, ["Dome"], 1007, "a text message is 'Done'")
    await refused(uri, [sound[:6401]], 1007, "audio: 6401 bytes are not whole samples of 4 bytes")
    await refused(uri, [struct.pack("<f", math.nan)], 1007, "audio:")
    await refused(uri, ["Done"], 1007, "source: has no frames")
    await refused(uri, [sound] * 100 + ["Done", sound], 1007, "the source is complete")
    await refused(uri, [b"\0" * ((1 << 20) + 4)], 1009, "", max_size=None)
    await refused(uri + "?options={\"beam_size\":0}", [sound], 1007, "config.options.beam_size")
    await refused(uri + "?timeout_ms=1", [sound] * 40 + ["Done"], 1008, "deadline")
    await not_accepted(uri + "?model=none", 404, "none")
    await not_accepted(uri + "?hotword=x", 400, "hotword: is not a parameter of a stream")
    await not_accepted(uri, 403, "pages of this origin", origin="https://elsewhere.example")
    async with connect(uri, origin="http://127.0.0.1:8000"):  # the same host, another port
        pass
    # Bytes that are no HTTP, and half of one.
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
    check(b" 400 " in await reader.read(), "what is not HTTP is not refused")
    writer.close()
    # One that goes in the middle of a source, without a word.
    for _ in range(20):
        socket = await connect(uri)
        await socket.send(sound)
        socket.transport.abort()
    await asyncio.to_thread(becomes, lambda: sum(metrics(process, "beamwright_websocket_connections ").values()) == 0, "connections are left")
    await asyncio.to_thread(becomes, lambda: sum(metrics(process, "beamwright_requests_running").values()) == 0, "sources are left")
    print("nonsense is refused")


async def crowd(uri, process, samples, right, count=1000):
    """Connections by the hundred, each for one source; those that only connect are no harm."""
    before = sum(metrics(process, 'beamwright_requests_total{code="OK"').values())
    idle = [await connect(uri) for _ in range(100)]
    gate = asyncio.Semaphore(100)

    async def one(number):
        async with gate:
            if number % 4 > 0:
                async with connect(uri):
                    return None
            return (await send_file(uri, samples))[-1]["text"]

    begin = time.monotonic()
    texts = await asyncio.gather(*(one(number) for number in range(count)))
    took = time.monotonic() - begin
    heard = [text for text in texts if text is not None]
    check(set(heard) == {right["text"]}, f"{set(heard)}")
    for socket in idle:
        await socket.close()
    after = sum(metrics(process, 'beamwright_requests_total{code="OK"').values())
    check(after - before == len(heard), f"{after - before} calls are counted of {len(heard)}")
    print(f"{count} connects, {len(heard)} sources in {took:.1f} s")


async def drain(uri, process, samples, right):
    """A source that began is heard to its end when the server stops; who does nothing is sent away."""
    idle = await connect(uri)
    busy = await connect(uri)
    await busy.send(as_floats(samples))
    await asyncio.to_thread(becomes, lambda: sum(metrics(process, "beamwright_websocket_connections ").values()) == 2, "two connections")
    await (await busy.ping())  # it has read what came before, so the source has begun
    process.send_signal(signal.SIGTERM)
    await idle.wait_closed()
    check(idle.close_code == 1001, f"closed with {idle.close_code}")
    await busy.send("Done")
    answers = [message async for message in busy]
    check(answers[-1] == "Done!" and json.loads(answers[-2])["text"] == right["text"], f"{answers[-2:]}")
    check(busy.close_code == 1001, f"closed with {busy.close_code}")
    check(process.wait(120) == 0, "the server ended with an error")
    print("a server that stops answers first")


def secured(scratch, models, samples, right):
    """TLS, tokens and roles hold as for everything else; pages send their token as a protocol."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", scratch / "key.pem", "-out",
                    scratch / "cert.pem"], check=True, capture_output=True)
    (scratch / "tokens").write_text("".join(
        f'tokens {{ name: "{token}" sha256: "{hashlib.sha256(token.encode()).hexdigest()}" roles: {role} }}\n'
        for token, role in (("speaker", "ROLE_DECODE"), ("watcher", "ROLE_OBSERVE"))))
    context = ssl.create_default_context(cafile=scratch / "cert.pem")
    with server("--model-repository", models, "--websocket-address", "127.0.0.1:0",
                "--tls-cert", scratch / "cert.pem", "--tls-key", scratch / "key.pem", "--auth-token-file",
                scratch / "tokens") as (_, _, process):
        uri = f"wss://localhost:{process.websocket}/"

        async def ask():
            await not_accepted(uri, 401, "NO_CREDENTIALS", ssl=context)
            await not_accepted(uri, 403, "ROLE_MISSING", ssl=context,
                               additional_headers={"Authorization": "Bearer watcher"})
            answers = await send_file(uri, samples, ssl=context, additional_headers={"Authorization": "Bearer speaker"})
            check(answers[-1]["text"] == right["text"], f"{answers[-1]}")
            token = base64.urlsafe_b64encode(b"speaker").decode().rstrip("=")
            answers = await send_file(uri, samples, ssl=context, subprotocols=["beamwright", f"beamwright.bearer.{token}"])
            check(answers[-1]["text"] == right["text"], f"{answers[-1]}")

        asyncio.run(ask())
    print("TLS, tokens and roles hold")


def main():
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        make_bundle(scratch / "models/tones/1")
        samples = tones([3, 17, 8, 12])
        write_wave(scratch / "four.wav", samples)
        with server("--model-repository", scratch / "models", "--websocket-address", "127.0.0.1:0",
                    "--drain-timeout", "60s") as (grpc, _, process):
            port = int(process.websocket)
            uri = f"ws://127.0.0.1:{port}/"
            [right] = recognized(grpc, scratch / "four.wav")
            check(right["text"] == "t3 t17 t8 t12", f"{right}")
            own_program(port, scratch / "four.wav", right)
            asyncio.run(examples(uri, samples, right))
            asyncio.run(nonsense(uri, port, process, as_floats(samples)))
            asyncio.run(crowd(uri, process, samples, right))
            asyncio.run(drain(uri, process, samples, right))
        secured(scratch, scratch / "models", samples, right)


if __name__ == "__main__":
    main()
