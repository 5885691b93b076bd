#!/usr/bin/env python3
"""Decoders among the models in the wild, served: is each answer the one that the package itself gives?

Usage: served.py [--programs build/bin] [--out build/wild] [--table FILE]

g2p-id-py is the one package of models.json that brings an encoder and a decoder that is stepped token by token (Keras'
sequence-to-sequence example, tokens and sources one-hot). Its files go through `beamwright-graph init`, are served, and
asked for words with a beam of 1; the package's own loop, run on ONNX Runtime, says what is expected. The package pads
sources to 24 letters, as its model was trained without a mask: requests do the same.
"""

import importlib
import json
import pathlib
import random
import sys
import types
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "e2e" / "exports")]
from table import ask, run, serving, write_section  # noqa: E402
from wild import digest, download, start_serving  # noqa: E402

WORDS = ("apel bahasa cerdas dengan emas gudang hujan ikan jalan kenyang langit menyanyi nyata olahraga pagi rumah "
         "selamat terbang ular wajah yakin zaman mengejar perpustakaan kemerdekaan berkelanjutan").split()  # fmt: skip
MADE_UP = 40


def package_model(out):
    """The package's own class, without its other parts, which need more packages."""
    model = next(m for m in json.loads((HERE / "models.json").read_text()) if m["package"] == "g2p-id-py")
    folder = out / "g2p-id-py"
    zipfile.ZipFile(download(model, out / "packages")).extractall(folder)
    if digest(folder / model["path"]) != model["sha256"]:
        sys.exit("served.py: g2p-id-py has another checksum than models.json says")
    package = types.ModuleType("g2p_id")
    package.__path__ = [str(folder / "g2p_id")]
    sys.modules["g2p_id"] = package
    return importlib.import_module("g2p_id.lstm").LSTM(), folder / "g2p_id" / "models" / "lstm"


def write_vocabulary(ids, path):
    """One token a line; those that a line can't hold under a name."""
    names = {"\t": "<s>", "\n": "</s>", " ": "<pad>"}
    tokens = sorted(ids, key=ids.get)
    path.write_text("".join(names.get(token, token) + "\n" for token in tokens), encoding="utf-8")


def make_bundle(programs, model, files, repository):
    source, target = repository.parent / "source.vocab", repository.parent / "target.vocab"
    write_vocabulary(model.g2id, source)
    write_vocabulary(model.p2id, target)
    done = run(
        programs / "beamwright-graph", "init", files / "encoder_model.onnx", files / "decoder_model.onnx",
        "--out", repository / "g2p-id" / "1", "--name", "g2p-id", "--source-vocab", source, "--target-vocab", target,
        "--source-begin", "", "--source-end", "", "--begin", "<s>", "--end", "</s>",
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"served.py: init: {done.stderr}")


def question(model, word):
    pad = model.g2id[model.config["pad_token"]]
    ids = [model.g2id[letter] for letter in word]
    ids += [pad] * (model.config["max_encoder_seq_length"] - len(ids))
    options = {"beam_size": 1, "max_length": model.config["max_decoder_seq_length"] + 1}
    return {"source": {"ids": {"ids": ids}}, "options": options}


def all_words(model):
    rng = random.Random(20261124)
    letters = [letter for letter in model.g2id if letter.isalpha()]
    return [*WORDS, *("".join(rng.choices(letters, k=rng.randint(2, 12))) for _ in range(MADE_UP))]


def main():
    programs, out, work, table = start_serving(__doc__, "served")
    model, files = package_model(out)
    make_bundle(programs, model, files, work / "repository")
    words, wrong = all_words(model), []
    with serving(programs, work / "repository", work) as address:
        for word in words:
            hypotheses, error = ask(address, "g2p-id", question(model, word))
            if error:
                sys.exit(f"served.py: {word}: {error}")
            tokens = [model.id2p[token] for token in hypotheses[0]["tokens"]]
            got = "".join(tokens).removesuffix(model.config["eos_token"])
            want = model.predict(word)
            if got != want:
                wrong.append(f"{word}: {got} instead of {want}")
    line = f"g2p-id-py 0.4.2: {len(words) - len(wrong)} of {len(words)} words as the package itself writes them."
    print(line)
    if table:
        write_section(table, "tests/wild/served.py", [line])
    if wrong:
        sys.exit("served.py: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
