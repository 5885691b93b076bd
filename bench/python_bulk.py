#!/usr/bin/env python3
"""What Python costs: bulk decoding compared with the C++ client's, and imports.

    PYTHONPATH=client/python/src build/venv-python/bin/python bench/python_bulk.py [--programs build/bin] [--rounds 5]

Starts a server with the default model and decodes its test words by turns with `beamwright decode` (C++, batches of
32, 4 calls in flight; it prints tables, into a pipe) and with `decode_many` of Client and AsyncClient at the same
settings, all with one connection. Client and server share the CPUs. A round takes each once, in changing order;
figures are medians over rounds of words a second and of microseconds of the client's own CPU time a word, and ratios
medians of the rounds' ratios. Prints them as a table.
"""

import argparse
import asyncio
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import beamwright

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODEL = ROOT / "models" / "g2p-en"


def cpp(programs, server, words, file, beam):
    """Seconds of the C++ client."""
    begin = time.perf_counter()
    done = subprocess.run(
        [programs / "beamwright", "decode", "--server", server.address, "--file", file, "--beam-size", str(beam)],
        check=True, stdout=subprocess.PIPE)
    seconds = time.perf_counter() - begin
    assert done.stdout.count(b"rank  ") == len(words)
    return seconds


def python(_programs, server, words, _file, beam):
    """Seconds of Client."""
    with server.client() as client:
        begin = time.perf_counter()
        count = sum(bool(answer.text) for answer in client.decode_many(words, beam_size=beam))
        seconds = time.perf_counter() - begin
    assert count == len(words)
    return seconds


def aio(_programs, server, words, _file, beam):
    """Seconds of AsyncClient."""
    async def run():
        async with server.async_client() as client:
            begin = time.perf_counter()
            count = 0
            async for answer in client.decode_many(words, beam_size=beam):
                count += bool(answer.text)
            return time.perf_counter() - begin, count
    seconds, count = asyncio.run(run())
    assert count == len(words)
    return seconds


def cpu_seconds():
    """Of this process and of children that have ended, without the server."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def bulk(programs, rounds, num_words):
    ways = {"C++ client": cpp, "Python, Client": python, "Python, AsyncClient": aio}
    words = (MODEL / "words-test.txt").read_text(encoding="utf-8").split()[:num_words]
    print("| beam size | | words/s | of the C++ client's | CPU of the client, us/word |\n|---|---|---|---|---|")
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join(words) + "\n")
        file.flush()
        with beamwright.serve(MODEL, program=programs / "beamwright-server") as server:
            for beam in (1, 4):
                rates = {name: [] for name in ways}
                costs = {name: [] for name in ways}
                for number in range(rounds + 1):  # the first one warms up
                    order = list(ways)
                    order = order[number % 3:] + order[:number % 3]
                    for name in order:
                        before = cpu_seconds()
                        rate = len(words) / ways[name](programs, server, words, file.name, beam)
                        if number:
                            rates[name].append(rate)
                            costs[name].append(1e6 * (cpu_seconds() - before) / len(words))
                for name, found in rates.items():
                    shares = [mine / theirs for mine, theirs in zip(found, rates["C++ client"])]
                    print(f"| {beam} | {name} | {statistics.median(found):.0f} | {statistics.median(shares):.2f} "
                          f"| {statistics.median(costs[name]):.0f} |", flush=True)


def imports(runs):
    """Milliseconds of a process beyond those of one that does nothing."""
    cases = {"(nothing)": "pass", "import beamwright": "import beamwright",
             "and beamwright.Client": "import beamwright; beamwright.Client",
             "and a first answer's NumPy array": "import beamwright, numpy; beamwright.Client",
             "grpc alone, to compare": "import grpc", "numpy alone": "import numpy"}
    times = {name: [] for name in cases}
    for _ in range(runs):
        for name, code in cases.items():
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times[name].append(time.perf_counter() - begin)
    base = statistics.median(times.pop("(nothing)"))
    print("\n| | ms |\n|---|---|")
    for name, found in times.items():
        print(f"| {name} | {1000 * (statistics.median(found) - base):.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--words", type=int, default=4000)
    args = parser.parse_args()
    print(f"{os.cpu_count()} CPUs, Python {sys.version.split()[0]}, "
          f"medians of {args.rounds} rounds of {args.words} words\n")
    bulk(args.programs.absolute(), args.rounds, args.words)
    imports(15)


if __name__ == "__main__":
    main()
