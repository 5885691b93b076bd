#!/usr/bin/env python3
"""The best-known models that cannot be had here, by their toolkits' own code and exporters, with random weights: are they served?

Usage: shapes.py [--programs build/bin] [--layers 2] [--only NAME ...] [--table FILE]

Widths, vocabularies, names of inputs and outputs and the operators are those of the real thing; only the number of
layers is cut to --layers. Each file goes through `beamwright-graph init`, is served, and is asked over HTTP for sources
of several lengths; expected is the best path of ONNX Runtime's scores, or each position's largest column. Packages:
requirements.txt in this folder.
"""

import argparse
import base64
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import types
import warnings
import zlib

import numpy as np
import onnxruntime
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent.parent / "e2e" / "exports")]
from table import ask, run, serving, write_section  # noqa: E402
from texts import best_paths  # noqa: E402

ASKED = 6  # of each model
WAV2VEC_TOKENS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ"]


class Shape:
    """A model as its toolkit builds it, and what it is asked."""

    def __init__(self, name, build, columns, blank, source, dynamo=False, flags=(), inputs=None, outputs=None):
        self.name, self.build, self.columns, self.blank, self.source = name, build, columns, blank, source
        self.dynamo, self.flags, self.inputs, self.outputs = dynamo, flags, inputs, outputs


def transformer(kind, config, layers, **changes):
    """A model of transformers; `kind`: the class, `config`: its configuration, of which the depth is cut."""
    import transformers

    made = getattr(transformers, config)(**changes)
    for field in ("num_hidden_layers", "n_layers", "encoder_layers"):
        if hasattr(made, field):
            setattr(made, field, layers)
    return getattr(transformers, kind)(made).eval()


class Logits(torch.nn.Module):
    """Arguments by name, the logits alone: as optimum exports it."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values):
        return self.model(**dict(zip(self.names, values, strict=True))).logits


def sound(samples):
    return lambda rng: np.array([rng.gauss(0, 1) for _ in range(rng.randint(*samples))], "f4")


def frames(width, counts):
    return lambda rng: np.array([rng.gauss(0, 1) for _ in range(width * rng.randint(*counts))], "f4").reshape(-1, width)


def picture(channels, height, widths):
    def draw(rng):
        wide = rng.randint(*widths) // 4 * 4
        return np.array([rng.gauss(0, 1) for _ in range(channels * height * wide)], "f4").reshape(channels, height, wide)

    return draw


def ids(below, counts=(3, 40)):
    return lambda rng: np.array([rng.randrange(5, below) for _ in range(rng.randint(*counts))], "i8")


def of_transformers(name, kind, config, layers, source, columns, names=("input_values",), **changes):
    is_tagger = "Token" in kind
    return [
        Shape(
            f"{name}{' dynamo' if dynamo else ''}",
            lambda: Logits(transformer(kind, config, layers, **changes), names),
            columns, None if is_tagger else 0, source, dynamo, ("--tags",) if is_tagger else (), list(names), ["logits"],
        )
        for dynamo in (False, True)
    ]  # fmt: skip


class Mean(torch.nn.Module):
    """Over the last axis, which stays."""

    def forward(self, x):
        return x.mean(3, keepdim=True)


def easyocr(columns):
    def build():
        # Without the package's other parts, which need more packages.
        if "easyocr" not in sys.modules:
            package = types.ModuleType("easyocr")
            package.__path__ = list(importlib.util.find_spec("easyocr").submodule_search_locations)
            sys.modules["easyocr"] = package
        kind = importlib.import_module("easyocr.model.vgg_model").Model
        model = kind(1, 256, 256, columns).eval()
        # The exporter knows no pooling to an open extent; those who export the model write a mean.
        model.AdaptiveAvgPool = Mean()
        return model

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = build()

        def forward(self, image):
            return self.model(image, None)

    return Reader


def doctr(name):
    def build():
        from doctr.models import recognition

        return getattr(recognition, name)(pretrained=False, pretrained_backbone=False, exportable=True).eval()

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = build()

        def forward(self, image):
            return self.model(image)["logits"]

    return Reader


def all_shapes(layers):
    speech, labels = sound((6000, 30000)), {"vocab_size": len(WAV2VEC_TOKENS)}
    shapes = []
    for name, kind, config, changes in (
        ("wav2vec2-base", "Wav2Vec2ForCTC", "Wav2Vec2Config", {}),
        ("wav2vec2-large-lv60", "Wav2Vec2ForCTC", "Wav2Vec2Config",
         {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096, "feat_extract_norm": "layer",
          "do_stable_layer_norm": True, "conv_bias": True}),
        ("hubert-base", "HubertForCTC", "HubertConfig", {}),
        ("wavlm-base", "WavLMForCTC", "WavLMConfig", {}),
        ("sew-mid", "SEWForCTC", "SEWConfig", {}),
        ("unispeech-sat-base", "UniSpeechSatForCTC", "UniSpeechSatConfig", {}),
        ("data2vec-audio-base", "Data2VecAudioForCTC", "Data2VecAudioConfig", {}),
        ("wav2vec2-conformer-rope", "Wav2Vec2ConformerForCTC", "Wav2Vec2ConformerConfig",
         {"position_embeddings_type": "rotary"}),
    ):  # fmt: skip
        shapes += of_transformers(name, kind, config, layers, speech, len(WAV2VEC_TOKENS), **labels, **changes)
    shapes += of_transformers(
        "canine-s tagger", "CanineForTokenClassification", "CanineConfig", layers, ids(100000, (20, 100)), 9,
        ("input_ids", "attention_mask"), num_labels=9,
    )  # fmt: skip
    shapes += of_transformers(
        "wav2vec2-bert", "Wav2Vec2BertForCTC", "Wav2Vec2BertConfig", layers, frames(160, (20, 90)), 32,
        ("input_features",), vocab_size=32,
    )  # fmt: skip
    for name, kind, config, words, changes in (
        ("bert-base-NER", "BertForTokenClassification", "BertConfig", 28996, {}),
        ("distilbert-NER", "DistilBertForTokenClassification", "DistilBertConfig", 28996, {}),
        ("xlm-roberta punctuation", "XLMRobertaForTokenClassification", "XLMRobertaConfig", 250002, {}),
        ("electra-base tagger", "ElectraForTokenClassification", "ElectraConfig", 30522, {}),
        ("camembert-NER", "CamembertForTokenClassification", "CamembertConfig", 32005, {}),
        ("deberta-v3 tagger", "DebertaV2ForTokenClassification", "DebertaV2Config", 128100, {"relative_attention": True,
         "pos_att_type": ["p2c", "c2p"], "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True}),
    ):  # fmt: skip
        shapes += of_transformers(
            name, kind, config, layers, ids(min(words, 30000)), 9, ("input_ids", "attention_mask"),
            vocab_size=words, num_labels=9, **changes,
        )  # fmt: skip
    shapes += [
        Shape("EasyOCR gen 2", easyocr(97), 97, 0, picture(1, 64, (100, 400)), flags=("--length-axis", "3"),
              inputs=["image"], outputs=["logits"]),
        *(Shape(f"doctr {name}", doctr(name), 127, 126, picture(3, 32, (128, 128)), flags=("--length-axis", "3"),
                inputs=["input"], outputs=["logits"])
          for name in ("crnn_vgg16_bn", "crnn_mobilenet_v3_small", "crnn_mobilenet_v3_large", "viptr_tiny")),
    ]  # fmt: skip
    return shapes


def export(shape, path):
    """By torch.onnx: the rows and the source's length are open."""
    torch.manual_seed(zlib.crc32(shape.name.split(" dynamo")[0].encode()))
    model = shape.build() if not isinstance(shape.build, type) else shape.build().eval()
    rng = random.Random(1)
    source = shape.source(rng)
    values = [torch.from_numpy(np.stack([source, source]))]
    values += [torch.ones(values[0].shape[:2], dtype=torch.int64) for _ in shape.inputs[1:]]
    length = int(shape.flags[1]) if "--length-axis" in shape.flags else 1
    axes = {name: {0: "batch", length: "length"} for name in shape.inputs}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if shape.dynamo:
            dims = tuple({0: torch.export.Dim("batch"), length: torch.export.Dim("length", min=400 if value.dtype.is_floating_point and value.ndim == 2 else 2)}
                         for value in values)  # fmt: skip
            torch.onnx.export(model, tuple(values), str(path), dynamo=True, input_names=shape.inputs,
                              output_names=shape.outputs, dynamic_shapes=(dims,), verbose=False)  # fmt: skip
        else:
            axes.update({name: {0: "batch", 1: "frames"} for name in shape.outputs})
            torch.onnx.export(model, tuple(values), str(path), dynamo=False, opset_version=17, input_names=shape.inputs,
                              output_names=shape.outputs, dynamic_axes=axes)  # fmt: skip


class Served:
    """One model, in a separate folder."""

    def __init__(self, shape, programs, work):
        self.shape = shape
        path = work / "model.onnx"
        export(shape, path)
        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        is_sound = shape.columns == len(WAV2VEC_TOKENS)
        names = WAV2VEC_TOKENS if is_sound else [f"t{i}" if i != shape.blank else "<blk>" for i in range(shape.columns)]
        tokens = work / ("vocab.json" if is_sound else "tokens.txt")
        if is_sound:
            tokens.write_text(json.dumps({token: i for i, token in enumerate(names)}))
        else:
            tokens.write_text("".join(f"{token}\n" for token in names))
        bundle = work / "repository" / "model" / "1"
        done = run(programs / "beamwright-graph", "init", path, "--tokens", tokens, "--out", bundle, *shape.flags)
        self.failed = done.stderr.strip().splitlines()[-1].replace(str(work), "") if done.returncode else ""

    def question(self, rng):
        value = self.shape.source(rng)
        ports = self.session.get_inputs()
        inputs = {port.name: np.ones((1, len(value)), "i8") for port in ports}
        inputs[self.shape.inputs[0]] = value[None]
        scores = self.session.run(None, inputs)[0]
        scores = scores[0] if scores.shape[0] == 1 else scores[:, 0]
        if value.dtype == np.int64:
            source = {"ids": {"ids": value.tolist()}}
        else:
            data = base64.b64encode(value.tobytes()).decode()
            source = {"features": {"dtype": "f32", "shape": value.shape, "data": data}}
        return source, best_paths(scores, self.shape.blank)


def outcome(shape, programs, work):
    """Whether it answers as it should (None: there is nothing to serve), and the words for the table."""
    try:
        made = Served(shape, programs, work)
    except Exception as error:  # noqa: BLE001  # an exporter that refuses its own model
        return None, f"the exporter refuses it: {(str(error).strip().splitlines() or [type(error).__name__])[0][:60]}"
    rng = random.Random(zlib.crc32(shape.name.encode()))
    if made.failed:
        try:
            for _ in range(3):
                made.question(rng)
        except Exception:  # noqa: BLE001  # of ONNX Runtime
            return None, "the file reads no source but the example's length, in ONNX Runtime as well"
        return False, f"refused: {made.failed[:300]}"
    asked = right = tries = labels = 0
    wrong = ""
    with serving(programs, work / "repository", work) as address:
        while asked < ASKED and tries < 10 * ASKED:
            tries += 1
            source, expected = made.question(rng)
            if expected is None:
                continue
            asked += 1
            options = {"beam_size": 8, "n_best": 1, **({"recombine": "RECOMBINE_MAX"} if shape.blank is not None else {})}
            found, error = ask(address, "model", {"source": source, "options": options})
            tokens = None if error else found[0].get("tokens", [])
            right += tokens == expected
            labels += len(expected)
            wrong = wrong or ("" if tokens == expected else f": {error or tokens[:9]} for {expected[:9]}"[:200])
    return asked > 0 and right == asked, f"{right} of {asked}, {labels} labels{wrong}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--alone", help=argparse.SUPPRESS)  # one model, whose outcome is printed as JSON
    args = parser.parse_args()
    onnxruntime.set_default_logger_severity(3)
    outcomes, lines = [], []
    if args.alone:
        shape = next(shape for shape in all_shapes(args.layers) if shape.name == args.alone)
        with tempfile.TemporaryDirectory(prefix="beamwright-shapes-") as scratch:
            print(json.dumps(outcome(shape, args.programs.absolute(), pathlib.Path(scratch))))
        return
    names = [shape.name for shape in all_shapes(args.layers)]
    for name in [name for name in names if not args.only or any(one in name for one in args.only)]:
        # In a separate process: an exporter that has failed fails for the next model, too.
        command = [sys.executable, __file__, "--alone", name, "--layers", str(args.layers), "--programs", args.programs]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        said = done.stdout.strip().splitlines()
        is_good, words = json.loads(said[-1]) if done.returncode == 0 and said else (False, "the process ended")
        outcomes.append(is_good)
        lines.append(f"| {name} | {words} |")
        print(lines[-1], flush=True)
    good, asked = outcomes.count(True), len(outcomes) - outcomes.count(None)
    report = ["", f"{good} of {asked} files answer as ONNX Runtime does.", "", "| model | equal answers |"]
    report += ["| --- | --- |", *lines]
    if args.table:
        write_section(args.table, "tests/wild/shapes/shapes.py", report)
    sys.exit(0 if good == asked else 1)


if __name__ == "__main__":
    main()
