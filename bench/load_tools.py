#!/usr/bin/env python3
"""What measuring costs, and whether load generators agree.

Usage: load_tools.py BIN STOCK_TOOLS [--rounds N] [--seconds N] [--only cost|agreement]. BIN has beamwright, beamwright-server, beamwright-bench-echo and
beamwright-bench-calls, STOCK_TOOLS has ghz and perf_analyzer (tests/stock_clients/install_tools.sh). Sides take turns;
medians are printed as tables (docs/load-testing.md, 'Accuracy').
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SECONDS = 4


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def run_for_cpu(*command):
    """What it printed, and the seconds of CPU that it took."""
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command} ended with {status}")
    return output, usage.ru_utime + usage.ru_stime


@contextlib.contextmanager
def echo(folder, *arguments):
    process = subprocess.Popen([folder / "beamwright-bench-echo", "--port", "0", *map(str, arguments)],
                               stdout=subprocess.PIPE, text=True)
    try:
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def real_server(folder):
    with tempfile.TemporaryDirectory() as scratch:
        ports = pathlib.Path(scratch) / "ports"
        process = subprocess.Popen(
            [folder / "beamwright-server", "--model-path", ROOT / "models/g2p-en", "--grpc-address", "127.0.0.1:0",
             "--http-address", "none", "--metrics-address", "none", "--admin-address", "none", "--ports-file", ports],
            stderr=subprocess.DEVNULL)
        try:
            while not ports.exists():
                if process.poll() is not None:
                    sys.exit("the server did not start")
                time.sleep(0.05)
            yield f"127.0.0.1:{dict(map(str.split, ports.read_text().splitlines()))['grpc']}"
        finally:
            process.terminate()
            process.wait()


def load_test(folder, address, *arguments):
    return json.loads(run(folder / "beamwright", "load-test", "--server", address, "--duration", f"{SECONDS}s", "--json",
                          *arguments))


def ghz(tools, address, concurrency):
    report = json.loads(run(
        tools / "ghz", "--insecure", "--proto", ROOT / "proto/beamwright/v1/decode.proto", "--import-paths", ROOT / "proto",
        "--call", "beamwright.v1.DecodeService/Decode", "-d", json.dumps({"sources": [{"text": "a"}]}), "-c", concurrency,
        "--connections", min(4, concurrency), "-z", f"{SECONDS}s", "-O", "json", address))
    latency = {item["percentage"]: item["latency"] / 1e6 for item in report["latencyDistribution"]}
    return report["rps"], latency[50], latency[99]


def perf_analyzer(tools, address, concurrency):
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "data.json").write_text(json.dumps({"data": [{"source_text": ["recurrent"]}]}))
        run(tools / "perf_analyzer", "-m", "g2p-en", "-u", address, "-i", "grpc", "--input-data", scratch / "data.json",
            "--shape", "source_text:1", "--concurrency-range", f"{concurrency}:{concurrency}", "--measurement-interval",
            SECONDS * 1000, "--stability-percentage", 999, "--percentile", 99, "-f", scratch / "out.csv")
        lines = (scratch / "out.csv").read_text().splitlines()
        row = dict(zip(lines[0].split(","), lines[1].split(",")))
        return float(row["Inferences/Second"]), float(row["p50 latency"]) / 1000, float(row["p99 latency"]) / 1000


def ours(report):
    return report["calls_per_second"], report["latency_ms"]["p50"], report["latency_ms"]["p99"]


def median(rounds):
    return [statistics.median(values) for values in zip(*rounds)]


def cost(folder, rounds):
    """Rates say what is reached; CPU for a call is the same however busy the machine is."""
    print("| calls in flight | bare gRPC client: calls/s, CPU us a call | `load-test` | share of the rate, of the CPU |\n"
          "|---|---|---|---|")
    for concurrency in (1, 16, 64):
        bare, measured = [], []
        with echo(folder) as address:
            for _ in range(rounds):
                # Both warm up for a second, whose calls count for CPU as those after it.
                whole = SECONDS + 1
                output, cpu = run_for_cpu(
                    folder / "beamwright-bench-calls", "--server", address, "--concurrency", concurrency, "--connections",
                    min(4, concurrency), "--seconds", SECONDS)
                bare.append((float(output), 1e6 * cpu / (float(output) * whole)))
                output, cpu = run_for_cpu(
                    folder / "beamwright", "load-test", "--server", address, "--concurrency", concurrency, "--duration",
                    f"{SECONDS}s", "--json", "a")
                rate = json.loads(output)["calls_per_second"]
                measured.append((rate, 1e6 * cpu / (rate * whole)))
        b, m = median(bare), median(measured)
        print(f"| {concurrency} | {b[0]:.0f}, {b[1]:.1f} | {m[0]:.0f}, {m[1]:.1f} | {100 * m[0] / b[0]:.0f} %, "
              f"{100 * m[1] / b[1]:.0f} % |", flush=True)


def agreement(folder, tools, rounds):
    print("\n| server, calls in flight | tool | calls/s | p50 ms | p99 ms |\n|---|---|---|---|---|")

    def compare(name, sides):
        results = {tool: [] for tool in sides}
        for _ in range(rounds):
            for tool, measure in sides.items():
                results[tool].append(measure())
        for tool, each in results.items():
            rate, p50, p99 = median(each)
            print(f"| {name} | {tool} | {rate:.1f} | {p50:.2f} | {p99:.2f} |", flush=True)

    for concurrency in (1, 8):
        with echo(folder, "--delay-ms", 20) as address:
            compare(f"answers after 20 ms, {concurrency}", {
                "load-test": lambda: ours(load_test(folder, address, "--concurrency", concurrency, "a")),
                "ghz": lambda: ghz(tools, address, concurrency)})
        with real_server(folder) as address:
            compare(f"this server, {concurrency}", {
                "load-test": lambda: ours(load_test(folder, address, "--concurrency", concurrency, "--protocol",
                                                    "infer-grpc", "--model", "g2p-en", "recurrent")),
                "perf_analyzer": lambda: perf_analyzer(tools, address, concurrency)})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--only", choices=("cost", "agreement"))
    arguments = parser.parse_args()
    global SECONDS
    SECONDS = arguments.seconds
    if arguments.only != "agreement":
        cost(arguments.bin, arguments.rounds)
    if arguments.only != "cost":
        agreement(arguments.bin, arguments.tools.resolve(), arguments.rounds)


if __name__ == "__main__":
    main()
