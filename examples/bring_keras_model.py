#!/usr/bin/env python3
"""A small sequence model in Keras 3, exported for Beamwright: docs/bring-your-model.md walks through it.

The model spells a word backwards, as that of bring_your_model.py does: an LSTM with attention, trained over whole targets
and exported as one step. It is written to OUT as encoder and decoder, with its vocabularies.

--exporter keras     ONNX, by model.export(format="onnx")
--exporter tf2onnx   ONNX, by tf2onnx on the functions of the models
--exporter openvino  OpenVINO IR, by openvino.convert_model on a SavedModel

Without --train the weights are random. Written for Keras' TensorFlow backend.
"""

import argparse
import os
import pathlib
import random
import shutil

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import layers, ops

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENS = ["<s>", "</s>", *LETTERS]
BEGIN, END = 0, 1


class Parts:
    """The layers that training and the exported step share."""

    def __init__(self, width):
        self.width = width
        self.letters = layers.Embedding(len(LETTERS), width)
        self.reader = layers.Bidirectional(layers.LSTM(width, return_sequences=True, return_state=True))
        self.starts = [layers.Dense(width, activation="tanh") for _ in "hc"]
        self.tokens = layers.Embedding(len(TOKENS), width)
        self.writer = layers.LSTM(width, return_sequences=True, return_state=True)
        self.query = layers.Dense(2 * width, use_bias=False)
        self.output = layers.Dense(len(TOKENS))

    def encode(self, source):
        memory, forward, _, backward, _ = self.reader(self.letters(source))
        both = ops.concatenate([forward, backward], -1)
        return memory, *(start(both) for start in self.starts)

    def decode(self, tokens, memory, h, c):
        hidden, h_next, c_next = self.writer(self.tokens(tokens), initial_state=[h, c])
        weights = ops.softmax(ops.matmul(self.query(hidden), ops.transpose(memory, (0, 2, 1))))
        return self.output(ops.concatenate([hidden, ops.matmul(weights, memory)], -1)), h_next, c_next


# A model's results have the names of these layers, and the decoder's inputs those of the encoder's results.
def named(**results):
    return {name: layers.Identity(name=f"result_{name}")(value) for name, value in results.items()}


def encoder_of(parts):
    source = keras.Input((None,), dtype="int32", name="source")
    memory, h, c = parts.encode(source)
    return keras.Model(source, named(memory=memory, h=h, c=c))


def decoder_of(parts):
    token = keras.Input((1,), dtype="int32", name="token")
    memory = keras.Input((None, 2 * parts.width), name="memory")
    h, c = (keras.Input((parts.width,), name=name) for name in "hc")
    logits, h_next, c_next = parts.decode(token, memory, h, c)
    return keras.Model([token, memory, h, c], named(logits=logits, h_next=h_next, c_next=c_next))


def train(parts, steps):
    """Teaches the model to spell words of 2 to 8 letters backwards; a batch has words of one length."""
    source = keras.Input((None,), dtype="int32")
    tokens = keras.Input((None,), dtype="int32")
    model = keras.Model([source, tokens], parts.decode(tokens, *parts.encode(source))[0])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3, clipnorm=1.0), loss)
    for step in range(1, steps + 1):
        words = np.random.randint(len(LETTERS), size=(64, random.randint(2, 8)))
        target = words[:, ::-1] + TOKENS.index(LETTERS[0])
        read = np.pad(target, [(0, 0), (1, 0)], constant_values=BEGIN)
        wanted = np.pad(target, [(0, 0), (0, 1)], constant_values=END)
        value = model.train_on_batch([words, read], wanted)
        if step % 100 == 0:
            print(f"step {step}: loss {float(value):.3f}", flush=True)


def export(net, path, exporter):
    if exporter == "keras":
        net.export(f"{path}.onnx", format="onnx", verbose=False)
    elif exporter == "tf2onnx":
        import tensorflow as tf
        import tf2onnx

        signature = [tf.TensorSpec(port.shape, port.dtype, name=port.name) for port in net.inputs]
        function = tf.function(lambda *values: net(list(values)), input_signature=signature)
        tf2onnx.convert.from_function(function, signature, opset=18, output_path=f"{path}.onnx")
    else:
        import openvino

        net.export(f"{path}.saved", format="tf_saved_model", verbose=False)
        openvino.save_model(openvino.convert_model(f"{path}.saved"), f"{path}.xml")
        shutil.rmtree(f"{path}.saved")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="folder to write; made if it is missing")
    parser.add_argument("--exporter", choices=["keras", "tf2onnx", "openvino"], default="keras")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--train", type=int, default=0, metavar="STEPS", help="about 1,500 will do")
    args = parser.parse_args()
    random.seed(1)
    keras.utils.set_random_seed(1)

    parts = Parts(args.width)
    encoder, decoder = encoder_of(parts), decoder_of(parts)
    train(parts, args.train)
    # Keras exports what has been called.
    started = encoder(ops.zeros((1, 2), "int32"))
    decoder([ops.zeros((1, 1), "int32"), started["memory"], started["h"], started["c"]])
    args.out.mkdir(parents=True, exist_ok=True)
    export(encoder, args.out / "encoder", args.exporter)
    export(decoder, args.out / "decoder", args.exporter)
    (args.out / "source.vocab").write_text("\n".join(LETTERS) + "\n", encoding="utf-8")
    (args.out / "target.vocab").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
