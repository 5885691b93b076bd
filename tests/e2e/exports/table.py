#!/usr/bin/env python3
"""Serves exports and holds every answer against the search over the framework's own step.

Usage: table.py FOLDER... [--programs build/bin] [--work build/exports-served] [--table FILE --mark NAME]

FOLDER has a folder for each model: answers.jsonl, refused.json (what exporters refused) and a folder for each exporter with
encoder and decoder, as export.py and keras_export.py write them. Each export goes through `beamwright-graph init`, all
bundles are served by one server, and asked over HTTP. Prints a line for each export; --table writes the table between the
marks of that NAME in FILE. Exit code 1 if an answer differs.
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

EXPORTERS = ("torchscript", "dynamo", "keras", "tf2onnx", "openvino", "optimum", "optimised", "quantised")
# What cannot load, and why that is the file's fault.
NO_PROJECTION = "the exporter leaves the projection's weights out of the file, which ONNX Runtime refuses as well"
KNOWN = {"projected_lstm_dynamo": NO_PROJECTION, "projected_lstm_optimised": NO_PROJECTION}
TOLERANCE = 1e-4
# In 8 bits a last bit may decide which neighbour an activation is rounded to.
TOLERANCE_QUANTISED = 2e-2
STARTS = 120  # seconds that the server may take


class Served:
    """One export: what became of it."""

    def __init__(self, model, exporter):
        self.model, self.exporter = model, exporter
        self.loads = self.batched = False
        self.asked = self.equal = 0
        self.why = []

    name = property(lambda self: f"{self.model}_{self.exporter}")

    def cell(self, notes):
        if not self.loads:
            return f"refused{notes.number(self.why)}"
        text = f"{self.equal} of {self.asked}"
        return text if not self.why else f"{text}{notes.number(self.why)}"


class Notes:
    """Reasons, each with a number."""

    def __init__(self):
        self.texts = []

    def number(self, why):
        marks = []
        for text in why:
            if text not in self.texts:
                self.texts.append(text)
            marks.append(str(self.texts.index(text) + 1))
        return f" ({', '.join(marks)})"


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def graph_file(folder, side):
    return next((folder / f"{side}{suffix}" for suffix in (".xml", ".onnx") if (folder / f"{side}{suffix}").exists()), None)


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].removeprefix("beamwright-graph: ") if lines else "no message"


def make_bundle(programs, folder, served, repository):
    """`init`, as a newcomer runs it; flags.json has what only the one who trained knows."""
    flags = folder / "flags.json"
    out = repository / served.name / "1"
    shutil.rmtree(out.parent, ignore_errors=True)
    done = run(
        programs / "beamwright-graph", "init",
        *(file for side in ("encoder", "decoder") if (file := graph_file(folder, side)) is not None), "--out", out, "--name", served.name, "--begin", 0, "--end", 1,
        *(json.loads(flags.read_text()) if flags.exists() else []),
    )  # fmt: skip
    served.loads = done.returncode == 0
    if not served.loads:
        shutil.rmtree(out.parent, ignore_errors=True)
        why = last_line(done.stderr).replace(f"'{out}' is removed, for a server refuses it: ", "")
        why = why.replace(f"{folder}/", "").replace(f"bundle '{out}': ", "")
        served.why.append(f"{KNOWN[served.name]}: {why}" if served.name in KNOWN else why)
        return
    # As the server found it on the bundle itself: `init` loads it and says so.
    served.batched = "found   steps rows of several requests together" in done.stdout
    for what in ("steps rows", "encodes sources"):
        if (why := reason(done.stdout, f"found   {what} one at a time, because ")) is not None:
            served.why.append(f"{what.split()[1]} one at a time: {why}")


def reason(text, start):
    return next((line.split(start, 1)[1] for line in text.splitlines() if start in line), None)


@contextlib.contextmanager
def serving(programs, repository, work):
    ports = work / "ports"
    ports.unlink(missing_ok=True)
    with (work / "log").open("w") as log:
        process = subprocess.Popen(
            [programs / "beamwright-server", "--model-repository", repository, "--grpc-address", "127.0.0.1:0",
             "--http-address", "127.0.0.1:0", "--ports-file", ports, "--metrics-address", "none", "--admin-address",
             "none"], stdout=log, stderr=subprocess.STDOUT)  # fmt: skip
    try:
        deadline = time.monotonic() + STARTS
        while not ports.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((work / "log").read_text())
            time.sleep(0.05)
        yield f"http://127.0.0.1:{dict(map(str.split, ports.read_text().splitlines()))['http']}"
    finally:
        process.terminate()
        process.wait(60)


def ask(address, name, question):
    body = json.dumps({"sources": [question["source"]], "options": question["options"]}).encode()
    try:
        with urllib.request.urlopen(f"{address}/v1/models/{name}:decode", body, timeout=300) as reply:
            result = json.load(reply)["results"][0]
    except urllib.error.HTTPError as error:
        return None, error.read().decode()[:300]
    return (result["decoded"]["hypotheses"], "") if "decoded" in result else (None, json.dumps(result)[:300])


def difference(got, want, tolerance):
    """What differs; empty: nothing."""
    if got is None or len(got) != len(want):
        return "another number of hypotheses"
    for mine, theirs in zip(got, want):
        if mine.get("tokens", []) != theirs["tokens"] or mine.get("finish_reason") != theirs["finish_reason"]:
            return f"tokens {mine.get('tokens')} instead of {theirs['tokens']}"
        if abs(mine.get("log_prob", 0) - theirs["log_prob"]) > tolerance:
            return f"log-probability {mine.get('logProb', 0):.6f} instead of {theirs['log_prob']:.6f}"
    return ""


def hold(address, folder, served):
    own = folder / "answers.jsonl"
    answers = own if own.exists() else folder.parent / "answers.jsonl"
    tolerance = TOLERANCE_QUANTISED if own.exists() else TOLERANCE
    questions = [json.loads(line) for line in answers.read_text().splitlines()]
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda question: ask(address, served.name, question), questions))
    served.asked = len(questions)
    differs = set()
    for (got, error), question in zip(replies, questions):
        what = error or difference(got, question["hypotheses"], tolerance)
        served.equal += not what
        differs.add(what)
    differs.discard("")
    if differs:
        served.why.insert(0, "answers differ: " + min(differs))


def collect(folders, programs, work):
    repository = work / "repository"
    shutil.rmtree(work, ignore_errors=True)
    repository.mkdir(parents=True)
    exports = []
    for model in sorted(path for folder in folders for path in folder.iterdir() if (path / "answers.jsonl").exists()):
        refused = model / "refused.json"
        for exporter, why in (json.loads(refused.read_text()) if refused.exists() else {}).items():
            export = Served(model.name, exporter)
            export.why.append(why)
            exports.append((None, export))
        for folder in sorted(path for path in model.iterdir() if graph_file(path, "decoder")):
            export = Served(model.name, folder.name)
            make_bundle(programs, folder, export, repository)
            exports.append((folder, export))
    if any(export.loads for _, export in exports):
        with serving(programs, repository, work) as address:
            for folder, export in exports:
                if export.loads:
                    hold(address, folder, export)
    return [(folder is None, export) for folder, export in exports]


def table_lines(exports):
    """The table, with the reasons below it."""
    notes = Notes()
    cells = {(export.model, export.exporter): (refused, export) for refused, export in exports}
    columns = [exporter for exporter in EXPORTERS if any(name == exporter for _, name in cells)]
    taken = [export for refused, export in exports if not refused]
    loaded = [export for export in taken if export.loads]
    equal = [export for export in loaded if export.equal == export.asked]
    together = [export for export in loaded if export.batched]
    yield (f"{len(taken)} exports of {len({export.model for export in taken})} models; {len(loaded)} load, {len(equal)} "
           f"answer as the framework's own step does, {len(together)} run rows together.")
    yield ""
    yield "| model | " + " | ".join(columns) + " |"
    yield "| --- " * (len(columns) + 1) + "|"
    for model in sorted({model for model, _ in cells}):
        row = []
        for column in columns:
            refused, export = cells.get((model, column), (False, None))
            if export is None:
                row.append("")
            elif refused:
                row.append(f"–{notes.number(export.why)}")
            else:
                row.append(export.cell(notes))
        yield f"| {model} | " + " | ".join(row) + " |"
    yield ""
    for number, text in enumerate(notes.texts, 1):
        yield f"{number}. {text.replace('|', '/')}"


def write_section(path, script, lines):
    """Lines between the marks that a page has for a script."""
    begin, end = f"<!-- written by {script} -->", "<!-- end -->"
    before, rest = path.read_text().split(begin, 1)
    path.write_text(before + "\n".join([begin, *lines, end]) + rest.split(end, 1)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/exports-served"))
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--mark", default="pytorch")
    arguments = parser.parse_args()
    exports = collect(arguments.folders, arguments.programs.absolute(), arguments.work.absolute())
    for refused, export in exports:
        state = "not exported" if refused else "loads" if export.loads else "refused"
        print(f"{export.name}: {state}, {export.equal} of {export.asked} equal, "
              f"{'rows together' if export.batched else 'not together'}; {'; '.join(export.why)}")
    if arguments.table:
        write_section(arguments.table, f"tests/e2e/exports/table.py: {arguments.mark}", table_lines(exports))
    wrong = [export.name for _, export in exports if export.loads and export.equal < export.asked]
    if wrong:
        sys.exit(f"table.py: answers differ: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
