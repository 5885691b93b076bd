#!/usr/bin/env python3
"""Writes exports of Keras 3 models by Keras' own ONNX export, by tf2onnx and by OpenVINO's converter, and what ONNX Runtime's
tools make of them, with requests and answers: for the tables in README.md (table.py).

Usage: keras_export.py OUT [--requests N] [MODEL...]   (README.md has the versions)

The answers are those of beam_search.py over Keras' own step.
"""

import argparse
import json
import os
import pathlib
import random
import shutil

os.environ.update(KERAS_BACKEND="tensorflow", CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")

import keras
import numpy as np
import openvino
import tensorflow as tf
import tf2onnx
from beam_search import beam_search
from keras import layers, ops
from onnx_runtime import TOOLS, RuntimeModel, make, reason_of

SEED = 20261124
SOURCES, TOKENS, WIDTH = 17, 13, 10
BEGIN, END = 0, 1
CLOSEST, CLOSEST_QUANTISED = 2e-5, 2e-3


class Model:
    """Encoder: source [rows, length] -> memory and states. Decoder: token [rows, 1], memory, states -> logits, states."""

    def __init__(self, encoder, decoder, states):
        self.encoder, self.decoder, self.states = encoder, decoder, states
        self.inputs = {"token": ("rows", None), "memory": None, **{name: None for name in states}}
        self.outputs = ["logits", *(f"{name}_next" for name in states)]
        self.start_at_zero = ()


def named(outputs):
    """Outputs by name, as exporters take the names of a model's outputs from."""
    return {name: layers.Identity(name=f"name_{name}")(value) for name, value in outputs.items()}


def encoder_of(states, recurrent):
    source = keras.Input((None,), dtype="int32", name="source")
    memory, *last = recurrent(layers.Embedding(SOURCES, WIDTH)(source))
    summary = ops.concatenate(last, axis=-1)
    starts = {name: layers.Dense(WIDTH, activation="tanh")(summary) for name in states}
    return keras.Model(source, named({"memory": memory, **starts}))


def decoder_of(states, advance, attend, width=2 * WIDTH):
    token = keras.Input((1,), dtype="int32", name="token")
    memory = keras.Input((None, width), name="memory")
    before = {name: keras.Input((WIDTH,), name=name) for name in states}
    hidden, after = advance(layers.Embedding(TOKENS, WIDTH)(token), list(before.values()))
    read = attend(hidden, memory)
    logits = layers.Dense(TOKENS, name="output")(ops.concatenate([hidden, read], axis=-1))
    outputs = {"logits": logits, **{f"{name}_next": value for name, value in zip(states, after)}}
    return keras.Model([token, memory, *before.values()], named(outputs))


def layer_step(layer):
    """A layer over a single token, with its states."""

    def advance(x, states):
        output, *after = layer(x, initial_state=states)
        return output, after

    return advance


def cell_step(*cells):
    """Cells called one after another."""

    def advance(x, states):
        x, after, place = ops.squeeze(x, 1), [], 0
        for cell in cells:
            count = 2 if isinstance(cell, layers.LSTMCell) else 1
            x, new = cell(x, states[place : place + count])
            after += list(new)
            place += count
        return ops.expand_dims(x, 1), after

    return advance


def project(hidden):
    return layers.Dense(2 * WIDTH, use_bias=False)(hidden)


def dot_attention(hidden, memory):
    return layers.Attention()([project(hidden), memory])


def additive_attention(hidden, memory):
    return layers.AdditiveAttention()([project(hidden), memory])


def heads_attention(hidden, memory):
    return layers.MultiHeadAttention(2, WIDTH)(project(hidden), memory)


def plain_attention(hidden, memory):
    scores = ops.matmul(project(hidden), ops.transpose(memory, (0, 2, 1)))
    return ops.matmul(ops.softmax(scores, axis=-1), memory)


def bidirectional(layer):
    return layers.Bidirectional(layer)


def options(**more):
    return dict(return_sequences=True, return_state=True, **more)


def models():
    """Name -> Model."""
    gru = lambda **more: bidirectional(layers.GRU(WIDTH, **options(**more)))  # noqa: E731
    lstm = bidirectional(layers.LSTM(WIDTH, **options()))
    lstm_layer = lambda: layer_step(layers.LSTM(WIDTH, **options()))  # noqa: E731
    gru_layer = lambda **more: layer_step(layers.GRU(WIDTH, **options(**more)))  # noqa: E731
    two = ("h", "c")
    return {
        "keras_lstm": Model(encoder_of(two, lstm), decoder_of(two, lstm_layer(), dot_attention), two),
        "keras_gru": Model(encoder_of(("h",), gru()), decoder_of(("h",), gru_layer(), additive_attention), ("h",)),
        "keras_gru_reset_before": Model(
            encoder_of(("h",), gru(reset_after=False)),
            decoder_of(("h",), gru_layer(reset_after=False), plain_attention), ("h",)),
        "keras_simple_rnn": Model(
            encoder_of(("h",), bidirectional(layers.SimpleRNN(WIDTH, **options()))),
            decoder_of(("h",), layer_step(layers.SimpleRNN(WIDTH, **options())), plain_attention), ("h",)),
        "keras_lstm_cell": Model(
            encoder_of(two, lstm), decoder_of(two, cell_step(layers.LSTMCell(WIDTH)), plain_attention), two),
        "keras_stacked_cells": Model(
            encoder_of(("h0", "h1"), gru()),
            decoder_of(("h0", "h1"), cell_step(layers.GRUCell(WIDTH), layers.GRUCell(WIDTH)), plain_attention),
            ("h0", "h1")),
        "keras_heads": Model(encoder_of(("h",), gru()), decoder_of(("h",), gru_layer(), heads_attention), ("h",)),
    }  # fmt: skip


def sharpen(model):
    start = start_values(model, [2, 3])
    model.decoder([np.array([[BEGIN]], np.int32), *start])  # Keras exports what has been called
    for net in (model.encoder, model.decoder):
        net.set_weights([weight * 2.5 for weight in net.get_weights()])
    kernel, bias = model.decoder.get_layer("output").get_weights()
    bias[END] += 1
    model.decoder.get_layer("output").set_weights([kernel, bias])


def keras_onnx(net, path):
    net.export(path, format="onnx", verbose=False)


def by_tf2onnx(net, path):
    signature = [
        tf.TensorSpec(port.shape, port.dtype, name=port.name) for port in net.inputs
    ]
    function = tf.function(lambda *values: net(list(values)), input_signature=signature)
    tf2onnx.convert.from_function(function, input_signature=signature, opset=18, output_path=path)


def by_openvino(net, path):
    folder = path.removesuffix(".xml")
    net.export(folder, format="tf_saved_model", verbose=False)
    openvino.save_model(openvino.convert_model(folder), path, compress_to_fp16=False)
    shutil.rmtree(folder)


EXPORTERS = {
    "keras": (keras_onnx, ".onnx"),
    "tf2onnx": (by_tf2onnx, ".onnx"),
    "openvino": (by_openvino, ".xml"),
}


def start_values(model, ids):
    results = model.encoder(np.array([ids], np.int32))
    return [np.asarray(results[name]) for name in ("memory", *model.states)]


def next_log_probs(model, ids):
    """Every prefix runs from its first token on."""
    start = start_values(model, ids)

    def answer(prefixes):
        values = [np.repeat(value, len(prefixes), 0) for value in start]
        for column in np.array([[BEGIN, *prefix] for prefix in prefixes], np.int32).T:
            results = model.decoder([column[:, None], *values])
            values[1:] = [np.asarray(results[f"{name}_next"]) for name in model.states]
        return np.asarray(ops.log_softmax(results["logits"][:, 0], -1))

    return answer


def quantised_log_probs(folder):
    runtime = RuntimeModel(folder)

    def of(model, ids):
        start = runtime.start([np.array([ids], np.int32)])
        return lambda prefixes: np.stack(
            [runtime.log_probs(model, start, (BEGIN, *prefix)) for prefix in prefixes]
        )

    return of


def write_answers(model, path, requests, log_probs, closest):
    rng, lines = random.Random(SEED), []
    for _ in range(20 * requests):
        ids = [rng.randrange(SOURCES) for _ in range(rng.randint(2, 10))]
        beam_size = rng.choice([1, 2, 3, 5, 8])
        asked = {
            "beam_size": beam_size,
            "n_best": rng.randint(1, beam_size),
            "length_penalty": f"LENGTH_PENALTY_{rng.choice(['NONE', 'POW', 'GNMT'])}",
            "length_penalty_alpha": rng.randint(1, 12) / 8,
            "stop": f"STOP_MODE_{rng.choice(['SAFE', 'NEVER'])}",
            "max_length": rng.randint(3, 10),
        }
        best, gaps = beam_search(log_probs(model, ids), END, asked["max_length"], asked)
        if gaps.smallest < closest:
            continue
        hypotheses = [
            {
                "tokens": tokens,
                "finish_reason": f"FINISH_REASON_{'EOS' if tokens[-1] == END else 'LENGTH'}",
                "token_log_probs": [float(np.float32(p)) for p in steps],
                "log_prob": total,
                "score": score,
            }
            for tokens, steps, total, score in best
        ]
        lines.append(json.dumps({"source": {"ids": {"ids": ids}}, "options": asked, "hypotheses": hypotheses}))
        if len(lines) == requests:
            break
    path.write_text("\n".join(lines) + "\n")


def export_all(model, folder, requests):
    refused = {}
    for exporter, (write, suffix) in EXPORTERS.items():
        target = folder / exporter
        target.mkdir(parents=True, exist_ok=True)
        try:
            write(model.encoder, str(target / f"encoder{suffix}"))
            write(model.decoder, str(target / f"decoder{suffix}"))
        except Exception as error:  # whatever an exporter raises is its answer
            shutil.rmtree(target)
            refused[exporter] = reason_of(error)
    source = next((folder / e for e in ("tf2onnx", "keras") if (folder / e).exists()), None)
    for derived in TOOLS:
        try:
            make(derived, source, folder / derived)
            if derived == "quantised":
                answer = quantised_log_probs(folder / derived)
                write_answers(model, folder / derived / "answers.jsonl", requests, answer, CLOSEST_QUANTISED)
        except Exception as error:
            shutil.rmtree(folder / derived, ignore_errors=True)
            refused[derived] = reason_of(error)
    return refused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--requests", type=int, default=12)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(SEED)
    for name, model in models().items():
        if arguments.models and name not in arguments.models:
            continue
        sharpen(model)
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        refused = export_all(model, folder, arguments.requests)
        (folder / "refused.json").write_text(json.dumps(refused, indent=1))
        write_answers(model, folder / "answers.jsonl", arguments.requests, next_log_probs, CLOSEST)
        print(name, refused, flush=True)


if __name__ == "__main__":
    main()
