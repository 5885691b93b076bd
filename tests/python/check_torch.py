#!/usr/bin/env python3
"""The example of docs/python.md, 'From PyTorch, Keras and ONNX', and modules of other shapes, with PyTorch itself.

Usage: check_torch.py, with what run.py sets and PyTorch installed: `./dev frameworks` runs it. PyTorch is too large to
install for every test run; tests/python/test_onnx.py does the same with files that it wrote.
"""

import contextlib
import os
import pathlib
import re
import sys
import tempfile

import torch
from torch import nn

import beamwright

LETTERS = list("abcdefghijklmnopqrstuvwxyz")
TOKENS = ["<s>", "</s>", *LETTERS]
WIDTH = 16


class Encoder(nn.Module):
    """Ids or frames into a memory and the first states."""

    def __init__(self, first, states, layers=0):
        super().__init__()
        self.first = first
        self.layer = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.start = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(states))
        self.layers = layers

    def forward(self, source):
        memory, _ = self.layer(self.first(source))
        starts = [torch.tanh(start(memory.mean(1))) for start in self.start]
        if self.layers:
            starts = [one.unsqueeze(0).repeat(self.layers, 1, 1) for one in starts]
        return (memory, tuple(starts))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(TOKENS), WIDTH)
        self.output = nn.Linear(2 * WIDTH, len(TOKENS))

    def read(self, query, memory):
        weights = torch.softmax((query.unsqueeze(1) @ memory.transpose(1, 2)).squeeze(1), -1)
        return (weights.unsqueeze(1) @ memory).squeeze(1), weights


class LstmStep(Attention):
    """With attention returned, and a token of one axis."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(2 * WIDTH, WIDTH)

    def forward(self, token, memory, hidden, cell):
        read, weights = self.read(hidden, memory)
        hidden, cell = self.cell(torch.cat([self.embed(token), read], 1), (hidden, cell))
        return self.output(torch.cat([hidden, read], 1)), (hidden, cell), weights


class GruStep(Attention):
    """States in any number of arguments, log-probabilities, nothing but the state behind them."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2 * WIDTH, WIDTH)

    def forward(self, token, memory, *states):
        read, _ = self.read(states[0], memory)
        state = self.cell(torch.cat([self.embed(token), read], 1), states[0])
        return torch.log_softmax(self.output(torch.cat([state, read], 1)), -1), state


class LayeredStep(Attention):
    """nn.LSTM over one token [rows, 1], with states [layers, rows, width]."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)

    def forward(self, token, memory, hidden, cell):
        out, (hidden, cell) = self.layer(self.embed(token), (hidden, cell))
        read, weights = self.read(out[:, 0], memory)
        return self.output(torch.cat([out[:, 0], read], 1)), hidden, cell, weights


class TimeFirstEncoder(nn.Module):
    """Sources [length, rows], without batch_first, into a memory [length, rows, width] and a state."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(26, WIDTH)
        self.layer = nn.GRU(WIDTH, WIDTH)

    def forward(self, source):
        memory, hidden = self.layer(self.embed(source))
        return memory, hidden.squeeze(0)


class TimeFirstStep(Attention):
    """The state before the memory, whose positions come first."""

    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(2 * WIDTH, WIDTH)

    def forward(self, token, hidden, encoder_outputs):
        read, weights = self.read(hidden, encoder_outputs.permute(1, 0, 2))
        out, hidden = self.layer(torch.cat([self.embed(token), read], 1).unsqueeze(0), hidden.unsqueeze(0))
        return self.output(torch.cat([out.squeeze(0), read], 1)), hidden.squeeze(0), weights


class JoiningEncoder(Encoder):
    """Two frames for each place of the memory."""

    def forward(self, source):
        return super().forward(source[:, ::2])


CASES = {
    "lstm": (lambda: Encoder(nn.Embedding(26, WIDTH), 2), LstmStep, torch.tensor([[1, 2, 3, 4, 5]])),
    "gru": (lambda: Encoder(nn.Embedding(26, WIDTH), 1), GruStep, torch.tensor([[3, 1, 4], [1, 5, 9]])),
    "layered": (lambda: Encoder(nn.Embedding(26, WIDTH), 2, layers=2), LayeredStep, torch.tensor([[1, 2, 3, 4]])),
    "time-first": (TimeFirstEncoder, TimeFirstStep, torch.tensor([[1], [2], [3], [4], [5]])),
    "joining": (lambda: JoiningEncoder(nn.Linear(7, WIDTH), 2), LstmStep, torch.randn(1, 6, 7)),
    "frames": (lambda: Encoder(nn.Linear(7, WIDTH), 2), LstmStep, torch.randn(1, 6, 7)),
}


def check_refusals(folder):
    """Wrong shapes are reported before anything is exported."""

    class NoState(Attention):
        def forward(self, token, memory):
            return self.output(torch.cat([self.embed(token)] * 2, 1)), memory.sum(1)

    for encoder, step, example, expected in (
        (nn.Embedding(26, WIDTH), NoState(), torch.tensor([[1, 2, 3]]), "carries no state"),
        (Encoder(nn.Embedding(26, WIDTH), 1), LstmStep(), torch.tensor([[1, 2, 3]]), "fails on inputs of shapes"),
        (Encoder(nn.Embedding(26, WIDTH), 2), LstmStep(), torch.tensor([1, 2, 3]), "has no length"),
        (Encoder(nn.Embedding(26, WIDTH), 2), LstmStep(), [[1, 2, 3]], "a tensor"),
    ):
        try:
            beamwright.from_torch(encoder, step, example, (LETTERS, TOKENS), folder / "refused")
        except beamwright.BeamwrightError as error:
            assert expected in str(error), error
        else:
            sys.exit(f"was taken: {expected}")


def run_page(folder):
    """The block of docs/python.md, in a separate folder; its answer is one of the letters."""
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python run=torch\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    encoder, step, example = CASES["lstm"]
    scope = {"encoder": encoder(), "decoder_step": step(), "example": example, "letters": LETTERS, "tokens": TOKENS}
    here = os.getcwd()
    folder.mkdir()
    os.chdir(folder)
    try:
        exec(code, scope)
    finally:
        os.chdir(here)
        with contextlib.suppress(KeyError):
            scope["server"].stop()


def main():
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name, (encoder, step, example) in CASES.items():
            vocabulary = None if example.dtype.is_floating_point else LETTERS
            modules = encoder(), step()
            modules[1].train()
            axis = 0 if name == "time-first" else 1
            made = beamwright.from_torch(
                *modules, example, (vocabulary, TOKENS), folder / name / "1", length_axis=axis
            )
            assert "agree with PyTorch" in made.checked, made
            assert modules[1].training, "the module was left in eval mode"
            print(f"{name}: {made}\n")
        check_refusals(folder)
        run_page(folder / "page")


if __name__ == "__main__":
    main()
