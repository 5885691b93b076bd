"""Many directions in one process (--model-control on-demand): how long first uses take, and whether all calls succeed.

    translation_directions.py SERVER BUNDLE [--directions 50] [--max-model-bytes 680000000]

BUNDLE is what `beamwright-graph init` made of a student. Each direction is a copy of it under other languages, with one
weight in 256 changed, so that no two share memory. First, each direction is used once; then two clients use directions at
random. Prints the latencies of both, refused calls, evictions and the largest resident memory.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request

HEADERS = 65536  # bytes at the beginning of a model file that stay as they are
LETTERS = "abcdefghijklmnopqrst"


def make_copy(bundle, folder, number):
    """The bundle as a model from English to a language that does not exist; its code."""
    code = "q" + LETTERS[number // len(LETTERS)] + LETTERS[number % len(LETTERS)]
    target = folder / f"en{code}" / "1"
    target.mkdir(parents=True)
    for path in bundle.iterdir():
        content = bytearray(path.read_bytes())
        if path.name == "model.bin":
            options = content.find(b"dec-depth: ")  # text among the weights
            for at in range(HEADERS + number, len(content), 256):
                if 2 <= content[at] < 0x7E and abs(at - options) > HEADERS // 8:
                    content[at] ^= 1
        elif path.name == "model.textproto":
            text = content.decode()
            text = re.sub(r'(target_language: )"[^"]*"', rf'\1"{code}"', text)
            text = re.sub(r'(?m)^(name: )"[^"]*"', rf'\1"en{code}"', text)
            text = re.sub(r'(source_language: )"[^"]*"', r'\1"en"', text)
            content = text.encode()
        (target / path.name).write_bytes(content)
    return code


def translate(address, code):
    """Seconds; None for a call that is refused."""
    body = json.dumps({"q": "Good morning! How are you today?", "source": "en", "target": code}).encode()
    request = urllib.request.Request(f"http://{address}/translate", body, {"Content-Type": "application/json"})
    begin = time.monotonic()
    try:
        urllib.request.urlopen(request, timeout=120).read()
    except OSError as error:
        print(f"{code}: {error.read().decode() if hasattr(error, 'read') else error}")
        return None
    return time.monotonic() - begin


def show(what, times):
    good = [seconds for seconds in times if seconds is not None] or [float("nan")]
    print(f"{what}: {len(times)} calls, {times.count(None)} refused; median {statistics.median(good):.3f} s, "
          f"largest {max(good):.3f} s")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("--directions", type=int, default=50)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--max-model-bytes", default="680000000")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        codes = [make_copy(options.bundle, folder / "models", number) for number in range(options.directions)]
        ports = folder / "ports"
        process = subprocess.Popen([
            options.server, "--model-repository", folder / "models", "--model-control", "on-demand",
            "--max-model-bytes", options.max_model_bytes, "--grpc-address", "127.0.0.1:0", "--admin-address", "none",
            "--http-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0", "--ports-file", ports],
            stderr=(folder / "log").open("w"))  # fmt: skip
        try:
            while not ports.exists() and process.poll() is None:
                time.sleep(0.05)
            port_of = dict(map(str.split, ports.read_text().splitlines()))
            http, metrics = (f"127.0.0.1:{port_of[name]}" for name in ("http", "metrics"))
            show("first uses", [translate(http, code) for code in codes])
            chosen = random.Random(1).choices(codes, k=options.calls)
            with concurrent.futures.ThreadPoolExecutor(2) as clients:
                show("mixed", list(clients.map(lambda code: translate(http, code), chosen)))
            text = urllib.request.urlopen(f"http://{metrics}/metrics", timeout=60).read().decode()
            evictions = sum(float(line.split()[-1]) for line in text.splitlines()
                            if line.startswith("beamwright_model_evictions_total"))  # fmt: skip
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            largest = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
            print(f"evictions: {evictions:.0f}; largest resident memory: {largest:.0f} MiB")
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
