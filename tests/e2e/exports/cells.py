"""Decoders that differ in their recurrent part. Each is one step unless its name says 'whole'; all read the encoder's
memory by dot products (models.py), so that what differs is the cell."""

from typing import List

import torch
from models import TOKENS, WIDTH, Attention, Encoder, WholeDecoder, step, whole
from torch import nn


class CellStep(nn.Module):
    """Embeds a token, advances by `advance(x, states) -> (hidden, states)`, attends, scores."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.attention = Attention()
        self.output = nn.Linear(3 * WIDTH, TOKENS)

    def finish(self, hidden, memory):
        read, weights = self.attention(hidden, memory)
        return self.output(torch.cat([hidden, read], 1)), weights


class RnnCellStep(CellStep):
    def __init__(self, nonlinearity):
        super().__init__()
        self.cell = nn.RNNCell(WIDTH, WIDTH, nonlinearity=nonlinearity)

    def forward(self, token, memory, h):
        h = self.cell(self.embed(token), h)
        logits, weights = self.finish(h, memory)
        return logits, h, weights


class StackedCellsStep(CellStep):
    """Two GRU cells, the second on top of the first, with a residual connection."""

    def __init__(self):
        super().__init__()
        self.lower = nn.GRUCell(WIDTH, WIDTH)
        self.upper = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, token, memory, h0, h1):
        x = self.embed(token)
        h0 = self.lower(x, h0)
        h1 = self.upper(h0 + x, h1)
        logits, weights = self.finish(h1, memory)
        return logits, h0, h1, weights


class LayerStep(CellStep):
    """nn.GRU or nn.RNN with two layers over one token: states [layers, rows, width]."""

    def __init__(self, layer, **options):
        super().__init__()
        self.layer = layer(WIDTH, WIDTH, num_layers=2, batch_first=True, **options)

    def forward(self, token, memory, h):
        hidden, h = self.layer(self.embed(token).unsqueeze(1), h)
        logits, weights = self.finish(hidden.squeeze(1), memory)
        return logits, h, weights


class ProjectedLstmStep(CellStep):
    """nn.LSTM with proj_size: h is narrower than c."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(WIDTH, 2 * WIDTH, proj_size=WIDTH, batch_first=True)

    def forward(self, token, memory, h, c):
        hidden, (h, c) = self.layer(self.embed(token).unsqueeze(1), (h, torch.cat([c, c], 2)))
        logits, weights = self.finish(hidden.squeeze(1), memory)
        return logits, h, c[:, :, :WIDTH], weights


class ProjectedCellStep(CellStep):
    """LSTM with a recurrent projection (Sak et al., 2014) in primitive operators, as ONNX's LSTM has none."""

    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(2 * WIDTH, 4 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, token, memory, h, c):
        i, f, g, o = self.gates(torch.cat([self.embed(token), h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = self.projection(torch.sigmoid(o) * torch.tanh(c))
        logits, weights = self.finish(h, memory)
        return logits, h, c, weights


class PeepholeStep(CellStep):
    """LSTM whose gates see the cell state (Gers and Schmidhuber, 2000)."""

    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(2 * WIDTH, 4 * WIDTH)
        self.peep = nn.Parameter(torch.randn(3, WIDTH) * 0.2)

    def forward(self, token, memory, h, c):
        i, f, g, o = self.gates(torch.cat([self.embed(token), h], 1)).chunk(4, 1)
        i = torch.sigmoid(i + self.peep[0] * c)
        f = torch.sigmoid(f + self.peep[1] * c)
        c = f * c + i * torch.tanh(g)
        h = torch.sigmoid(o + self.peep[2] * c) * torch.tanh(c)
        logits, weights = self.finish(h, memory)
        return logits, h, c, weights


class NormedLstmStep(CellStep):
    """LSTM with layer normalisation of the gates and the cell (Ba et al., 2016)."""

    def __init__(self):
        super().__init__()
        self.x = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.h = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.norm_x, self.norm_h = nn.LayerNorm(4 * WIDTH), nn.LayerNorm(4 * WIDTH)
        self.norm_c = nn.LayerNorm(WIDTH)

    def forward(self, token, memory, h, c):
        gates = self.norm_x(self.x(self.embed(token))) + self.norm_h(self.h(h))
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(self.norm_c(c))
        logits, weights = self.finish(h, memory)
        return logits, h, c, weights


class QrnnStep(CellStep):
    """Quasi-recurrent (Bradbury et al., 2017): a convolution over two tokens, then fo-pooling. The last embedding is a
    state."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Linear(2 * WIDTH, 3 * WIDTH)

    def forward(self, token, memory, last, c):
        x = self.embed(token)
        z, f, o = self.convolution(torch.cat([last, x], 1)).chunk(3, 1)
        f = torch.sigmoid(f)
        c = f * c + (1 - f) * torch.tanh(z)
        logits, weights = self.finish(torch.sigmoid(o) * c, memory)
        return logits, x, c, weights


class MinGruStep(CellStep):
    """minGRU (Feng et al., 2024): gate and candidate follow from the input alone."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)
        self.candidate = nn.Linear(WIDTH, WIDTH)

    def forward(self, token, memory, h):
        x = self.embed(token)
        z = torch.sigmoid(self.gate(x))
        candidate = self.candidate(x)
        candidate = torch.where(candidate >= 0, candidate + 0.5, torch.sigmoid(candidate))
        h = (1 - z) * h + z * candidate
        logits, weights = self.finish(torch.tanh(h), memory)
        return logits, h, weights


class MinLstmStep(CellStep):
    """minLSTM (Feng et al., 2024): its two gates, which add up to 1, follow from the input alone."""

    def __init__(self):
        super().__init__()
        self.all = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, token, memory, h):
        f, i, candidate = self.all(self.embed(token)).split(WIDTH, 1)
        f, i = torch.sigmoid(f), torch.sigmoid(i)
        candidate = torch.where(candidate >= 0, candidate + 0.5, torch.sigmoid(candidate))
        h = (f * h + i * candidate) / (f + i)
        logits, weights = self.finish(torch.tanh(h), memory)
        return logits, h, weights


class HgrnStep(CellStep):
    """HGRN2 (Qin et al., 2024) with two heads: forget gates above a lower bound, and a matrix as state."""

    def __init__(self):
        super().__init__()
        self.all = nn.Linear(WIDTH, 3 * WIDTH)
        self.bound = nn.Parameter(torch.rand(2, WIDTH // 2) * 0.5)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, token, memory, s):
        heads = self.all(self.embed(token)).view(-1, 3, 2, WIDTH // 2)
        query, value = heads[:, 0], heads[:, 2]
        forget = self.bound + (1 - self.bound) * torch.sigmoid(heads[:, 1])
        s = forget.unsqueeze(3) * s + (1 - forget).unsqueeze(3) * value.unsqueeze(2)
        read = torch.matmul(query.unsqueeze(2), s).reshape(-1, WIDTH)
        logits, weights = self.finish(torch.tanh(self.norm(read)), memory)
        return logits, s, weights


class MatrixEncoder(Encoder):
    """The first matrix is made of the first state."""

    def __init__(self):
        super().__init__(nn.GRU, 1)

    def forward(self, source):
        memory, h = super().forward(source)
        heads = h.view(-1, 2, WIDTH // 2)
        return memory, heads.unsqueeze(3) * heads.unsqueeze(2)


class SruStep(CellStep):
    """Simple recurrent unit (Lei et al., 2018) with its highway connection."""

    def __init__(self):
        super().__init__()
        self.all = nn.Linear(WIDTH, 3 * WIDTH)
        self.peep = nn.Parameter(torch.randn(2, WIDTH) * 0.2)

    def forward(self, token, memory, c):
        x = self.embed(token)
        value, f, r = self.all(x).split(WIDTH, 1)
        f = torch.sigmoid(f + self.peep[0] * c)
        r = torch.sigmoid(r + self.peep[1] * c)
        c = f * c + (1 - f) * value
        logits, weights = self.finish(r * c + (1 - r) * x, memory)
        return logits, c, weights


class IndRnnStep(CellStep):
    """Independently recurrent (Li et al., 2018): each unit sees its own past alone."""

    def __init__(self):
        super().__init__()
        self.x = nn.Linear(WIDTH, WIDTH)
        self.recurrent = nn.Parameter(torch.rand(WIDTH) * 0.3)

    def forward(self, token, memory, h):
        h = torch.relu(self.x(self.embed(token)) + self.recurrent * h)
        logits, weights = self.finish(torch.tanh(h), memory)
        return logits, h, weights


class TcnStep(CellStep):
    """A temporal convolution whose state is the window of the last inputs: [rows, width, 4], dilation 2."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, dilation=2)
        self.start = nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, token, memory, window):
        seen = torch.cat([window, self.embed(token).unsqueeze(2)], 2)
        hidden = torch.relu(self.convolution(seen)).squeeze(2)
        logits, weights = self.finish(torch.tanh(hidden), memory)
        return logits, seen[:, :, 1:], weights


class WindowEncoder(Encoder):
    """The first window is made of the first state."""

    def __init__(self):
        super().__init__(nn.GRU, 1)
        self.window = nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, source):
        memory, state = super().forward(source)
        return memory, torch.tanh(self.window(state)).view(-1, WIDTH, 4)


class PackedEncoder(Encoder):
    """pack_padded_sequence around the layer: takes the lengths of sources."""

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embed(source), lengths, batch_first=True, enforce_sorted=False
        )
        memory, last = self.layer(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(memory, batch_first=True)
        both = torch.cat([last[0], last[1]], 1)
        return memory, torch.tanh(self.bridges[0](both))


class DeepEncoder(Encoder):
    """Two bidirectional LSTM layers."""

    def __init__(self):
        super().__init__(nn.LSTM, 1)
        self.layer = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, source):
        memory, (last, _) = self.layer(self.embed(source))
        return memory, torch.tanh(self.bridges[0](torch.cat([last[-2], last[-1]], 1)))


class WholeRnn(WholeDecoder):
    def __init__(self):
        super().__init__(nn.RNN)

    def forward(self, tokens, memory, h):
        hidden, _ = self.layer(self.embed(tokens), h.unsqueeze(0))
        return self.attend(hidden, memory)


class WholeTwoLayers(WholeDecoder):
    """nn.LSTM with two layers, both of which begin with the same states."""

    def __init__(self):
        super().__init__(nn.LSTM)
        self.layer = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)

    def forward(self, tokens, memory, h, c):
        hidden, _ = self.layer(self.embed(tokens), (torch.stack([h, h]), torch.stack([c, c])))
        return self.attend(hidden, memory)


@torch.jit.script
def scan_gru_cell(x, h, w_ih, w_hh, b_ih, b_hh):
    """What a loop over nn.GRUCell is once it is scripted."""
    states: List[torch.Tensor] = []
    for t in range(x.size(1)):
        h = torch.gru_cell(x[:, t], h, w_ih, w_hh, b_ih, b_hh)
        states.append(h)
    return torch.stack(states, 1)


class WholeScannedCells(WholeDecoder):
    def __init__(self):
        super().__init__(lambda inputs, width, batch_first: nn.GRUCell(inputs, width))

    def forward(self, tokens, memory, h):
        cell = self.layer
        weights = (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
        return self.attend(scan_gru_cell(self.embed(tokens), h, *weights), memory)


def cells():
    """Name -> Export."""
    layered = dict(state_axes=(None, "rows"))
    scripted = ("torchscript", "openvino")  # dynamo's exporter knows no scripted functions
    packed = step(PackedEncoder(nn.GRU, 1), RnnCellStep("tanh"), ["h"])
    packed.source["lengths"] = ("rows",)
    return {
        "rnn_cell_tanh": step(Encoder(nn.GRU, 1), RnnCellStep("tanh"), ["h"]),
        "rnn_cell_relu": step(Encoder(nn.GRU, 1), RnnCellStep("relu"), ["h"]),
        "stacked_gru_cells": step(Encoder(nn.GRU, 2), StackedCellsStep(), ["h0", "h1"]),
        "layered_gru": step(Encoder(nn.GRU, 1, 2), LayerStep(nn.GRU), ["h"], **layered),
        "layered_rnn": step(Encoder(nn.GRU, 1, 2), LayerStep(nn.RNN), ["h"], **layered),
        "projected_lstm": step(Encoder(nn.LSTM, 2, 1), ProjectedLstmStep(), ["h", "c"], **layered),
        "projected_cell": step(Encoder(nn.LSTM, 2), ProjectedCellStep(), ["h", "c"]),
        "peephole_lstm": step(Encoder(nn.LSTM, 2), PeepholeStep(), ["h", "c"]),
        "normed_lstm": step(Encoder(nn.LSTM, 2), NormedLstmStep(), ["h", "c"]),
        "qrnn": step(Encoder(nn.GRU, 2), QrnnStep(), ["last", "c"]),
        "min_gru": step(Encoder(nn.GRU, 1), MinGruStep(), ["h"]),
        "min_lstm": step(Encoder(nn.GRU, 1), MinLstmStep(), ["h"]),
        "hgrn2": step(MatrixEncoder(), HgrnStep(), ["s"]),
        "sru": step(Encoder(nn.GRU, 1), SruStep(), ["c"]),
        "ind_rnn": step(Encoder(nn.GRU, 1), IndRnnStep(), ["h"]),
        "tcn": step(WindowEncoder(), TcnStep(), ["window"]),
        "packed_encoder": packed,
        "deep_bidirectional": step(DeepEncoder(), RnnCellStep("tanh"), ["h"]),
        "whole_rnn": whole(Encoder(nn.GRU, 1), WholeRnn(), ["h"]),
        "whole_two_layers": whole(Encoder(nn.GRU, 2), WholeTwoLayers(), ["h", "c"]),
        "whole_scanned_cells": whole(
            Encoder(nn.GRU, 1), WholeScannedCells(), ["h"], exporters=scripted
        ),
    }
