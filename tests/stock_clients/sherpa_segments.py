#!/usr/bin/env python3
"""Segments over the WebSocket listener, of an encoder that reads chunk by chunk: where speakers pause a segment ends, is reported
while they go on, with the times at which its words were said, and the next one begins. With sherpa-onnx's own client, and with
what its Python examples send.

Usage: sherpa_segments.py BIN MODEL TOOLS
"""

import asyncio
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from served import check, server
from sherpa_online import SHERPA, as_floats, connect, recognized, send_file  # and the way to the next
from served_tones import RATE, make_chunks_bundle, tones, write_wave

FRAME = 0.04  # seconds
# A tone is heard when most of what a frame reads is it, 60 ms and one frame before; onsets have soft edges.
EARLY, LATE = 0.05, 0.13


def quiet(seconds):
    return [0] * int(RATE * seconds)


class Speech:
    """Groups of tones with pauses between them: samples, the number of each group's first, and when each tone begins."""

    def __init__(self, groups, pause, lead=0.0):
        self.groups, self.samples, self.begins, self.onsets = groups, quiet(lead), [], []
        for number, group in enumerate(groups):
            self.samples += quiet(pause) if number else []
            self.begins.append(len(self.samples))
            begin = len(self.samples) / RATE + 0.1  # seconds; tones() has quiet around them
            self.onsets.append([begin + 0.15 * i for i in range(len(group))])
            self.samples += tones(group)

    def texts(self):
        return [" ".join(f"t{label}" for label in group) for group in self.groups]


def finals(answers):
    """Of each segment its last message: the only one that is final."""
    found = [answer for answer in answers if answer["is_final"]]
    numbers = [answer["segment"] for answer in found]
    check(len(numbers) == len(set(numbers)), f"segments that are final: {numbers}")
    return found


def check_segments(what, answers, speech, pause):
    ended = finals(answers)
    check([answer["text"] for answer in ended] == speech.texts(), f"{what}: {[answer['text'] for answer in ended]}")
    check([answer["segment"] for answer in ended] == list(range(len(ended))), f"{what}: {[a['segment'] for a in ended]}")
    check(ended[0]["start_time"] == 0, f"{what}: the first segment begins at {ended[0]['start_time']}")
    for number, (answer, onsets) in enumerate(zip(ended, speech.onsets)):
        times = [answer["start_time"] + at for at in answer["timestamps"]]
        check(all(onset - EARLY <= at <= onset + LATE for at, onset in zip(times, onsets)) and len(times) == len(onsets),
              f"{what}: segment {number} was heard at {times}, said at {onsets}")
        if number + 1 < len(ended):
            end = ended[number + 1]["start_time"]
            check(pause <= end - times[-1] <= pause + 3 * FRAME, f"{what}: a pause of {end - times[-1]:.2f} s ended it")
    check([answer["is_eof"] for answer in answers] == [False] * (len(answers) - 1) + [True], f"{what}: the end of the source")


def check_growth(what, answers):
    """Meanwhile: what is stable grows, begins every later answer of its segment, and nothing is said of one that has ended."""
    stable, segment = "", 0
    for answer in answers:
        if answer["segment"] != segment:
            check(answer["segment"] == segment + 1 and last["is_final"], f"{what}: {answer} behind {last}")
            stable, segment = "", answer["segment"]
        check(answer["text"].startswith(stable) and answer["stable"].startswith(stable), f"{what}: {answer} takes back '{stable}'")
        check(answer["is_final"] or answer["start_time"] >= 0, f"{what}: {answer}")
        stable, last = answer["stable"], answer


async def told_while_they_speak(uri, speech):
    """The end of a segment is sent before anything of the next; then another source on the same connection."""
    async with connect(uri) as socket:
        for source in range(2):
            answers = []
            for begin, end in zip([0, *speech.begins[1:]], [*speech.begins[1:], len(speech.samples)]):
                await socket.send(as_floats(speech.samples[begin:end]))
                is_last = end == len(speech.samples)
                if is_last:
                    await socket.send("Done")
                while (message := await socket.recv()) != "Done!":
                    answers.append(json.loads(message))
                    if answers[-1]["is_final"] and not is_last:
                        break
            what = f"source {source} of a connection"
            check_segments(what, answers, speech, 1.2)
            check_growth(what, answers)
    print(f"while they speak: {[answer['text'] for answer in finals(answers)]}")


async def pieces(uri, speech):
    """The cut of the messages changes nothing."""
    async with connect(uri) as socket:
        reported = []
        for size in (RATE // 100, RATE * 7 // 10, len(speech.samples)):
            for begin in range(0, len(speech.samples), size):
                await socket.send(as_floats(speech.samples[begin:begin + size]))
            await socket.send("Done")
            answers = []
            while (message := await socket.recv()) != "Done!":
                answers.append(json.loads(message))
            reported.append([dict(answer, is_eof=True) for answer in finals(answers)])
        check(reported[0] == reported[1] == reported[2], f"{reported}")
    print("the pieces change nothing")


async def rules(uri):
    speech = Speech([[3, 17], [8, 12]], pause=0.8)
    answers = await send_file(uri + '?endpoint={"pause_ms":400}', speech.samples)
    check_segments("pause_ms 400", answers, speech, 0.4)
    answers = await send_file(uri + "?endpoint=none", speech.samples)
    check([answer["text"] for answer in finals(answers)] == ["t3 t17 t8 t12"], f"without rules: {answers[-1]}")
    answers = await send_file(uri, speech.samples)  # 1.2 s, as in Kaldi
    check([answer["text"] for answer in finals(answers)] == ["t3 t17 t8 t12"], f"with Kaldi's rules: {answers[-1]}")
    answers = await send_file(uri + '?endpoint={"max_segment_ms":400}', speech.samples)
    ended = finals(answers)
    # A tone that a cut goes through is heard once.
    heard = [token for answer in ended for token in answer["text"].split()]
    check(len(ended) >= 3 and heard == ["t3", "t17", "t8", "t12"], f"of at most 400 ms: {[a['text'] for a in ended]}")
    starts = [answer["start_time"] for answer in ended]
    check(all(abs(later - sooner - 0.4) < 1e-9 for sooner, later in zip(starts, starts[1:])), f"they begin at {starts}")
    # Silence alone ends a segment too, of which nothing was heard; words behind it have their times.
    late = Speech([[5, 9]], pause=0, lead=3.0)
    ended = finals(await send_file(uri, late.samples))
    check([answer["text"] for answer in ended] == ["", "t5 t9"], f"behind silence: {[answer['text'] for answer in ended]}")
    check(abs(ended[1]["start_time"] - 2.4) <= FRAME, f"it begins at {ended[1]['start_time']}")
    heard = ended[1]["start_time"] + ended[1]["timestamps"][0]
    check(late.onsets[0][0] - EARLY <= heard <= late.onsets[0][0] + LATE, f"heard at {heard}, said at {late.onsets}")
    print("rules end segments where they should")


def own_client(port, grpc, speech, scratch):
    write_wave(scratch / "talk.wav", speech.samples)
    segments = recognized(grpc, scratch / "talk.wav", "tones_chunks", ["--segments"])
    check([segment["text"] for segment in segments] == speech.texts(), f"the command line hears {segments}")
    done = subprocess.run([SHERPA, "--server-ip=127.0.0.1", f"--server-port={port}", "--samples-per-message=1600",
                           "--seconds-per-message=0.01", scratch / "talk.wav"], capture_output=True, text=True, timeout=120)
    answers = [json.loads(found) for found in re.findall(r"(\{\"text\".*\})", done.stderr)]
    check(done.returncode == 0 and answers, f"sherpa-onnx's client: {done.stderr}")
    check_segments("sherpa-onnx's own client", answers, speech, 1.2)
    check_growth("sherpa-onnx's own client", answers)
    print(f"sherpa-onnx's own client: {[answer['text'] for answer in finals(answers)]}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        make_chunks_bundle(scratch / "tones_chunks")
        speech = Speech([[3, 17, 8], [12, 5], [9]], pause=1.7)
        with server("--model-path", scratch / "tones_chunks", "--websocket-address", "127.0.0.1:0") as (grpc, _, process):
            port = int(process.websocket)
            uri = f"ws://127.0.0.1:{port}/"
            own_client(port, grpc, speech, scratch)
            asyncio.run(told_while_they_speak(uri, speech))
            asyncio.run(pieces(uri, speech))
            asyncio.run(rules(uri))


if __name__ == "__main__":
    main()
