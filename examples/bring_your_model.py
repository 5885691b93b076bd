#!/usr/bin/env python3
"""A small sequence model in PyTorch, exported for Beamwright: docs/bring-your-model.md walks through it.

The model spells a word backwards: an encoder reads its letters, a recurrent decoder with attention writes
them. It is written to OUT as encoder.onnx and decoder.onnx, with its vocabularies, and with inputs and
outputs of the decoder in .npz files, so that `beamwright-graph init --replay` can compare.

--form step   the decoder is one step, with its states as inputs and outputs; any cell can be exported so
--form whole  the decoder reads the whole target, as in training: the loop is in the graph

Without --train the weights are random: enough for looking at files, not for answers.
"""

import argparse
import inspect
import pathlib
import random
import warnings
from typing import List

import numpy as np
import torch
from torch import nn

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENS = ["<s>", "</s>", *LETTERS]
BEGIN, END = 0, 1


class Encoder(nn.Module):
    """source [rows, length] -> memory [rows, length, 2 width] and the decoder's first states."""

    def __init__(self, cell, width):
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS), width)
        self.layer = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.start = nn.ModuleList(nn.Linear(2 * width, width) for _ in CELLS[cell].states)

    def forward(self, source):
        memory, _ = self.layer(self.embed(source))
        summary = memory.mean(1)
        return (memory, *(torch.tanh(start(summary)) for start in self.start))


class LstmCell(nn.Module):
    states = ["h", "c"]

    def __init__(self, inputs, width):
        super().__init__()
        self.cell = nn.LSTMCell(inputs, width)

    def forward(self, x, states):
        return self.cell(x, states)


class GruCell(nn.Module):
    states = ["h"]

    def __init__(self, inputs, width):
        super().__init__()
        self.cell = nn.GRUCell(inputs, width)

    def forward(self, x, states):
        return (self.cell(x, states[0]),)


class SsruCell(nn.Module):
    """Simpler simple recurrent unit (Kim et al., 2019): c = f c' + (1 - f) W x, f = sigmoid(V x)."""

    states = ["c"]

    def __init__(self, inputs, width):
        super().__init__()
        self.forget = nn.Linear(inputs, width)
        self.value = nn.Linear(inputs, width, bias=False)

    def forward(self, x, states):
        forget = torch.sigmoid(self.forget(x))
        return (forget * states[0] + (1 - forget) * self.value(x),)


@torch.jit.script
def scan_ssru(forget, value, state):
    """States [rows, steps, width] from a first one [rows, width]; scripted, the loop becomes ONNX's Loop."""
    states: List[torch.Tensor] = []
    for t in range(forget.size(1)):
        state = forget[:, t] * state + (1 - forget[:, t]) * value[:, t]
        states.append(state)
    return torch.stack(states, 1)


class SsruLayer(SsruCell):
    """The same over x [rows, steps, inputs]: PyTorch has no such layer."""

    def forward(self, x, state):
        return scan_ssru(torch.sigmoid(self.forget(x)), self.value(x), state)


CELLS = {"lstm": LstmCell, "gru": GruCell, "ssru": SsruCell}


class Attention(nn.Module):
    """queries [rows, steps, width] over memory [rows, length, 2 width]: what is read, and the weights."""

    def __init__(self, width):
        super().__init__()
        self.project = nn.Linear(width, 2 * width, bias=False)

    def forward(self, queries, memory):
        weights = torch.softmax(self.project(queries) @ memory.transpose(1, 2), -1)
        return weights @ memory, weights


class StepDecoder(nn.Module):
    """token [rows], states [rows, width] and memory -> logits [rows, tokens], the next states, attention."""

    def __init__(self, cell, width):
        super().__init__()
        self.embed = nn.Embedding(len(TOKENS), width)
        self.cell = CELLS[cell](3 * width, width)
        self.attention = Attention(width)
        self.output = nn.Linear(3 * width, len(TOKENS))

    def forward(self, token, memory, *states):
        read, weights = self.attention(states[0].unsqueeze(1), memory)
        states = self.cell(torch.cat([self.embed(token), read.squeeze(1)], 1), states)
        logits = self.output(torch.cat([states[0], read.squeeze(1)], 1))
        return (logits, *states, weights.squeeze(1))

    def scores(self, tokens, memory, states):
        """Logits of every step [rows, steps, tokens], for training."""
        steps = []
        for token in tokens.unbind(1):
            logits, *states, _ = self(token, memory, *states)
            steps.append(logits)
        return torch.stack(steps, 1)


class WholeDecoder(nn.Module):
    """tokens [rows, steps], first states and memory -> logits [rows, steps, tokens], attention."""

    def __init__(self, cell, width):
        super().__init__()
        self.embed = nn.Embedding(len(TOKENS), width)
        self.is_ssru = cell == "ssru"
        if self.is_ssru:
            self.layer = SsruLayer(width, width)
        else:
            self.layer = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](width, width, batch_first=True)
        self.attention = Attention(width)
        self.output = nn.Linear(3 * width, len(TOKENS))

    def forward(self, tokens, memory, *states):
        if self.is_ssru:
            hidden = self.layer(self.embed(tokens), states[0])
        else:
            starts = tuple(state.unsqueeze(0) for state in states)
            hidden, _ = self.layer(self.embed(tokens), starts if len(starts) > 1 else starts[0])
        read, weights = self.attention(hidden, memory)
        return self.output(torch.cat([hidden, read], 2)), weights

    def scores(self, tokens, memory, states):
        return self(tokens, memory, *states)[0]


def train(encoder, decoder, steps):
    """Teaches both to spell words of 2 to 8 letters backwards; a batch has words of one length."""
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=3e-3)
    for step in range(1, steps + 1):
        source = torch.randint(len(LETTERS), (64, random.randint(2, 8)))
        target = source.flip(1) + TOKENS.index(LETTERS[0])
        frame = torch.ones(len(source), 1, dtype=torch.int64)
        memory, *states = encoder(source)
        logits = decoder.scores(torch.cat([frame * BEGIN, target], 1), memory, states)
        wanted = torch.cat([target, frame * END], 1)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)


def export(module, inputs, input_axes, output_axes, path):
    """Writes the module as ONNX. The axes that are named may have any extent when it is used."""
    # The exporter that newer versions take by default knows no scripted loops.
    options = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    torch.onnx.export(module, tuple(inputs), str(path), opset_version=14,
                      input_names=list(input_axes), output_names=list(output_axes),
                      dynamic_axes={**input_axes, **output_axes}, **options)


def save(path, names, tensors):
    np.savez(path, **{name: tensor.detach().numpy() for name, tensor in zip(names, tensors)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="folder to write; made if it is missing")
    parser.add_argument("--form", choices=["step", "whole"], default="step")
    parser.add_argument("--cell", choices=list(CELLS), default="lstm")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--train", type=int, default=0, metavar="STEPS", help="about 2,000 will do")
    args = parser.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    warnings.filterwarnings("ignore")

    encoder = Encoder(args.cell, args.width)
    decoder = (StepDecoder if args.form == "step" else WholeDecoder)(args.cell, args.width)
    train(encoder, decoder, args.train)
    encoder.eval()
    decoder.eval()

    args.out.mkdir(parents=True, exist_ok=True)
    rows, length = {0: "rows"}, {0: "rows", 1: "length"}
    names = CELLS[args.cell].states
    source = torch.randint(len(LETTERS), (2, 5))
    memory, *states = encoder(source)
    export(encoder, [source], {"source": length},
           {"memory": length, **{name: rows for name in names}}, args.out / "encoder.onnx")

    # Decoder inputs bear the names of the encoder's results that they take.
    if args.form == "step":
        token, token_axes = torch.tensor([3, 5]), {"token": rows}
        outputs = {"logits": rows, **{f"{name}_next": rows for name in names}, "attention": length}
    else:
        token, token_axes = torch.tensor([[0, 3, 5, 7], [0, 9, 2, 4]]), {"tokens": {0: "rows", 1: "steps"}}
        outputs = {"logits": {0: "rows", 1: "steps"}, "attention": {0: "rows", 1: "steps", 2: "length"}}
    inputs = {**token_axes, "memory": length, **{name: rows for name in names}}
    values = [token, memory, *states]
    export(decoder, values, inputs, outputs, args.out / "decoder.onnx")

    with torch.no_grad():
        results = decoder(*values)
    save(args.out / "inputs.npz", inputs, values)
    save(args.out / "outputs.npz", outputs, results)
    (args.out / "source.vocab").write_text("\n".join(LETTERS) + "\n", encoding="utf-8")
    (args.out / "target.vocab").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
