"""A translation model of Firefox's form and the programs that run such models: CPU time a core, and wall time, in turns.

    translation_peers.py BENCH BUNDLE MODEL.bin VOCABULARY SHORTLIST SENTENCES

BENCH is the program beamwright-bench, BUNDLE what `beamwright-graph init` made of the other files. The peers are measured where this
Python has them: bergamot 0.4.5 (wheels for Python 3.10 alone) and fxtranslate 0.5.0, with 8 bits and the shortlist, or, where
MODEL ends in .npz, as OPUS-MT's do, pymarian 1.12.42 in f32; then SHORTLIST may be -. All have beam size 1 and --threads threads, fxtranslate one. Tokens are those of each one's own
answers, by the vocabulary, with </s>. Prints a table: medians over rounds.
"""

import argparse
import importlib.machinery
import importlib.util
import json
import pathlib
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
    service = module.Service(module.ServiceConfig(numWorkers=options.threads, logLevel="off"))
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
            f"--max-length-factor 2 --cpu-threads {options.threads} --mini-batch {batch} --maxi-batch 10 --maxi-batch-sort src --workspace 512 "
            f"--quiet --quiet-translation{shortlist}")

    alone, together = translator(1), translator(24)
    return {"pymarian, one at a time": lambda lines: [alone.translate(line) for line in lines],
            "pymarian, 24 in a batch": lambda lines: together.translate("\n".join(lines)).split("\n")}


def beamwright(options):
    """{name: (sentences, tokens, CPU seconds, wall seconds)}, by number of sentences in flight."""
    done = subprocess.run([options.bench, "decode", "--model", options.bundle, "--sources", options.sentences, "--concurrency", "1",
                           "32", "--beam", "1", "--threads", str(options.threads), "--seconds", str(options.seconds), "--json"],
                          check=True, capture_output=True, text=True)
    return {f"Beamwright, {case['concurrency']} in flight":
            tuple(case[key] for key in ("sentences", "tokens", "cpu_seconds", "seconds")) for case in json.loads(done.stdout)}


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("bench", "bundle", "model", "vocabulary", "shortlist", "sentences"):
        parser.add_argument(name)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of each of Beamwright's measurements")
    parser.add_argument("--threads", type=int, default=1)
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
            begin, began = time.process_time(), time.monotonic()
            answers = run(lines)
            seconds, wall = time.process_time() - begin, time.monotonic() - began
            found.setdefault(name, []).append((len(lines), sum(len(ids) + 1 for ids in tokens.encode(answers)), seconds, wall))
    print("| | CPU ms a sentence | output tokens a core second | output tokens a second |\n|---|---|---|---|")
    for name, results in found.items():
        print(f"| {name} | {statistics.median(1000 * cpu / sentences for sentences, _, cpu, _ in results):.2f} | "
              f"{statistics.median(count / cpu for _, count, cpu, _ in results):.0f} | "
              f"{statistics.median(count / wall for _, count, _, wall in results):.0f} |")


if __name__ == "__main__":
    main()
