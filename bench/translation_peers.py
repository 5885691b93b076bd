"""A translation model of Firefox's form and the programs that run such models: CPU time a core, in turns.

    translation_peers.py GRAPH BUNDLE MODEL.bin VOCABULARY SHORTLIST SENTENCES

GRAPH is the program beamwright-graph, BUNDLE what its `init` made of the other files. The peers are measured where this
Python has them: bergamot 0.4.5 (wheels for Python 3.10 alone) and fxtranslate 0.5.0, with 8 bits and the shortlist, or, where
MODEL ends in .npz, as OPUS-MT's do, pymarian 1.12.42 in f32; then SHORTLIST may be -. All have one thread and beam size 1. Tokens are those of each one's own answers, by the vocabulary, with </s>. Prints a table: medians over rounds.
"""

import argparse
import importlib.machinery
import importlib.util
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import sentencepiece

BERGAMOT = """
models: [{model}]
vocabs: [{vocabulary}, {vocabulary}]
shortlist: [{shortlist}, true]
beam-size: 1
normalize: 1.0
word-penalty: 0
max-length-break: 128
mini-batch-words: 1024
workspace: 128
max-length-factor: 2.0
skip-cost: true
cpu-threads: 0
quiet: true
quiet-translation: true
gemm-precision: int8shiftAlphaAll
ssplit-mode: sentence
"""


def bergamot_module():
    """The extension of the wheel; its package imports what a measurement does not need."""
    for folder in sys.path:
        for path in pathlib.Path(folder, "bergamot").glob("_bergamot*.so"):
            spec = importlib.util.spec_from_file_location("_bergamot", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None


def bergamot(options):
    module = bergamot_module()
    if module is None:
        return {}
    service = module.Service(module.ServiceConfig(numWorkers=1, logLevel="off"))
    model = service.modelFromConfig(BERGAMOT.format(model=options.model, vocabulary=options.vocabulary,
                                                    shortlist=options.shortlist))
    plain = module.ResponseOptions(qualityScores=False, alignment=False, HTML=False)

    def run(lines):
        return [answer.target.text for answer in service.translate(model, module.VectorString(lines), plain)]

    return {"bergamot, one at a time": lambda lines: [run([line])[0] for line in lines],
            "bergamot, all at once": run}


def fxtranslate(options):
    if importlib.util.find_spec("fxtranslate") is None:
        return {}
    import fxtranslate as module
    vocabulary = pathlib.Path(options.vocabulary).read_bytes()
    translator = module.Translator(pathlib.Path(options.model).read_bytes(), vocabulary, vocabulary,
                                   pathlib.Path(options.shortlist).read_bytes())
    return {"fxtranslate, one at a time": lambda lines: [translator.translate(line) for line in lines]}


def pymarian(options):
    if importlib.util.find_spec("pymarian") is None:
        return {}
    import pymarian as module

    def translator(batch):
        shortlist = "" if options.shortlist == "-" else f" --shortlist {options.shortlist}"
        return module.Translator(
            f"--models {options.model} --vocabs {options.vocabulary} {options.vocabulary} --beam-size 1 --normalize 1 "
            f"--max-length-factor 2 --cpu-threads 1 --mini-batch {batch} --maxi-batch 10 --maxi-batch-sort src --workspace 512 "
            f"--quiet --quiet-translation{shortlist}")

    alone, together = translator(1), translator(24)
    return {"pymarian, one at a time": lambda lines: [alone.translate(line) for line in lines],
            "pymarian, 24 in a batch": lambda lines: together.translate("\n".join(lines)).split("\n")}


def beamwright(options):
    """CPU milliseconds a sentence and tokens a core second, by number of sentences in flight."""
    done = subprocess.run([options.graph, "cost", options.bundle, "--sources", options.sentences, "--concurrency", "1,32",
                           "--beam-size", "1", "--seconds", str(options.seconds)], check=True, capture_output=True, text=True)
    rows = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE)
    return {f"Beamwright, {flight} in flight": (float(ms), float(tokens)) for flight, _, tokens, ms in rows}


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("graph", "bundle", "model", "vocabulary", "shortlist", "sentences"):
        parser.add_argument(name)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of each of Beamwright's measurements")
    parser.add_argument("--copies", type=int, default=1,
                        help="of each sentence, one after the other: a batch of copies has the shortlist of each, so that "
                             "bergamot's batches answer as it does one at a time")
    options = parser.parse_args()
    lines = [line for line in pathlib.Path(options.sentences).read_text().splitlines() for _ in range(options.copies)]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as sentences:
        sentences.write("".join(line + "\n" for line in lines))
        sentences.flush()
        options.sentences = sentences.name
        measure(options, lines)


def measure(options, lines):
    tokens = sentencepiece.SentencePieceProcessor(model_file=options.vocabulary)
    peers = pymarian(options) if options.model.endswith(".npz") else bergamot(options) | fxtranslate(options)
    found = {}
    for _ in range(options.rounds):
        for name, result in beamwright(options).items():
            found.setdefault(name, []).append(result)
        for name, run in peers.items():
            run(lines[:2])
            begin = time.process_time()
            answers = run(lines)
            seconds = time.process_time() - begin
            count = sum(len(ids) + 1 for ids in tokens.encode(answers))
            found.setdefault(name, []).append((1000 * seconds / len(lines), count / seconds))
    print("| | CPU ms a sentence | output tokens a core second |\n|---|---|---|")
    for name, results in found.items():
        print(f"| {name} | {statistics.median(ms for ms, _ in results):.2f} | "
              f"{statistics.median(rate for _, rate in results):.0f} |")


if __name__ == "__main__":
    main()
