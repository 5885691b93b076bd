"""Coordinated omission: a server that stalls for two seconds, measured by a closed loop (ghz) and by load-test --rate.
Both are right about what they ask; only one asks what users see."""

import json
import pathlib
import subprocess
import sys

import served
import tool

STALL_MS = 2000


def echo():
    process = subprocess.Popen(
        [pathlib.Path(sys.argv[1]) / "beamwright-bench-echo", "--port", "0", "--delay-ms", "5", "--stall-at-ms", "1500",
         "--stall-ms", str(STALL_MS)], stdout=subprocess.PIPE, text=True)
    return process, f"127.0.0.1:{process.stdout.readline().strip()}"


def main():
    tool.path("ghz")
    seconds, rate = 6, 50
    process, address = echo()
    try:
        report = json.loads(tool.run(
            "ghz", "--insecure", "--proto", pathlib.Path(__file__).parents[2] / "proto/beamwright/v1/decode.proto",
            "--import-paths", pathlib.Path(__file__).parents[2] / "proto", "--call",
            "beamwright.v1.DecodeService/Decode", "-d", json.dumps({"sources": [{"text": "a"}]}),
            "-c", 2, "-z", f"{seconds}s", "-O", "json", address))
        closed = {item["percentage"]: item["latency"] / 1e6 for item in report["latencyDistribution"]}
    finally:
        process.terminate()
        process.wait()
    process, address = echo()
    try:
        done = subprocess.run(
            [pathlib.Path(sys.argv[1]) / "beamwright", "load-test", "--server", address, "--rate", str(rate), "--arrivals",
             "even", "--duration", f"{seconds}s", "--warmup", "0", "--json", "a"], capture_output=True, text=True, check=True)
        run = json.loads(done.stdout)
    finally:
        process.terminate()
        process.wait()
    # A third of the six seconds is the stall: users who came in it waited a second on average.
    served.check(run["answered_calls"] >= seconds * rate - 1, run["answered_calls"])
    served.check(run["latency_ms"]["p90"] > STALL_MS / 2, f"load-test: p90 {run['latency_ms']['p90']} ms")
    # The closed loop had two calls in flight, so only two of its calls met the stall.
    served.check(closed[90] < STALL_MS / 4, f"ghz: p90 {closed[90]} ms")
    print(f"p90 of a server that stalls: closed loop {closed[90]:.0f} ms, users {run['latency_ms']['p90']:.0f} ms")


if __name__ == "__main__":
    main()
