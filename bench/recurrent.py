"""Recurrent language models of real shapes, with random weights: tokens a second and those of ONNX Runtime, in turns.

    recurrent.py [--models FOLDER] [--rounds 3] [--seconds 2] [--only rwkv7]

Makes the models (recurrent_models.py; 1.3 GB, once), then takes turns: Beamwright's greedy search with 1, 8 and 32
requests and prompts of 1,000 tokens in f32, bf16 and int8, in int8 also greedy search under a pattern and beam 4 with 8
requests, and ONNX Runtime over the same file with 1, 8 and 32 rows in a batch (f32; NumPy's argmax picks each next token).
One thread each. Prints tables of medians, and what share of the memory's bandwidth the weights of one request's steps
take. Needs build/bin/beamwright-bench, beamwright-bench-ops and the packages of bench/requirements.txt.
"""

import argparse
import collections
import pathlib
import statistics
import tempfile
import time

import numpy as np
import onnxruntime
import recurrent_models
from harness import machine, ours

REQUESTS = (1, 8, 32)
LENGTH = 32
PROMPT = 1000
PRECISIONS = ("f32", "bf16", "int8")
WEIGHT_BYTES = {"f32": 4, "bf16": 2, "int8": 1}
# Bars about half of the tokens, which are written as their numbers, in each state.
PATTERN = "regex: '( ?[1-4][0-9]*)+'"


def beamwright(folder, precision, beam, requests, seconds, options=""):
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
        file.write(options)
        file.flush()
        cases = ours.decode(folder, "--random", "32:1", "--precision", precision, "--beam", beam, "--concurrency",
                            ",".join(map(str, requests)), "--options", file.name,
                            "--max-length", LENGTH, "--fixed-length", "--seconds", seconds)
    return [case["tokens_per_second"] for case in cases]


def prompts(folder, name, precision, seconds):
    """Tokens a second of one request that reads a prompt and writes one token."""
    ids = np.random.default_rng(1).integers(2, recurrent_models.SIZES[name].vocabulary, PROMPT)
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as options:
        options.write(f"target_prefix {{ ids {{ ids: {ids.tolist()} }} }}")
        options.flush()
        cases = ours.decode(folder, "--random", "1:1", "--precision", precision, "--beam", 1, "--options", options.name,
                            "--max-length", 1, "--fixed-length", "--seconds", seconds)
    return cases[0]["tokens_per_second"]


def weights(folder, name):
    """Elements that a step reads: all but the rows of other tokens in the table of embeddings."""
    size = recurrent_models.SIZES[name]
    elements = sum(path.stat().st_size for path in folder.glob("step.*")) // 4
    return elements - size.vocabulary * size.width


def runtime(folder, seconds):
    """ONNX Runtime's steps with all requests in one batch; the outputs of a step are the inputs of the next, without copies."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "step.onnx"), options, providers=["CPUExecutionProvider"])
    found = []
    for rows in REQUESTS:
        states = {port.name: onnxruntime.OrtValue.ortvalue_from_numpy(
            np.zeros([rows, *port.shape[1:]], np.float32)) for port in session.get_inputs()[1:]}
        tokens = np.zeros(rows, np.int64)
        names = ["logits", *(f"{name}_next" for name in states)]
        steps, start = -2, 0.0  # two to warm up
        while steps <= 0 or time.perf_counter() - start < seconds:
            if steps == 0:
                start = time.perf_counter()
            feed = {"token": onnxruntime.OrtValue.ortvalue_from_numpy(tokens), **states}
            logits, *following = session.run_with_ort_values(names, feed)
            tokens = logits.numpy().argmax(-1)
            states = dict(zip(states, following, strict=True))
            steps += 1
        found.append(rows * steps / (time.perf_counter() - start))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=pathlib.Path, default=ours.ROOT / "build/recurrent-models")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", choices=recurrent_models.SIZES)
    options = parser.parse_args()
    names = [options.only] if options.only else list(recurrent_models.SIZES)
    found = collections.defaultdict(list)
    read = collections.defaultdict(list)
    limits = []
    for _ in range(options.rounds):
        limits.append(ours.per_second("MachineRead", 1, 0.5))
        for name in names:
            folder = options.models / name
            recurrent_models.write(folder, name, recurrent_models.SIZES[name])
            for precision in PRECISIONS:
                found[name, f"Beamwright, {precision}"].append(beamwright(folder, precision, 1, REQUESTS, options.seconds))
                read[precision, name].append(prompts(folder, name, precision, options.seconds))
                if precision == "f32":
                    found[name, f"ONNX Runtime {onnxruntime.__version__}, f32"].append(runtime(folder, options.seconds))
            found[name, "Beamwright, int8, with a pattern"].append(
                beamwright(folder, "int8", 1, REQUESTS, options.seconds, PATTERN))
            found[name, "Beamwright, int8, beam 4"].append(beamwright(folder, "int8", 4, (8,), options.seconds))
    print(f"{machine.cpu()}, one thread, medians of {options.rounds} rounds.\n")
    print("| greedy tokens/s with 1 / 8 / 32 requests |", " | ".join(names), "|\n|---|" + "---|" * len(names))
    for label in dict.fromkeys(label for _, label in found):
        cells = []
        for name in names:
            figures = [f"{statistics.median(round_):.0f}" for round_ in zip(*found[name, label], strict=True)]
            cells.append(" / ".join(figures) if len(figures) == len(REQUESTS) else f"- / {figures[0]} / -")
        print(f"| {label} |", " | ".join(cells), "|")
    print(f"\n| tokens/s of a prompt of {PROMPT} |", " | ".join(names), "|\n|---|" + "---|" * len(names))
    for precision in PRECISIONS:
        cells = [f"{statistics.median(read[precision, name]):.0f}" for name in names]
        print(f"| Beamwright, {precision} |", " | ".join(cells), "|")
    print("\n| weights read, of what memory allows, 1 request |", " | ".join(names), "|\n|---|" + "---|" * len(names))
    limit = statistics.median(limits)
    for precision in PRECISIONS:
        cells = []
        for name in names:
            rate = statistics.median(round_[0] for round_ in found[name, f"Beamwright, {precision}"])
            bytes_read = rate * weights(options.models / name, name) * WEIGHT_BYTES[precision]
            cells.append(f"{bytes_read / limit:.0%}")
        print(f"| {precision}, limit {limit / 1e9:.1f} GB/s |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
