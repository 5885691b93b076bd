#!/usr/bin/env python3
"""Decoders among the models in the wild, served: is each answer the one that the package itself gives?

Usage: served.py [--programs build/bin] [--out build/wild] [--table FILE]

Packages of models.json that bring an encoder and a decoder that is stepped token by token. Their files go through
`beamwright-graph init`, are served, and asked with a beam of 1; the package's own loop, run on ONNX Runtime, says what is
expected.

* g2p-id-py: Keras' sequence-to-sequence example, tokens and sources one-hot. The package pads sources to 24 letters, as its
  model was trained without a mask: requests do the same.
* arabic-name-romanizer: names of Arabic and of Persian letters. Its mask is true where there is no letter, which `init`
  finds out, and the encoder hands it on to the decoder.
"""

import importlib
import json
import random
import sys
import types
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
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
    repository.mkdir(parents=True)
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


def ask_g2p(programs, out, work):
    """How many words, and what was wrong."""
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
    return len(words), wrong


def ask_romanizer(programs, out, work, script):
    """The same of one of the two models; `script`: its folder, empty or "persian"."""
    wanted = Path("arabic_name_romanizer") / "resources" / script / "encoder.onnx"
    model = next(m for m in json.loads((HERE / "models.json").read_text()) if m["path"] == wanted.as_posix())
    folder = out / "arabic-name-romanizer"
    zipfile.ZipFile(download(model, out / "packages")).extractall(folder)
    if digest(folder / model["path"]) != model["sha256"]:
        sys.exit("served.py: arabic-name-romanizer has another checksum than models.json says")
    sys.path.insert(0, str(folder))
    inference = importlib.import_module("arabic_name_romanizer.inference")
    files = (folder / wanted).parent
    vocab = inference.CharVocab(json.loads((files / "vocab.json").read_text(encoding="utf-8"))["tokens"])
    backend = inference.OnnxBackend(files, inference.load_meta(files), 1)
    name = f"romanizer-{script or 'arabic'}"
    done = run(
        programs / "beamwright-graph", "init", files / "encoder.onnx", files / "decoder.onnx", "--out",
        work / "repository" / name / "1", "--name", name, "--begin", str(vocab.bos_id), "--end", str(vocab.eos_id),
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"served.py: init: {done.stderr}")
    rng, wrong = random.Random(20261128), []
    letters = [token for token in vocab.tokens if len(token) == 1 and "\u0621" <= token <= "\u06cc"]
    names = ["".join(rng.choices(letters, k=rng.randint(2, 12))) for _ in range(MADE_UP)]
    # As the package: padding is never chosen, and no answer is empty.
    options = {"beam_size": 1, "max_length": 32, "min_length": 1, "suppress_tokens": {"ids": {"ids": [vocab.pad_id]}}}
    with serving(programs, work / "repository", work) as address:
        for letters in names:
            ids = inference.encode_source_ids(vocab, letters, None)
            hypotheses, error = ask(address, name, {"source": {"ids": {"ids": ids}}, "options": options})
            if error:
                sys.exit(f"served.py: {letters}: {error}")
            got = vocab.decode(token for token in hypotheses[0]["tokens"] if token != vocab.eos_id).strip()
            want = inference.beam_search(backend, [ids], vocab, 1, 32)[0][0][0]
            if got != want:
                wrong.append(f"{letters}: {got} instead of {want}")
    return len(names), wrong


def main():
    programs, out, work, table = start_serving(__doc__, "served")
    lines, wrong = [], []
    for package, what, asked in (
        ("g2p-id-py 0.4.2", "words", lambda: ask_g2p(programs, out, work / "g2p")),
        ("arabic-name-romanizer 0.2.0", "names", lambda: ask_romanizer(programs, out, work / "arabic", "")),
        ("arabic-name-romanizer 0.2.0, Persian", "names", lambda: ask_romanizer(programs, out, work / "persian", "persian")),
    ):
        count, bad = asked()
        lines.append(f"{package}: {count - len(bad)} of {count} {what} as the package itself writes them.  ")
        print(lines[-1], flush=True)
        wrong += bad
    if table:
        write_section(table, "tests/wild/served.py", lines)
    if wrong:
        sys.exit("served.py: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
