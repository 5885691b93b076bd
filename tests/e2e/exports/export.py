#!/usr/bin/env python3
"""Writes exports of PyTorch models, with requests and the answers to them: archives of those that tests/e2e/exports_test.cc
serves, and with --all folders of those of the tables in README.md (table.py).

Usage: export.py OUT [--all] [--requests N] [MODEL...]   (README.md has the versions; weights and requests follow from
the seed)

The answers are those of beam_search.py over PyTorch's own modules: no exported file has a part in them. Files in 8 bits
compute something else; their answers are those of the same search over ONNX Runtime, a prefix at a time. What an exporter
refuses is written to refused.json.
"""

import argparse
import base64
import json
import math
import pathlib
import random
import shutil
import sys
import warnings

import numpy as np
import onnx
import openvino
import torch
from attentions import attentions
from beam_search import beam_search
from caches import HEADS, caches
from caches import WIDTH as CACHED
from cells import cells
from models import BEGIN, END, FRAME, HEIGHT, SOURCES, TOKENS, models, prepare
from onnx_runtime import TOOLS, RuntimeModel, make, reason_of

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from archives import pack  # noqa: E402

SEED = 20261121
REQUESTS = 40
# A request is left out if two numbers whose order decides something are closer than this, and not
# equal: implementations may round them to either order.
CLOSEST = 2e-5
# In 8 bits rounding may pick another neighbour.
CLOSEST_QUANTISED = 2e-3
# Of the models beyond models(), those whose exports lie here.
COMMITTED = ("peephole_lstm", "qrnn", "tcn", "coverage", "attention_heads", "attention_cache", "growing_offset", "growing_past")
OPSETS = {"torchscript": 17, "dynamo": 20}
EXTENTS = {"rows": 2, "length": 5, "steps": 3, "past": 4}  # of the example that is exported


def onnx_export(module, inputs, outputs, values, exporter, path):
    dims = {
        name: {i: axis for i, axis in enumerate(axes) if axis}
        for name, axes in {**inputs, **outputs}.items()
    }
    common = dict(
        input_names=list(inputs), output_names=list(outputs), opset_version=OPSETS[exporter]
    )
    if exporter == "torchscript":
        torch.onnx.export(module, values, path, dynamo=False, dynamic_axes=dims, **common)
    else:
        shapes = tuple({axis: torch.export.Dim.DYNAMIC for axis in dims[name]} for name in inputs)
        torch.onnx.export(
            module, values, path, dynamo=True, dynamic_shapes=shapes, external_data=False, **common
        )
    model = onnx.load_model(path)
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]  # source lines of the machine that exported
    onnx.save_model(model, path)


def openvino_export(module, inputs, outputs, values, _, path):
    shapes = [
        (
            name,
            [-1 if i < len(axes) and axes[i] else extent for i, extent in enumerate(value.shape)],
        )
        for (name, axes), value in zip(inputs.items(), values)
    ]
    model = openvino.convert_model(module, example_input=values, input=shapes)
    for port, name in zip(model.outputs, outputs):
        port.get_tensor().set_names({name})
    openvino.save_model(model, path, compress_to_fp16=False)


EXPORTERS = {
    "torchscript": (onnx_export, ".onnx"),
    "dynamo": (onnx_export, ".onnx"),
    "openvino": (openvino_export, ".xml"),
}


def encoder_inputs(export, source):
    lengths = (torch.full([source.shape[0]], source.shape[1]),)
    return (source, *(lengths if "lengths" in export.source else ()))


def first_values(export, source, past=0):
    """Memory and first states as the decoder's inputs after the tokens; of caches, as after `past` steps."""
    encoded = export.encoder(*encoder_inputs(export, source))
    encoded = encoded if isinstance(encoded, tuple) else (encoded,)
    results = dict(zip(export.results, encoded))
    rows = encoded[0].shape[0]
    for name in export.caches:
        results[name] = torch.randn(rows, HEADS, past, CACHED // HEADS)
    for name in export.counts:
        results[name] = torch.full([rows if export.inputs[name][0] else 1] + [1] * (len(export.inputs[name]) - 1), past)
    for name in export.start_at_zero:
        results[name] = torch.zeros(rows, results["memory"].shape[-1] // 2)
    # torch.export keeps the strides of an example.
    return [results[name].contiguous() for name in list(export.inputs)[1:]]


def write_files(export, exporter, folder):
    write, suffix = EXPORTERS[exporter]
    folder.mkdir(parents=True, exist_ok=True)
    name, axes = next(iter(export.source.items()))
    if name == "frames":
        source = torch.randn(EXTENTS["rows"], 8, FRAME)
    elif name == "image":
        source = torch.randn(EXTENTS["rows"], 1, HEIGHT, 20)
    else:
        source = torch.randint(2, SOURCES, [EXTENTS[axis] for axis in axes])
    with torch.no_grad():
        values = first_values(export, source, EXTENTS["past"])
    tokens_axes = next(iter(export.inputs.values()))
    tokens = torch.randint(2, TOKENS, [EXTENTS[axis] if axis else 1 for axis in tokens_axes])
    encoder = [export.encoder, export.source, export.results, encoder_inputs(export, source)]
    decoder = [export.decoder, export.inputs, export.outputs, (tokens, *values)]
    write(*encoder, exporter, str(folder / f"encoder{suffix}"))
    write(*decoder, exporter, str(folder / f"decoder{suffix}"))


def next_log_probs(export, source):
    """What beam_search asks, answered by the modules: every prefix runs from its first token on."""
    values = first_values(export, source)
    row_axes = [axes.index("rows") if "rows" in axes else 0 for axes in list(export.inputs.values())[1:]]
    counts = [list(export.inputs).index(name) - 1 for name in export.counts]
    states = [list(export.inputs).index(name) - 1 for name in export.states]

    def answer(prefixes):
        tokens = torch.tensor([[BEGIN, *prefix] for prefix in prefixes])
        current = [
            torch.repeat_interleave(value, len(prefixes), axis) if "rows" in axes else value
            for value, axis, axes in zip(values, row_axes, list(export.inputs.values())[1:])
        ]
        if not export.states:
            logits = export.decoder(tokens, *current)[0][:, -1]
        else:
            shape = [-1 if axis else 1 for axis in next(iter(export.inputs.values()))]
            for number, token in enumerate(tokens.unbind(1)):
                for place in counts:
                    current[place] = torch.full_like(current[place], number)
                logits, *rest = export.decoder(token.reshape(shape), *current)
                for place, state in zip(states, rest):
                    current[place] = state
            logits = logits.flatten(1)
        return torch.log_softmax(logits, -1).numpy()

    return answer


def features_of(values):
    """The source of a request that holds [1, ...] without the axis of rows."""
    data = base64.b64encode(values.numpy().tobytes()).decode()
    return {"features": {"dtype": "f32", "shape": values.shape[1:], "data": data}}


def random_request(export, rng):
    """(source for PyTorch, source of the request, options, longest target)."""
    if "frames" in export.source:
        values = torch.randn(1, rng.randint(1, 20), FRAME)
        source = features_of(values)
    elif "image" in export.source:
        values = torch.randn(1, 1, HEIGHT, rng.randint(4, 28))
        source = features_of(values)
    elif "features" in export.source:
        extents = [rng.randint(*extent) if isinstance(extent, tuple) else extent for extent in export.source["features"][1:]]
        values = torch.randn(1, *extents)
        source = features_of(values)
    elif "prompt" in export.source:  # of a language model: what its answers begin with
        ids = [rng.randrange(2, SOURCES) for _ in range(rng.randint(1, 8))]
        values, source = torch.tensor([ids]), {}
    else:
        ids = [rng.randrange(SOURCES) for _ in range(rng.randint(1, 12))]
        values, source = torch.tensor([ids]), {"ids": {"ids": ids}}
    beam_size = rng.choice([1, 2, 3, 4, 5, 8, 12])
    options = {
        "beam_size": beam_size,
        "n_best": rng.randint(1, beam_size),
        "length_penalty": f"LENGTH_PENALTY_{rng.choice(['NONE', 'POW', 'GNMT'])}",
        "length_penalty_alpha": rng.randint(1, 12) / 8,
        "stop": f"STOP_MODE_{rng.choice(['SAFE', 'NEVER'])}",
    }
    if "prompt" in export.source:
        options["target_prefix"] = {"ids": {"ids": ids}}
    if "image" in export.source:  # the limit shows which axis counted as the length
        options.update(max_length_factor=0.25, max_length_offset=rng.randint(1, 6))
        longest = math.ceil(0.25 * values.shape[3]) + options["max_length_offset"]
    else:
        longest = options["max_length"] = rng.randint(3, 14)
    return values, source, options, longest


def write_answers(export, path, rng, requests, next_log_probs=next_log_probs, closest=CLOSEST):
    lines, ties, left_out = [], 0, 0
    while len(lines) < requests:
        values, source, options, longest = random_request(export, rng)
        with torch.no_grad():
            log_probs = next_log_probs(export, values)
            best, gaps = beam_search(log_probs, END, longest, options)
        if gaps.smallest < closest:
            left_out += 1
            if left_out > 20 * requests:
                raise RuntimeError("hardly any request has an answer that rounding can't change")
            continue
        ties += gaps.ties
        given, given_steps = getattr(log_probs, "given", ((), ()))
        hypotheses = [
            {
                "tokens": [*given, *tokens],
                "finish_reason": f"FINISH_REASON_{'EOS' if tokens[-1] == END else 'LENGTH'}",
                "token_log_probs": [float(np.float32(p)) for p in (*given_steps, *steps)],
                "log_prob": total,
                "score": score,
            }
            for tokens, steps, total, score in best
        ]
        lines.append(json.dumps({"source": source, "options": options, "hypotheses": hypotheses}))
    path.write_text("\n".join(lines) + "\n")
    ended = sum(line.count("_EOS") for line in lines)
    cut = sum(line.count("_LENGTH") for line in lines)
    print(
        f"{path.parent}: {ended} hypotheses ended, {cut} cut, {ties} ties, {left_out} requests left out"
    )


def quantised_log_probs(folder):
    """What beam_search asks, answered by ONNX Runtime on the files themselves, a prefix at a time."""
    model = RuntimeModel(folder)

    def of(export, source):
        start = model.start([value.numpy() for value in encoder_inputs(export, source)])
        return lambda prefixes: np.stack(
            [model.log_probs(export, start, (BEGIN, *prefix)) for prefix in prefixes]
        )

    return of


def derive(name, export, folder, requests):
    """What ONNX Runtime's tools make of an export of PyTorch's."""
    for derived in TOOLS:
        source = next(
            (folder / e for e in ("torchscript", "dynamo") if (folder / e / "decoder.onnx").exists()), None
        )
        if source is None:
            yield derived, "there is no ONNX export"
            continue
        try:
            make(derived, source, folder / derived)
            if derived == "quantised":
                path = folder / derived / "answers.jsonl"
                rng, answer = random.Random(SEED), quantised_log_probs(folder / derived)
                write_answers(export, path, rng, requests, answer, CLOSEST_QUANTISED)
        except Exception as error:  # whatever a tool of others raises is its answer
            shutil.rmtree(folder / derived, ignore_errors=True)
            yield derived, reason_of(error)


def export_all(name, export, folder, requests):
    """Writes what each exporter makes of a model; returns what they refused."""
    refused = {}
    for exporter in ("torchscript", "dynamo", "openvino"):
        if exporter not in export.exporters:
            refused[exporter] = "the exporter takes no scripted functions"
            continue
        try:
            write_files(export, exporter, folder / exporter)
        except Exception as error:  # whatever an exporter raises is its answer
            shutil.rmtree(folder / exporter, ignore_errors=True)
            refused[exporter] = reason_of(error)
    refused.update(derive(name, export, folder, requests))
    return refused


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--all", action="store_true", help="every model, by every exporter and tool")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    exports = models()
    torch.manual_seed(SEED)
    more = {**cells(), **attentions()}
    prepare(more)
    torch.manual_seed(SEED)
    grown = caches()
    prepare(grown)
    more.update(grown)
    exports.update(more if arguments.all else {name: more[name] for name in COMMITTED})
    for name, export in exports.items():
        if arguments.models and name not in arguments.models:
            continue
        torch.manual_seed(SEED)
        folder = arguments.out / name
        if arguments.all:
            refused = export_all(name, export, folder, arguments.requests)
            (folder / "refused.json").write_text(json.dumps(refused, indent=1))
        else:
            for exporter in export.exporters:
                write_files(export, exporter, folder / exporter)
        write_answers(export, folder / "answers.jsonl", random.Random(SEED), arguments.requests)
        if not arguments.all:
            pack(folder)


if __name__ == "__main__":
    main()
