#!/usr/bin/env python3
"""The dictionaries that PaddleOCR's package carries, served: does every column say the package's own character?

Usage: dictionaries.py [--programs build/bin] [--out build/wild] [--table FILE]

For each dictionary of a reader, a model in the form of PaddleOCR's exports whose pictures say which columns are the
largest; `beamwright-graph init` gets the dictionary as it is in the wheel, and the texts of the answers are compared with the
lines of the file, read as paddleocr/ppocr/postprocess/rec_postprocess.py reads them: the blank before them, and a space
behind them. Dictionaries of other models (tables, layouts, formulas) are left out.
"""

import base64
import hashlib
import pathlib
import random
import sys
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "e2e" / "exports")]
from table import ask, run, serving, write_section  # noqa: E402
from wild import download, start_serving  # noqa: E402

PACKAGE = {"package": "paddleocr", "version": "2.10.0"}
CHECKSUM = "38df818d87a00af854cbfd14e33615edc3c4fa2caeb662149d51e6f2e212013f"
OTHERS = ("table_", "layout", "kie_dict", "latex_")
HEIGHT = 48
ASKED = 4  # of each model


def dictionaries(out):
    """(name, bytes) of each."""
    wheel = download(PACKAGE, out / "packages")
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != CHECKSUM:
        sys.exit(f"dictionaries.py: {wheel.name} has another checksum")
    with zipfile.ZipFile(wheel) as files:
        names = [name for name in files.namelist() if name.startswith("paddleocr/ppocr/utils/") and name.endswith(".txt")]
        for name in names:
            short = name.removeprefix("paddleocr/ppocr/utils/")
            if ("dict" in short or "keys" in short) and not any(other in short for other in OTHERS):
                yield short.replace("/", "-").removesuffix(".txt"), files.read(name)


def write_reader(path, columns):
    """The first row of a picture's first channel has the numbers of the columns."""
    constants = {"zero": np.array(0), "depth": np.array(columns), "values": np.array([0, 20], "f4")}
    nodes = [
        helper.make_node("Gather", ["x", "zero"], ["channel"], axis=1),
        helper.make_node("Gather", ["channel", "zero"], ["row"], axis=1),
        helper.make_node("Cast", ["row"], ["numbers"], to=TensorProto.INT64),
        helper.make_node("OneHot", ["numbers", "depth", "values"], ["scores"], axis=-1),
        helper.make_node("Softmax", ["scores"], ["softmax_0.tmp_0"], axis=2),
    ]
    graph = helper.make_graph(
        nodes, "reader", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, HEIGHT, "w"])],
        [helper.make_tensor_value_info("softmax_0.tmp_0", TensorProto.FLOAT, ["n", "w", columns])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def questions(columns, seed):
    """Columns with a character each: the first, the last, and any."""
    rng = random.Random(seed)
    yield list(range(1, min(columns, 120)))
    yield list(range(max(1, columns - 120), columns))
    for _ in range(ASKED - 2):
        yield [rng.randrange(1, columns) for _ in range(80)]


def source_of(path):
    """A picture of which every other column says the blank."""
    value = np.zeros((3, HEIGHT, 2 * len(path)), "f4")
    value[0, 0, ::2] = path
    return {"features": {"dtype": "f32", "shape": value.shape, "data": base64.b64encode(value.tobytes()).decode()}}


def main():
    programs, out, work, table = start_serving(__doc__, "dictionaries")
    characters, refused, wrong = {}, [], []
    for name, content in dictionaries(out):
        characters[name] = [line.strip("\n").strip("\r\n") for line in content.decode("utf-8").splitlines(keepends=True)]
        characters[name] = ["", *characters[name], " "]
        graph, tokens = work / f"{name}.onnx", work / f"{name}.txt"
        tokens.write_bytes(content)
        write_reader(graph, len(characters[name]))
        done = run(programs / "beamwright-graph", "init", graph, "--tokens", tokens, "--out", work / "repository" / name / "1")
        if done.returncode:
            refused.append(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    with serving(programs, work / "repository", work) as address:
        for name, columns in characters.items():
            if any(line.startswith(f"{name}: ") for line in refused):
                continue
            for path in questions(len(columns), name):
                found, error = ask(address, name, {"source": source_of(path), "options": {"beam_size": 4}})
                text = None if error else found[0].get("text", "")
                expected = "".join(columns[column] for column in path)
                if text != expected:
                    wrong.append(f"{name}: {error or text!r} for {expected!r}")
                    break
    for line in refused + wrong:
        print(line)
    good = len(characters) - len(refused) - len(wrong)
    report = [f"{good} of {len(characters)} dictionaries of readers in paddleocr {PACKAGE['version']}, as they are in the wheel, "
              "say the package's own characters."]  # fmt: skip
    print(report[0])
    if table:
        write_section(table, "tests/wild/dictionaries.py", report)
    sys.exit(0 if good == len(characters) else 1)


if __name__ == "__main__":
    main()
