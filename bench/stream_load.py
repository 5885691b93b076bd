"""Streams of sound over WebSocket, as clients of sherpa-onnx's online server send them: to that server and to ours.

    stream_load.py ADDRESS SOUNDS flood --streams N --sources N     # sound is sent as fast as it is taken
    stream_load.py ADDRESS SOUNDS live --streams N --seconds N      # as it is spoken, a piece of 100 ms at a time
    stream_load.py ADDRESS SOUNDS crowd --streams N                 # N streams begin at once, a source each, as spoken

ADDRESS may have a query; SOUNDS is a file of stream_models.py. Prints JSON. Every source has a separate connection. The
final result is the first message that says is_eof, counted from when the last sample was due; a source is lost if its
connection ends without one, unless the server gave the reason. Runs in the environment of bench/streams_requirements.txt.
"""

import argparse
import asyncio
import collections
import json
import time

import numpy as np
import websockets

RATE = 16000
PIECE = RATE // 10
PATIENCE = 60  # seconds for an answer, behind the last sample


class Load:
    def __init__(self, address: str, sounds: list[np.ndarray]) -> None:
        self.address = f"ws://{address}"
        self.sounds = sounds
        self.pieces = [[sound[at:at + PIECE].tobytes() for at in range(0, len(sound), PIECE)] for sound in sounds]
        self.final: list[float] = []    # seconds from the last sample to the final result
        self.refused: list[float] = []  # from the connection's begin to the refusal
        self.lag: list[float] = []      # by how much a piece was sent too late
        self.ends: collections.Counter[str] = collections.Counter()
        self.texts: dict[int, str] = {}
        self.sound = 0.0                # seconds that were answered
        self.messages = 0

    async def _listen(self, socket: websockets.ClientConnection, number: int) -> float:
        """When the final result came."""
        segments: dict[int, str] = {}  # the last may be repeated when the source ends
        async for message in socket:
            self.messages += 1
            if "is_final\":true" in (compact := message.replace(" ", "")):
                answer = json.loads(message)
                segments[answer["segment"]] = answer["text"].strip()
                if "is_eof\":true" in compact:
                    self.texts[number] = " ".join(segments.values())
                    return time.monotonic()
            elif message.startswith('{"error"'):
                self.ends[f"{json.loads(message)['error']['status']}"] += 1
                await socket.wait_closed()
                raise ConnectionRefusedError
        raise ConnectionResetError

    async def source(self, number: int, begin: float | None) -> bool:
        """Speaks a source from `begin` on, or as fast as it is taken. Whether it was answered."""
        number %= len(self.sounds)
        asked = time.monotonic()
        try:
            async with websockets.connect(self.address, compression=None, ping_interval=None, max_queue=None,
                                          open_timeout=PATIENCE, close_timeout=5) as socket:
                listening = asyncio.create_task(self._listen(socket, number))
                end = await self._speak(socket, self.pieces[number], begin)
                came = await asyncio.wait_for(listening, PATIENCE)
        except ConnectionRefusedError:
            self.refused.append(time.monotonic() - asked)
            return False
        except websockets.InvalidStatus as error:
            self.ends[f"HTTP {error.response.status_code}"] += 1
            self.refused.append(time.monotonic() - asked)
            return False
        except (OSError, TimeoutError, websockets.ConnectionClosed) as error:
            self.ends[f"lost: {type(error).__name__}"] += 1
            return False
        self.ends["answered"] += 1
        self.final.append(came - end)
        self.sound += len(self.sounds[number]) / RATE
        return True

    async def _speak(self, socket: websockets.ClientConnection, pieces: list[bytes], begin: float | None) -> float:
        """When the last sample was due."""
        due = time.monotonic()
        try:
            for number, piece in enumerate(pieces):
                if begin is not None:
                    due = begin + (number + 1) * PIECE / RATE
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                    self.lag.append(time.monotonic() - due)
                await socket.send(piece)
            due = time.monotonic() if begin is None else due
            await socket.send("Done")
        except websockets.ConnectionClosed:
            pass  # the receiving task reports why
        return due

    async def flood(self, streams: int, sources: int) -> None:
        left = iter(range(sources))

        async def one() -> None:
            for number in left:
                await self.source(number, None)

        await asyncio.gather(*(one() for _ in range(streams)))

    async def live(self, streams: int, seconds: float) -> None:
        start = time.monotonic() + 0.5

        async def one(number: int) -> None:
            begin = start + 4 * ((number * 0.618) % 1)  # so that they end apart
            while begin < start + seconds:
                await asyncio.sleep(begin - time.monotonic())
                await self.source(number, begin)
                number += streams
                begin = max(begin + len(self.sounds[0]) / RATE + 0.05, time.monotonic())

        await asyncio.gather(*(one(number) for number in range(streams)))

    async def crowd(self, streams: int) -> None:
        begin = time.monotonic() + 0.1
        await asyncio.gather(*(self.source(number, begin) for number in range(streams)))


def percentiles(seconds: list[float]) -> dict[str, float]:
    return {f"p{p}": round(1e3 * float(np.percentile(seconds, p)), 2) for p in (50, 90, 99, 100)} if seconds else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("sounds")
    parser.add_argument("kind", choices=("flood", "live", "crowd"))
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--sources", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--texts", action="store_true", help="print the recognised texts, too")
    args = parser.parse_args()
    load = Load(args.address, [sound for _, sound in sorted(np.load(args.sounds).items())])
    begin, cpu = time.monotonic(), time.process_time()
    asyncio.run({"flood": lambda: load.flood(args.streams, args.sources),
                 "live": lambda: load.live(args.streams, args.seconds),
                 "crowd": lambda: load.crowd(args.streams)}[args.kind]())
    took = time.monotonic() - begin
    report = {"seconds": took, "cpu_share": (time.process_time() - cpu) / took, "sound_seconds": load.sound,
              "ends": load.ends, "messages": load.messages, "final_ms": percentiles(load.final),
              "refused_ms": percentiles(load.refused), "lag_ms": percentiles(load.lag)}
    if args.texts:
        report["texts"] = [load.texts.get(number, "") for number in range(len(load.sounds))]
    print(json.dumps(report))


if __name__ == "__main__":
    main()
