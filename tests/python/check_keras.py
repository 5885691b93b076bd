#!/usr/bin/env python3
"""from_keras with Keras itself, on the backend that KERAS_BACKEND says.

Usage: check_keras.py, with what run.py sets and Keras installed: `./dev frameworks` runs it.
"""

import pathlib
import tempfile

import keras
import numpy as np

import beamwright

LETTERS = list("abcdefghijklmnopqrstuvwxyz")
TOKENS = ["<s>", "</s>", *LETTERS]
WIDTH = 16


def models():
    """The inference models of Keras' sequence-to-sequence example, with embeddings and attention."""
    layers, inputs = keras.layers, keras.Input
    source = inputs((None,), dtype="int64")
    memory, hidden, cell = layers.LSTM(WIDTH, return_sequences=True, return_state=True)(
        layers.Embedding(26, WIDTH)(source)
    )
    encoder = keras.Model(source, [memory, hidden, cell])

    token = inputs((1,), dtype="int64")
    memory_in, hidden_in, cell_in = inputs((None, WIDTH)), inputs((WIDTH,)), inputs((WIDTH,))
    out, hidden, cell = layers.LSTM(WIDTH, return_sequences=True, return_state=True)(
        layers.Embedding(len(TOKENS), WIDTH)(token), initial_state=[hidden_in, cell_in]
    )
    read = layers.Attention()([out, memory_in])
    scores = layers.Dense(len(TOKENS), activation="softmax")(layers.Concatenate()([out, read]))
    step = keras.Model([token, memory_in, hidden_in, cell_in], [scores, hidden, cell])
    return encoder, step


def one_hot_models():
    """The inference models of Keras' example of characters, which read source and tokens one-hot."""
    layers, inputs = keras.layers, keras.Input
    source = inputs((None, len(LETTERS)))
    _, hidden, cell = layers.LSTM(WIDTH, return_state=True)(source)
    encoder = keras.Model(source, [hidden, cell])

    token, hidden_in, cell_in = inputs((None, len(TOKENS))), inputs((WIDTH,)), inputs((WIDTH,))
    out, hidden, cell = layers.LSTM(WIDTH, return_sequences=True, return_state=True)(
        token, initial_state=[hidden_in, cell_in]
    )
    scores = layers.Dense(len(TOKENS), activation="softmax")(out)
    return encoder, keras.Model([token, hidden_in, cell_in], [scores, hidden, cell])


def main():
    keras.utils.set_random_seed(1)
    encoder, step = models()
    with tempfile.TemporaryDirectory() as scratch:
        example = np.array([[1, 2, 3, 4]])
        made = beamwright.from_keras(encoder, step, example, (LETTERS, TOKENS), pathlib.Path(scratch) / "1")
        assert "agree with" in made.checked, made
        print(f"Keras {keras.__version__} on {keras.backend.backend()}: {made}")
        encoder, step = one_hot_models()
        example = np.eye(26, dtype=np.float32)[[[1, 2, 3, 4]]]
        for begin in ("<s>", "<zeros>"):
            folder = pathlib.Path(scratch) / begin.strip("<>") / "1"
            folder.parent.mkdir()
            made = beamwright.from_keras(encoder, step, example, (LETTERS, TOKENS), folder, begin=begin)
            assert "agree with" in made.checked, made
            assert ("vector of zeros" in str(made)) == (begin == "<zeros>"), made
            print(made)


if __name__ == "__main__":
    main()
