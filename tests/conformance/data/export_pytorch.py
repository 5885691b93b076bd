#!/usr/bin/env python3
"""Writes the suite `pytorch`: small recurrent models as PyTorch's two ONNX exporters and OpenVINO's converter write
them, with PyTorch's results.

Usage: export_pytorch.py OUT [--only NAME]   (README.md has the versions; weights and inputs follow from the seed)
"""

import argparse
import pathlib
import sys
from typing import List

import numpy as np
import openvino
import torch
from openvino._offline_transformations import apply_make_stateful_transformation
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from generator.onnx_build import operators_of, save_arrays  # noqa: E402
from generator.openvino_build import layer_types  # noqa: E402

import onnx  # noqa: E402

SEED = 20261121
VOCABULARY, WIDTH, HIDDEN = 11, 6, 8
OPSETS = {"torchscript": 17, "dynamo": 20}


class Recurrent(nn.Module):
    """nn.LSTM, nn.GRU or nn.RNN over [batch, time, 6]."""

    def __init__(self, kind, **options):
        super().__init__()
        self.layers = kind(WIDTH, HIDDEN, batch_first=True, **options)

    def forward(self, x):
        y, state = self.layers(x)
        return (y, *state) if isinstance(state, tuple) else (y, state)


class Encoder(nn.Module):
    """Token ids [batch, source] to memory [batch, source, 2 * hidden] and the decoder's first states."""

    def __init__(self, kind):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.layer = kind(WIDTH, HIDDEN, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * HIDDEN, HIDDEN)

    def forward(self, source):
        memory, state = self.layer(self.table(source))
        last = state[0] if isinstance(state, tuple) else state
        first = torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=1)))
        return memory, first


class Step(nn.Module):
    """One step of a decoder with attention over the encoder's memory, padded places masked out."""

    def __init__(self, kind):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.cell = kind(WIDTH, HIDDEN)
        self.keys = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.project = nn.Linear(3 * HIDDEN, VOCABULARY)

    def forward(self, token, memory, mask, *states):
        x = self.table(token)
        states = self.cell(x, states if len(states) > 1 else states[0])
        states = states if isinstance(states, tuple) else (states,)
        scores = torch.bmm(self.keys(memory), states[0].unsqueeze(2)).squeeze(2) / HIDDEN**0.5
        weights = torch.softmax(scores.masked_fill(~mask, -1e9), dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        logits = self.project(torch.cat([states[0], context], dim=1))
        return (torch.log_softmax(logits, dim=1), weights, *states)


class Heads(nn.Module):
    """One step of a decoder that attends with several heads, padded places masked out."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, HIDDEN)
        self.cell = nn.GRUCell(HIDDEN, HIDDEN)
        self.attention = nn.MultiheadAttention(HIDDEN, 4, batch_first=True)
        self.project = nn.Linear(2 * HIDDEN, VOCABULARY)

    def forward(self, token, memory, mask, h):
        h = self.cell(self.table(token), h)
        context, _ = self.attention(
            h.unsqueeze(1), memory, memory, key_padding_mask=~mask, need_weights=False
        )
        return torch.log_softmax(self.project(torch.cat([h, context.squeeze(1)], 1)), 1), h


class Cells(nn.Module):
    """A decoder over the whole target, scripted around a cell: a layer of one step inside a Loop."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.cell = nn.LSTMCell(WIDTH, HIDDEN)
        self.project = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, tokens, h, c):
        logits: List[torch.Tensor] = []
        for t in range(tokens.shape[1]):
            h, c = self.cell(self.table(tokens[:, t]), (h, c))
            logits.append(self.project(h))
        return torch.stack(logits, 1), h, c


class Greedy(nn.Module):
    """A decoder's loop, scripted: becomes ONNX's Loop."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, HIDDEN)
        self.state = nn.Linear(2 * HIDDEN, HIDDEN)
        self.project = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, token, state, steps: int):
        logits = self.project(state)
        for _ in range(steps):
            state = torch.tanh(self.state(torch.cat([self.table(token), state], dim=1)))
            logits = self.project(state)
            token = torch.argmax(logits, dim=1)
        return token, state, logits


class Frames(nn.Module):
    """Feature frames [batch, time, 12] through two convolutions and an LSTM, as speech encoders do."""

    def __init__(self):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, stride=(1, 2), padding=1),
            nn.ReLU(),
            nn.MaxPool2d((1, 3)),
        )
        self.layer = nn.LSTM(4, HIDDEN, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(2 * HIDDEN)

    def forward(self, frames):
        x = self.convolutions(frames.unsqueeze(1))
        x = x.permute(0, 2, 1, 3).flatten(2)
        return self.norm(self.layer(x)[0])


def floats(*shape):
    return torch.randn(*shape)


def tokens(*shape):
    return torch.randint(0, VOCABULARY, shape)


def mask(*lengths):
    return torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]


def models():
    """Name -> (module, data sets, dynamic axes of each input, exporters)."""
    both = [*OPSETS, "openvino"]
    sequence = {0: "batch", 1: "time"}
    result = {}
    for name, kind in (("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)):
        sets = [(floats(3, 5, WIDTH),), (floats(2, 7, WIDTH),)]
        exporters = (
            ["torchscript", "openvino"] if kind is nn.RNN else both
        )  # the new one fixes the RNN's length
        result[f"nn_{name}"] = Recurrent(kind), sets, [sequence], exporters
        result[f"nn_{name}_two_layers_bidirectional"] = (
            Recurrent(kind, num_layers=2, bidirectional=True),
            sets,
            [sequence],
            exporters,
        )
    for name, kind, cell, count in (
        ("lstm", nn.LSTM, nn.LSTMCell, 2),
        ("gru", nn.GRU, nn.GRUCell, 1),
    ):
        result[f"encoder_{name}"] = (
            Encoder(kind),
            [(tokens(3, 5),), (tokens(2, 8),)],
            [sequence],
            both,
        )
        sets = [
            (
                tokens(batch),
                floats(batch, max(lengths), 2 * HIDDEN),
                mask(*lengths),
                *(floats(batch, HIDDEN) for _ in range(count)),
            )
            for batch, lengths in ((3, (5, 2, 4)), (2, (1, 7)))
        ]
        axes = [
            {0: "batch"},
            {0: "batch", 1: "source"},
            {0: "batch", 1: "source"},
            *[{0: "batch"}] * count,
        ]
        result[f"step_{name}"] = Step(cell), sets, axes, [*both, "stateful"]
    result["frames"] = Frames(), [(floats(2, 10, 12),), (floats(3, 16, 12),)], [sequence], both
    loop_sets = [(tokens(2), floats(2, HIDDEN), steps) for steps in (4, 1)]
    result["greedy_loop"] = (
        torch.jit.script(Greedy()),
        loop_sets,
        [{0: "batch"}, {0: "batch"}, {}],
        ["torchscript", "openvino"],
    )
    result["step_heads"] = (
        Heads(),
        [
            (tokens(batch), floats(batch, max(lengths), HIDDEN), mask(*lengths), floats(batch, HIDDEN))
            for batch, lengths in ((3, (5, 2, 4)), (2, (1, 7)))
        ],
        [{0: "batch"}, {0: "batch", 1: "source"}, {0: "batch", 1: "source"}, {0: "batch"}],
        ["dynamo"],  # the old one fixes the source's length; OpenVINO writes an operator that is not supported
    )
    result["loop_of_cells"] = (
        torch.jit.script(Cells()),
        [(tokens(*shape), floats(shape[0], HIDDEN), floats(shape[0], HIDDEN)) for shape in ((3, 4), (2, 1))],
        [sequence, {0: "batch"}, {0: "batch"}],
        ["torchscript"],
    )
    return result


def convert(module, inputs, axes, path, stateful):
    """OpenVINO's own reading of the module. stateful: the states of a Step become variables, which are named after
    the input and the output that they were."""
    inputs = tuple(torch.tensor(x) if isinstance(x, int) else x for x in inputs)
    model = openvino.convert_model(module, example_input=inputs)
    shapes = {}
    for index, (port, value, dims) in enumerate(zip(model.inputs, inputs, axes, strict=True)):
        port.get_tensor().set_names({f"x{index}"})
        shapes[f"x{index}"] = openvino.PartialShape(
            [-1 if axis in dims else extent for axis, extent in enumerate(value.shape)]
        )
    model.reshape(shapes)
    for index, port in enumerate(model.outputs):
        port.get_tensor().set_names({f"y{index}"})
    if stateful:
        pairs = {f"x{3 + i}": f"y{2 + i}" for i in range(len(inputs) - 3)}
        apply_make_stateful_transformation(model, pairs)
    openvino.save_model(model, path, compress_to_fp16=False)


def export(module, inputs, axes, exporter, path):
    names = [f"x{i}" for i in range(len(inputs))]
    common = dict(input_names=names, opset_version=OPSETS[exporter])
    if exporter == "torchscript":
        torch.onnx.export(
            module,
            tuple(torch.tensor(x) if isinstance(x, int) else x for x in inputs),
            path,
            dynamo=False,
            dynamic_axes=dict(zip(names, axes)),
            **common,
        )
        return
    shapes = tuple({axis: torch.export.Dim.DYNAMIC for axis in dims} for dims in axes)
    if isinstance(module, Step):
        shapes = (*shapes[:3], shapes[3:])  # the states arrive as *states
    torch.onnx.export(
        module, inputs, path, dynamo=True, dynamic_shapes=shapes, external_data=False, **common
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("--only", help="one model of the list; prints its lines of the manifest")
    arguments = parser.parse_args()
    out = arguments.out
    torch.manual_seed(SEED)
    lines = []
    for name, (module, data_sets, axes, exporters) in models().items():
        if arguments.only not in (None, name):
            continue
        module.eval()
        for exporter in exporters:
            folder = out / f"{name},{exporter}"
            folder.mkdir(parents=True, exist_ok=True)
            if exporter in OPSETS:
                export(module, data_sets[0], axes, exporter, folder / "model.onnx")
                model = onnx.load_model(folder / "model.onnx")
                for node in model.graph.node:
                    node.doc_string = ""
                    del node.metadata_props[:]  # source lines of the machine that exported
                onnx.save_model(model, folder / "model.onnx")
                used = [value.name for value in model.graph.input]
                operators = operators_of(model)
            else:
                path = folder / "model.xml"
                convert(module, data_sets[0], axes, path, exporter == "stateful")
                used = [f"x{i}" for i in range(len(data_sets[0]))]
                operators = layer_types(path)
            for index, inputs in enumerate(data_sets):
                with torch.no_grad():
                    outputs = module(*inputs)
                outputs = outputs if isinstance(outputs, tuple) else (outputs,)
                arrays = {f"x{i}": np.asarray(x) for i, x in enumerate(inputs)}
                if exporter == "stateful":
                    arrays = {
                        key if i < 3 else f"{key}y{i - 1}": array
                        for i, (key, array) in enumerate(arrays.items())
                    }
                    used = list(arrays)
                save_arrays(folder / f"inputs_{index}.npz", {key: arrays[key] for key in used})
                save_arrays(
                    folder / f"outputs_{index}.npz",
                    {str(i): y.detach().numpy() for i, y in enumerate(outputs)},
                )
            lines.append(f"{folder.name}\t0\t{','.join(operators)}\n")
    if arguments.only:
        print("".join(lines), end="")
    else:
        (out / "manifest.tsv").write_text("".join(lines))


if __name__ == "__main__":
    main()
