#!/usr/bin/env python3
"""Clients of the WebSocket listener that do harm, and one that does none: the encoder reads chunk by chunk. Whatever
they do, the one is answered as if it were alone, and at the end the server's counts are those of the clients.

Usage: sherpa_harm.py BIN MODEL TOOLS. BEAMWRIGHT_CHAOS=long, as `./dev soak` sets it: an hour of noise, thousands of clients.
"""

import asyncio
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

from served import check, server
from sherpa_online import as_floats, becomes, connect, metrics, recognized, refused, send_file

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/frames"))
from served_tones import RATE, tones, unpacked, write_wave  # noqa: E402

LONG = os.environ.get("BEAMWRIGHT_CHAOS") == "long"
CLIENTS = 3000 if LONG else 60      # of those that do harm
CONNECTS = 10_000 if LONG else 1000
NOISE_MINUTES = 60 if LONG else 1
AT_ONCE = 50


def make_bundle(folder):
    exported = unpacked("frames/exports/icefall_lstm")
    subprocess.run([pathlib.Path(sys.argv[1]) / "beamwright-graph", "init", exported / "encoder-chunk.onnx",
                    exported / "decoder.onnx", exported / "joiner.onnx", "--tokens", exported / "tokens.txt", "--out",
                    folder], check=True, capture_output=True)


def texts_of(answers):
    """Of each segment; the last may be repeated when the source ends."""
    return list({answer["segment"]: answer["text"].strip() for answer in answers if answer["is_final"]}.values())


class Harm:
    def __init__(self, uri, process, samples, right):
        self.uri, self.process, self.samples, self.right = uri, process, samples, right
        self.sound = as_floats(samples)
        self.ends = {"OK": 0, "INVALID_ARGUMENT": 0}  # that the server must have counted
        self.cancelled = 0

    async def good(self):
        """A stream like any other, whose answer is known."""
        answers = await send_file(self.uri, self.samples)
        check(texts_of(answers) == self.right, f"with the others: {texts_of(answers)} instead of {self.right}")
        self.ends["OK"] += 1

    async def killed(self, draw):
        """Goes without a word in the middle of a source."""
        socket = await connect(self.uri)
        await socket.send(self.sound[:4 * draw.randrange(1, len(self.samples))])
        socket.transport.abort()
        self.cancelled += 1

    async def half_a_sample(self, draw):
        await refused(self.uri, [self.sound[:4 * draw.randrange(400) + draw.randrange(1, 4)]], 1007, "not whole samples")
        self.ends["INVALID_ARGUMENT"] += 1

    async def slow_sender(self, draw):
        """Sends crumbs, with pauses."""
        async with connect(self.uri) as socket:
            begin = 0
            while begin < len(self.sound):
                end = begin + 4 * draw.randrange(1, 4000)
                await socket.send(self.sound[begin:end])
                await asyncio.sleep(draw.random() / 50)
                begin = end
            await socket.send("Done")
            answers = [json.loads(message) async for message in until_done(socket)]
        check(texts_of(answers) == self.right, f"sent slowly: {texts_of(answers)}")
        self.ends["OK"] += 1

    async def slow_reader(self, draw):
        """Reads nothing until all is sent, into a buffer of a few messages."""
        async with connect(self.uri, max_queue=1) as socket:
            for begin in range(0, len(self.sound), 800):
                await socket.send(self.sound[begin:begin + 800])
            await socket.send("Done")
            await asyncio.sleep(draw.random())
            answers = [json.loads(message) async for message in until_done(socket)]
        check(texts_of(answers) == self.right, f"read slowly: {texts_of(answers)}")
        self.ends["OK"] += 1

    async def connects(self):
        """As many as can be, none of which says anything."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one():
            async with gate:
                socket = await connect(self.uri)
                socket.transport.abort()

        begin = time.monotonic()
        await asyncio.gather(*(one() for _ in range(CONNECTS)))
        print(f"{CONNECTS} connects, {CONNECTS / (time.monotonic() - begin):.0f} a second")

    async def noise(self, draw):
        """Long noise, as fast as it is taken; segments end by rules meanwhile."""
        async with connect(self.uri, max_size=None) as socket:
            async def read():
                return [json.loads(message) async for message in until_done(socket)]

            reading = asyncio.create_task(read())
            second = [struct.pack(f"<{RATE}f", *(draw.uniform(-0.3, 0.3) for _ in range(RATE))) for _ in range(7)]
            for number in range(60 * NOISE_MINUTES):
                await socket.send(second[number * number % 7])
            await socket.send("Done")
            answers = await reading
        segments = [answer["segment"] for answer in answers if answer["is_final"]]
        check(segments == sorted(segments) and answers[-1]["is_eof"], f"segments {segments[-5:]}")
        longest = max(len(answer["tokens"]) for answer in answers)
        check(longest <= 2000, f"a segment of {longest} tokens is longer than 20 seconds")
        self.ends["OK"] += 1
        print(f"{NOISE_MINUTES} minutes of noise, {len(segments)} segments")

    async def run(self):
        draw = random.Random(26)
        kinds = [self.killed, self.half_a_sample, self.slow_sender, self.slow_reader]
        gate = asyncio.Semaphore(AT_ONCE)
        done = asyncio.Event()
        good = 0

        async def one(number):
            async with gate:
                await kinds[number % len(kinds)](draw)

        async def others():
            nonlocal good
            while not done.is_set():
                await self.good()
                good += 1

        watching = asyncio.create_task(others())
        harm = asyncio.gather(self.noise(draw), self.connects(), *(one(number) for number in range(CLIENTS)))
        await asyncio.wait([harm, watching], return_when=asyncio.FIRST_COMPLETED)
        done.set()
        await watching
        await harm
        print(f"{CLIENTS} clients that do harm, {good} others that do not")

    def counted(self):
        found = metrics(self.process, "beamwright_requests_total")
        return {code: sum(count for labels, count in found.items()
                          if f'code="{code}"' in labels and 'protocol="websocket"' in labels)
                for code in (*self.ends, "CANCELLED")}


async def until_done(socket):
    async for message in socket:
        if message == "Done!":
            return
        yield message


def main():
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        make_bundle(scratch / "tones")
        samples = tones([3, 17, 8, 12, 5, 1])
        write_wave(scratch / "six.wav", samples)
        with server("--model-path", scratch / "tones", "--websocket-address", "127.0.0.1:0",
                    "--drain-timeout", "60s") as (grpc, _, process):
            right = [segment["text"] for segment in recognized(grpc, scratch / "six.wav")]
            check(len(right) == 1 and len(right[0]) > 3, f"heard: {right}")
            harm = Harm(f"ws://127.0.0.1:{process.websocket}/", process, samples, right)
            asyncio.run(harm.run())
            becomes(lambda: sum(metrics(process, "beamwright_requests_running").values()) == 0, "sources are left")
            becomes(lambda: sum(metrics(process, "beamwright_websocket_connections ").values()) == 0, "connections are left")
            # A call that fails is counted when the engine has let go of it, which its client does not wait for.
            becomes(lambda: harm.ends.items() <= harm.counted().items(), f"{harm.counted()} instead of {harm.ends}")
            counted = harm.counted()
            # A client that goes before its first sound was read has begun nothing.
            check(counted["CANCELLED"] <= harm.cancelled, f"{counted} are cancelled of {harm.cancelled}")
            print(f"counted: {counted}")


if __name__ == "__main__":
    main()
