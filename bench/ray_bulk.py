#!/usr/bin/env python3
"""Lines a second of Ray at one and two workers, over a server and in process, compared with the C++ client's.

    ./dev ray-test --measure [--lines 20000] [--rounds 3]

A server with the default model and all processors of this machine decodes its test words, over and over, with beam 4: for
`beamwright decode` (batches of 32, 4 calls in flight, its table into a pipe), and for beamwright.ray with 1 and 2 workers;
and 1 worker with two threads and 2 workers with one decode in process, while the server is idle. Clients, Ray
and server share the processors. A round takes each once, in changing order. Ray starts its workers for
each run; its time is found by runs of a quarter of the lines: lines a second are those of the other
three quarters. Prints medians over rounds, as a table, and the hours that 100 million lines would take at each rate.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import ray

import beamwright
import beamwright.ray

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODEL = ROOT / "models" / "g2p-en"
BEAM = 4


def cpp(programs, server, file, count):
    begin = time.perf_counter()
    done = subprocess.run([programs / "beamwright", "decode", "--server", server.address, "--file", file,
                           "--beam-size", str(BEAM)], check=True, stdout=subprocess.PIPE)
    assert done.stdout.count(b"rank  ") == count
    return time.perf_counter() - begin


def by_ray(workers, threads=0):
    """threads: of the engine of each worker; without, workers call the server."""
    def run(_programs, server, file, count):
        begin = time.perf_counter()
        lines = ray.data.read_text(str(file)).repartition(4 * workers)
        # Ray counts processors, of which some must be left for what makes the dataset.
        where = {"path": MODEL, "engine": {"threads": threads}, "num_cpus": 0.5} if threads else {"address": server.address}
        answers = beamwright.ray.decode(lines, **where, workers=workers, beam_size=BEAM)
        assert sum(len(batch["decoded"]) for batch in answers.iter_batches(batch_size=None)) == count
        return time.perf_counter() - begin
    return run


CLIENTS = {
    "beamwright decode (C++)": cpp,
    "beamwright.ray, 1 worker": by_ray(1),
    "beamwright.ray, 2 workers": by_ray(2),
    "in process, 1 worker of 2 threads": by_ray(1, threads=2),
    "in process, 2 workers of 1 thread": by_ray(2, threads=1),
}


def main():
    parser = argparse.ArgumentParser(description="Lines a second over Ray, compared with the C++ client's.")
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    words = (MODEL / "words-test.txt").read_text(encoding="utf-8").split("\n")[:-1]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, address="local")
    ray.data.DataContext.get_current().enable_progress_bars = False
    rates = {name: [] for name in CLIENTS}
    starts = {name: [] for name in CLIENTS}
    with tempfile.TemporaryDirectory() as folder, beamwright.serve(MODEL) as server:
        files = {}
        for count in (arguments.lines // 4, arguments.lines):
            files[count] = pathlib.Path(folder) / f"{count}.txt"
            files[count].write_text("".join(words[i % len(words)] + "\n" for i in range(count)), encoding="utf-8")
        for number in range(arguments.rounds):
            first = number % len(CLIENTS)
            order = list(CLIENTS)[first:] + list(CLIENTS)[:first]
            for name in order:
                (few, short), (many, whole) = ((count, CLIENTS[name](arguments.programs, server, file, count))
                                               for count, file in files.items())
                rate = (many - few) / (whole - short)
                rates[name].append(rate)
                starts[name].append(short - few / rate)
                print(f"round {number + 1}: {name}: {rate:.0f} lines/s", flush=True)
    print(f"\nload {os.getloadavg()[0]:.0f} at the end\n\n| client | lines/s | to start | 100 million lines |\n|---|---|---|---|")
    for name in CLIENTS:
        rate = statistics.median(rates[name])
        print(f"| {name} | {rate:.0f} | {statistics.median(starts[name]):.1f} s | {1e8 / rate / 3600:.0f} h |")


if __name__ == "__main__":
    main()
