"""Recurrent language models of real shapes, with random weights: tokens a second and those of ONNX Runtime and llama.cpp.

    recurrent.py [--models FOLDER] [--rounds 3] [--seconds 2] [--only rwkv7] [--threads 1] [--clock cpu]

Makes the models (recurrent_models.py and peers/llama_cpp.py; 2.8 GB, once), then takes turns: Beamwright's greedy search
with 1, 8 and 32 requests and prompts of 1,000 tokens in f32, bf16 and int8, in int8 also greedy search under a pattern
and beam 4 with 8 requests; ONNX Runtime over the same file with 1, 8 and 32 rows in a batch (f32); llama.cpp with 1, 8
and 32 sequences in a batch and the same prompt, in f32 and Q8_0 (with bench/recurrent_requirements.txt). NumPy's
argmax picks the peers' next tokens. Prints medians of all rounds, ratios of the same round, and what share of the
memory's bandwidth the weights and states of one request's steps take. `--clock cpu`: a second is one of CPU time, for one
thread on a machine that others use. Needs build/bin/beamwright-bench, beamwright-bench-ops and the packages of
bench/requirements.txt.
"""

import argparse
import collections
import math
import pathlib
import statistics
import tempfile

import numpy as np
import onnxruntime
import recurrent_models
from harness import machine, measure, ours

try:
    from peers import llama_cpp
except ImportError as missing:
    llama_cpp = None
    print(f"Without llama.cpp: {missing}.\n")

REQUESTS = (1, 8, 32)
LENGTH = 32
PROMPT = 1000
PRECISIONS = ("f32", "bf16", "int8")
WEIGHT_BYTES = {"f32": 4, "bf16": 2, "int8": 1}
OURS = {precision: f"Beamwright {precision}" for precision in PRECISIONS}
BEAM = f"{OURS['int8']}, beam 4"
ONNX_RUNTIME = f"ONNX Runtime {onnxruntime.__version__} f32"
LLAMA = {precision: f"llama.cpp ({llama_cpp.VERSION}) {kind}" for precision, kind in (("f32", "f32"), ("int8", "Q8_0")) if llama_cpp}
# Equal bits a weight.
PAIRS = [(OURS["f32"], ONNX_RUNTIME), *((OURS[precision], label) for precision, label in LLAMA.items())]
# Bars about half of the tokens, which are written as their numbers, in each state.
PATTERN = "regex: '( ?[1-4][0-9]*)+'"


def decode(folder, threads, *flags, options=""):
    """Tokens a second of each case."""
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
        file.write(options)
        file.flush()
        cases = ours.decode(folder, "--options", file.name, "--threads", threads, "--fixed-length", *flags)
    return [case["tokens"] / case["cpu_seconds" if measure.clock == "cpu" else "seconds"] for case in cases]


def beamwright(folder, precision, beam, requests, seconds, threads, options=""):
    return decode(folder, threads, "--random", "32:1", "--precision", precision, "--beam", beam, "--concurrency",
                  ",".join(map(str, requests)), "--max-length", LENGTH, "--seconds", seconds, options=options)


def prompt_ids(name):
    return np.random.default_rng(1).integers(2, recurrent_models.SIZES[name].vocabulary, PROMPT).tolist()


def prompts(folder, name, precision, seconds, threads):
    """Tokens a second of one request that reads a prompt and writes one token."""
    return decode(folder, threads, "--random", "1:1", "--precision", precision, "--beam", 1, "--max-length", 1,
                  "--seconds", seconds, options=f"target_prefix {{ ids {{ ids: {prompt_ids(name)} }} }}")[0]


def weights(folder, name):
    """Elements that a step reads: all but the rows of other tokens in the table of embeddings."""
    size = recurrent_models.SIZES[name]
    elements = sum(path.stat().st_size for path in folder.glob("step.*")) // 4
    return elements - size.vocabulary * size.width * (name == "rwkv7")  # Mamba-2's table is the output layer's, too


def states(session):
    """Elements of the states of a row."""
    return sum(math.prod(port.shape[1:]) for port in session.get_inputs()[1:])


def open_runtime(folder, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(str(folder / "step.onnx"), options, providers=["CPUExecutionProvider"])


def runtime(session, seconds):
    """ONNX Runtime's steps with all requests in one batch; the outputs of a step are the inputs of the next, without copies."""
    found = []
    for rows in REQUESTS:
        states = {port.name: onnxruntime.OrtValue.ortvalue_from_numpy(
            np.zeros([rows, *port.shape[1:]], np.float32)) for port in session.get_inputs()[1:]}
        tokens = np.zeros(rows, np.int64)
        names = ["logits", *(f"{name}_next" for name in states)]
        steps, start = -2, 0.0  # two to warm up
        while steps <= 0 or measure.now() - start < seconds:
            if steps == 0:
                start = measure.now()
            feed = {"token": onnxruntime.OrtValue.ortvalue_from_numpy(tokens), **states}
            logits, *following = session.run_with_ort_values(names, feed)
            tokens = logits.numpy().argmax(-1)
            states = dict(zip(states, following, strict=True))
            steps += 1
        found.append(rows * steps / (measure.now() - start))
    return found


def llama(folder, name, kind, seconds, threads):
    """Greedy tokens a second for each of REQUESTS, and those of a prompt."""
    path = folder / f"step-{kind}.gguf"
    llama_cpp.write(path, name, recurrent_models.SIZES[name], kind)
    model = llama_cpp.Model(path, recurrent_models.SIZES[name].vocabulary, threads)
    greedy = [model.greedy(requests, LENGTH, seconds) for requests in REQUESTS]
    prompt = model.prompt(prompt_ids(name), seconds)
    model.close()
    return greedy, prompt


def table(title, names, lines):
    """Lines: label to cells, one a name."""
    print(f"\n| {title} |", " | ".join(names), "|\n|---|" + "---|" * len(names))
    for label, cells in lines.items():
        print(f"| {label} |", " | ".join(cells), "|")


def medians(rounds, form):
    """One figure for each place of the rounds' lists."""
    return " / ".join(form(statistics.median(figures)) for figures in zip(*rounds, strict=True))


def ratios(ours_, theirs):
    return [[a / b for a, b in zip(*pair, strict=True)] for pair in zip(ours_, theirs, strict=True)]


def measure_round(folder, name, options, greedy, read):
    recurrent_models.write(folder, name, recurrent_models.SIZES[name])
    seconds, threads = options.seconds, options.threads
    session = open_runtime(folder, threads)
    for precision in PRECISIONS:
        greedy[name, OURS[precision]].append(beamwright(folder, precision, 1, REQUESTS, seconds, threads))
        read[name, OURS[precision]].append([prompts(folder, name, precision, seconds, threads)])
        if precision == "f32":
            greedy[name, ONNX_RUNTIME].append(runtime(session, seconds))
        if llama_cpp and precision in LLAMA:
            steps, prompt = llama(folder, name, LLAMA[precision].split()[-1], seconds, threads)
            greedy[name, LLAMA[precision]].append(steps)
            read[name, LLAMA[precision]].append([prompt])
    greedy[name, "Beamwright int8, with a pattern"].append(
        beamwright(folder, "int8", 1, REQUESTS, seconds, threads, PATTERN))
    greedy[name, BEAM].append(beamwright(folder, "int8", 4, (8,), seconds, threads))
    return weights(folder, name), states(session)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=pathlib.Path, default=ours.ROOT / "build/recurrent-models")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", choices=recurrent_models.SIZES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    options = parser.parse_args()
    measure.clock = options.clock
    names = [options.only] if options.only else list(recurrent_models.SIZES)
    greedy, read, elements = collections.defaultdict(list), collections.defaultdict(list), {}
    limits = []
    neighbours = machine.Neighbours()
    for _ in range(options.rounds):
        for name in names:
            limits.append(ours.per_second("MachineRead", options.threads, 0.5))
            elements[name] = measure_round(options.models / name, name, options, greedy, read)
    clock = "CPU second" if options.clock == "cpu" else "second"
    print(f"{machine.cpu()}, threads: {options.threads}, medians of {options.rounds} rounds. {neighbours.sentence()}")
    whole = "{:.0f}".format
    labels = list(dict.fromkeys(label for _, label in greedy))
    table(f"greedy tokens a {clock} with 1 / 8 / 32 requests", names, {label: [
        medians(greedy[name, label], whole) if label != BEAM else f"- / {medians(greedy[name, label], whole)} / -"
        for name in names] for label in labels})
    table(f"tokens a {clock} of a prompt of {PROMPT}", names, {
        label: [medians(read[name, label], whole) for name in names]
        for label in dict.fromkeys(label for _, label in read)})
    lines = {f"{a}, against {b}": [medians(ratios(greedy[name, a], greedy[name, b]), "{:.2f}".format) for name in names]
             for a, b in PAIRS if b in labels}
    lines |= {f"prompt, {a}, against {b}": [medians(ratios(read[name, a], read[name, b]), "{:.2f}".format) for name in names]
              for a, b in PAIRS if (names[0], b) in read}
    lines["rows of beam 4 with 8 requests, against greedy with 32"] = [
        f"{statistics.median(4 * beam[0] / wide[2] for beam, wide in zip(greedy[name, BEAM], greedy[name, OURS['int8']], strict=True)):.2f}"
        for name in names]
    table("times, of the same round", names, lines)
    limit = statistics.median(limits)
    lines = {}
    for precision in PRECISIONS:
        cells = []
        for name in names:
            step = elements[name][0] * WEIGHT_BYTES[precision] + 2 * 4 * elements[name][1]
            cells.append(f"{statistics.median(round_[0] for round_ in greedy[name, OURS[precision]]) * step / limit:.0%}")
        lines[OURS[precision]] = cells
    table(f"memory read and written at one request, of {limit / 1e9:.1f} GB/s", names, lines)


if __name__ == "__main__":
    main()
