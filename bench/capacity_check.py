#!/usr/bin/env python3
"""Holds `beamwright capacity` against a server: latencies as it simulates them, and as they are.

    sudo bench/capacity_check.py [--programs build/bin] [--rates 75,125,175,210,300,400,460]

The default model, beam size 4, one thread. Closed loops of 3 seconds with 1 to 32 calls in flight are the points that the
simulation is given; then open loops of 10 seconds (Poisson arrivals) are measured and simulated at the rate that came about. Server and
load tester run with real-time priority (SCHED_RR), so that what else the machine does takes no time from them: a
simulation of the queue knows of nothing else. Prints the points and a table.
"""

import argparse
import csv
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODEL = ROOT / "models/g2p-en"
ALONE = ["chrt", "--rr", "1"]


def load(programs, address, *arguments):
    """The load tester's only line of figures, by column."""
    done = subprocess.run([*ALONE, programs / "beamwright", "load-test", "--server", address, "--file",
                           MODEL / "words-test.txt", "--beam-size", "4", "--csv", *arguments], check=True,
                          capture_output=True, text=True)
    [line] = csv.DictReader(done.stdout.splitlines())
    return {name: float(value) for name, value in line.items() if value.replace(".", "", 1).isdigit()}


def simulate(programs, points, rate):
    """p50 and p99 in ms of one replica."""
    command = [programs / "beamwright", "capacity", "--threads", "1", "--beam-size", "4", "--rate", f"{rate:.1f}", "--within", "60s",
               "--spare", "0", *(part for in_flight, per_second in points for part in ("--point", f"{in_flight}:{per_second:.1f}"))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    [line] = (line.split() for line in done.stdout.splitlines() if line.startswith("all "))
    return float(line[-3]), float(line[-2])


def measure(programs, address, rates):
    points = [(calls, load(programs, address, "--warmup", "500ms", "--duration", "3s", "--concurrency", str(calls))["calls_per_second"])
              for calls in (1, 2, 4, 8, 16, 32)]
    print("points:", ", ".join(f"{calls}: {rate:.0f}" for calls, rate in points), flush=True)
    print("\n| calls a second | p50 simulated | p50 measured | p99 simulated | p99 measured |\n|---|---|---|---|---|")
    for rate in rates:
        found = load(programs, address, "--warmup", "1s", "--duration", "10s", "--rate", str(rate))
        p50, p99 = simulate(programs, points, found["calls_per_second"])
        print(f"| {found['calls_per_second']:.0f} | {p50:.1f} ms | {found['p50_ms']:.1f} ms | {p99:.1f} ms | {found['p99_ms']:.1f} ms |",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description="Latencies as `beamwright capacity` simulates them, and as they are.")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/bin")
    parser.add_argument("--rates", default="75,125,175,210,300,400,460")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ports = pathlib.Path(folder) / "ports"
        server = subprocess.Popen([*ALONE, arguments.programs / "beamwright-server", "--model-path", MODEL, "--threads", "1",
                                   "--grpc-address", "127.0.0.1:0", "--http-address", "none", "--metrics-address", "none",
                                   "--admin-address", "none", "--ports-file", ports], stderr=subprocess.DEVNULL)
        try:
            while not ports.exists():
                assert server.poll() is None, "the server does not start"
                time.sleep(0.05)
            measure(arguments.programs, f"127.0.0.1:{dict(map(str.split, ports.read_text().splitlines()))['grpc']}", map(float, arguments.rates.split(",")))
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
