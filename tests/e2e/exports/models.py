"""Sequence models as teams write them: an encoder, and a decoder that is one step or reads the whole target.

Weights are random and larger than PyTorch makes them, so that distributions have a shape to search in.
Decoders take their first states and the memory under the names of the encoder's results.
"""

import dataclasses
from typing import List

import torch
from torch import nn

SOURCES, TOKENS = 17, 13  # ids
BEGIN, END = 0, 1
WIDTH, FRAME = 10, 12
HEIGHT = 8  # of pictures


@dataclasses.dataclass
class Export:
    """A model to export. Axes by position: 'rows', 'length' (of the source), 'steps' (of the target), 'past' (of a cache)."""

    encoder: nn.Module
    decoder: nn.Module
    source: dict  # encoder input -> axes
    results: dict  # encoder output -> axes
    inputs: dict  # decoder input -> axes; the first one takes the tokens
    outputs: dict  # decoder output -> axes; the logits first
    states: tuple = ()  # of a step: inputs; the output of each is <name>_next
    start_at_zero: tuple = ()  # states that the encoder does not give
    caches: tuple = ()  # states [rows, heads, past, width of a head] that start empty and grow
    counts: tuple = ()  # inputs [1] or [rows, 1]: the number of the step
    exporters: tuple = ("torchscript", "dynamo", "openvino")


class Attention(nn.Module):
    """Dot products with a projected query [rows, width]: what is read [rows, memory width], and the weights."""

    def __init__(self, memory_width=2 * WIDTH):
        super().__init__()
        self.query = nn.Linear(WIDTH, memory_width, bias=False)

    def forward(self, query, memory):
        weights = torch.softmax(torch.einsum("rd,rld->rl", self.query(query), memory), 1)
        return torch.einsum("rl,rld->rd", weights, memory), weights


class AdditiveAttention(nn.Module):
    """Bahdanau's: v tanh(W query + U memory)."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.keys = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.energy = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, query, memory):
        hidden = torch.tanh(self.query(query).unsqueeze(1) + self.keys(memory))
        weights = torch.softmax(self.energy(hidden).squeeze(-1), -1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class Encoder(nn.Module):
    """Token ids -> memory and a first state from the last states of both directions, for each name."""

    def __init__(self, layer, num_states, num_layers=0):
        super().__init__()
        self.embed = nn.Embedding(SOURCES, WIDTH)
        self.layer = layer(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.bridges = nn.ModuleList(
            nn.Linear(2 * WIDTH, max(num_layers, 1) * WIDTH) for _ in range(num_states)
        )
        self.num_layers = num_layers

    def forward(self, source):
        memory, last = self.layer(self.embed(source))
        last = last[0] if isinstance(last, tuple) else last
        both = torch.cat([last[0], last[1]], 1)
        states = [torch.tanh(bridge(both)) for bridge in self.bridges]
        if self.num_layers:  # nn.LSTM's own layout: [layers, rows, width]
            states = [torch.stack(state.chunk(self.num_layers, 1)) for state in states]
        return (memory, *states)


class FramesEncoder(nn.Module):
    """Feature frames [rows, length, 12] through two convolutions, which halve the length, and an LSTM."""

    def __init__(self):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, stride=(1, 2), padding=1),
            nn.ReLU(),
        )
        self.layer = nn.LSTM(4 * FRAME // 4, WIDTH, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, frames):
        x = self.convolutions(frames.unsqueeze(1))
        x = x.permute(0, 2, 1, 3).flatten(2)
        memory, _ = self.layer(x)
        return memory, torch.tanh(self.bridge(memory.mean(1)))


class PictureEncoder(nn.Module):
    """A CRNN, as readers of text in pictures have it: [rows, 1, 8, width] through convolutions and pools to columns,
    a fourth as many as the picture is wide, and an LSTM over these."""

    def __init__(self):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.layer = nn.LSTM(6 * HEIGHT // 4, WIDTH, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, image):
        columns = self.convolutions(image).permute(0, 3, 1, 2).flatten(2)
        memory, _ = self.layer(columns)
        return memory, torch.tanh(self.bridge(memory.amax(1)))


class InputFeedingStep(nn.Module):
    """Luong's: the last attentional vector is part of the next input, and so a state."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.cell = nn.LSTMCell(2 * WIDTH, WIDTH)
        self.attention = Attention()
        self.combine = nn.Linear(3 * WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, TOKENS)

    def forward(self, token, memory, h, c, feed):
        h, c = self.cell(torch.cat([self.embed(token), feed], 1), (h, c))
        read, weights = self.attention(h, memory)
        feed = torch.tanh(self.combine(torch.cat([h, read], 1)))
        return self.output(feed), h, c, feed, weights


class GruStep(nn.Module):
    """Additive attention by the last state; gives log-probabilities. Tokens 4 and 5 are twins: every
    hypothesis with one of them ties with the one with the other."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.cell = nn.GRUCell(3 * WIDTH, WIDTH)
        self.attention = AdditiveAttention()
        self.output = nn.Linear(3 * WIDTH, TOKENS)

    def forward(self, token, memory, h):
        read, weights = self.attention(h, memory)
        h = self.cell(torch.cat([self.embed(token), read], 1), h)
        return torch.log_softmax(self.output(torch.cat([h, read], 1)), -1), h, weights


class SsruCell(nn.Module):
    """Simpler simple recurrent unit: c = f c' + (1 - f) W x, f = sigmoid(V x)."""

    def __init__(self, inputs):
        super().__init__()
        self.forget = nn.Linear(inputs, WIDTH)
        self.value = nn.Linear(inputs, WIDTH, bias=False)

    def forward(self, x, c):
        forget = torch.sigmoid(self.forget(x))
        return forget * c + (1 - forget) * self.value(x)


class SsruStep(nn.Module):
    """Attention by what the cell gives."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.cell = SsruCell(WIDTH)
        self.attention = Attention()
        self.output = nn.Linear(3 * WIDTH, TOKENS)

    def forward(self, token, memory, c):
        c = self.cell(self.embed(token), c)
        read, weights = self.attention(torch.relu(c), memory)
        return self.output(torch.cat([c, read], 1)), c, weights


@torch.jit.script
def scan_ssru(forget, value, state):
    """States [rows, steps, width] from a first one; scripted, the loop stays a loop."""
    states: List[torch.Tensor] = []
    for t in range(forget.size(1)):
        state = forget[:, t] * state + (1 - forget[:, t]) * value[:, t]
        states.append(state)
    return torch.stack(states, 1)


class LayeredLstmStep(nn.Module):
    """nn.LSTM over one token: two layers, whose states stay [layers, rows, width]."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.layer = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.attention = Attention()
        self.output = nn.Linear(3 * WIDTH, TOKENS)

    def forward(self, token, memory, h, c):
        hidden, (h, c) = self.layer(self.embed(token).unsqueeze(1), (h, c))
        read, weights = self.attention(hidden.squeeze(1), memory)
        return self.output(torch.cat([hidden.squeeze(1), read], 1)), h, c, weights


class TimeFirstGruStep(nn.Module):
    """As tutorials write it: tokens [1, rows], nn.GRU with the time first, attention by the last state."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.layer = nn.GRU(3 * WIDTH, WIDTH)
        self.attention = Attention()
        self.output = nn.Linear(3 * WIDTH, TOKENS)

    def forward(self, token, memory, h):
        read, weights = self.attention(h[-1], memory)
        hidden, h = self.layer(torch.cat([self.embed(token), read.unsqueeze(0)], 2), h)
        return self.output(torch.cat([hidden[0], read], 1)), h, weights


class FramesStep(nn.Module):
    """A GRU over what attention reads from the frames."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.cell = nn.GRUCell(3 * WIDTH, WIDTH)
        self.attention = Attention()
        self.output = nn.Linear(WIDTH, TOKENS)

    def forward(self, token, memory, h):
        read, weights = self.attention(h, memory)
        h = self.cell(torch.cat([self.embed(token), read], 1), h)
        return self.output(h), h, weights


class WholeDecoder(nn.Module):
    """The training module: nn.LSTM or nn.GRU over the whole target, attention that reads their output."""

    def __init__(self, layer):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.layer = layer(WIDTH, WIDTH, batch_first=True)
        self.query = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.output = nn.Linear(3 * WIDTH, TOKENS)

    def attend(self, hidden, memory):
        weights = torch.softmax(self.query(hidden) @ memory.transpose(1, 2), -1)
        return self.output(torch.cat([hidden, weights @ memory], 2)), weights


class WholeLstm(WholeDecoder):
    def __init__(self):
        super().__init__(nn.LSTM)

    def forward(self, tokens, memory, h, c):
        hidden, _ = self.layer(self.embed(tokens), (h.unsqueeze(0), c.unsqueeze(0)))
        return self.attend(hidden, memory)


class WholeGru(WholeDecoder):
    def __init__(self):
        super().__init__(nn.GRU)

    def forward(self, tokens, memory, h):
        hidden, _ = self.layer(self.embed(tokens), h.unsqueeze(0))
        return self.attend(hidden, memory)


class WholeSsru(WholeDecoder):
    def __init__(self):
        super().__init__(lambda inputs, _, batch_first: SsruCell(inputs))

    def forward(self, tokens, memory, c):
        x = self.embed(tokens)
        hidden = scan_ssru(torch.sigmoid(self.layer.forget(x)), self.layer.value(x), c)
        return self.attend(hidden, memory)


@torch.jit.script
def scan_positions(x, positions, weight, state):
    """A loop whose body reads the number of the step: each step has another vector, times its number."""
    states: List[torch.Tensor] = []
    for t in range(x.size(1)):
        step = x[:, t] + positions[t] * (t + 1)
        state = torch.tanh(step + torch.matmul(state, weight))
        states.append(state)
    return torch.stack(states, 1)


class WholePositions(WholeDecoder):
    def __init__(self):
        super().__init__(lambda inputs, width, batch_first: nn.Identity())
        self.positions = nn.Parameter(torch.randn(64, WIDTH) / 20)
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 8)

    def forward(self, tokens, memory, h):
        return self.attend(scan_positions(self.embed(tokens), self.positions, self.weight, h), memory)


class PointerEncoder(Encoder):
    """Hands on what its source is in the target's vocabulary."""

    def forward(self, source):
        memory, h, c = super().forward(source)
        return memory, h, c, source % TOKENS


class PointerStep(nn.Module):
    """A pointer-generator: a part of the probability is that of copying what attention reads."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.cell = nn.LSTMCell(3 * WIDTH, WIDTH)
        self.attention = Attention()
        self.output = nn.Linear(3 * WIDTH, TOKENS)
        self.generates = nn.Linear(3 * WIDTH, 1)

    def forward(self, token, memory, h, c, copied):
        read, weights = self.attention(h, memory)
        h, c = self.cell(torch.cat([self.embed(token), read], 1), (h, c))
        both = torch.cat([h, read], 1)
        generates = torch.sigmoid(self.generates(both))
        shares = torch.softmax(self.output(both), 1) * generates
        shares = shares.scatter_add(1, copied, weights * (1 - generates))
        return torch.log(shares + 1e-9), h, c, weights


# Makes the end token likely enough to see hypotheses end.
END_BIAS = {"ssru_step": 7.0, "whole_ssru": 6.0, "frames": 3.0, "picture": 1.6, "attention_cache": -2.0, "growing_offset": 2.0, "growing_past": 2.0}

ROWS, LENGTH = ("rows",), ("rows", "length")
LAYERED = (None, "rows")  # [layers, rows, width]
STEPS, WEIGHTS = ("rows", "steps"), ("rows", "steps", "length")


def step(
    encoder, decoder, states, source=("source", LENGTH), zero=(), state_axes=ROWS, token_axes=ROWS
):
    axes = {name: state_axes for name in states}
    return Export(
        encoder,
        decoder,
        {source[0]: source[1]},
        {"memory": LENGTH, **{name: axes[name] for name in states if name not in zero}},
        {"token": token_axes, "memory": LENGTH, **axes},
        {"logits": ROWS, **{f"{name}_next": axes[name] for name in states}, "attention": LENGTH},
        tuple(states),
        tuple(zero),
    )


def whole(encoder, decoder, states, **options):
    axes = {name: ROWS for name in states}
    return Export(
        encoder,
        decoder,
        {"source": LENGTH},
        {"memory": LENGTH, **axes},
        {"tokens": STEPS, "memory": LENGTH, **axes},
        {"logits": STEPS, "attention": WEIGHTS},
        **options,
    )


def make_twins(decoder):
    with torch.no_grad():
        decoder.embed.weight[5] = decoder.embed.weight[4]
        decoder.output.weight[5] = decoder.output.weight[4]
        decoder.output.bias[4:6] = (
            decoder.output.bias[4] + 2
        )  # likely, so that ties decide something


def prepare(exports):
    """Weights that make distributions with a shape, and an end token that comes up."""
    for name, export in exports.items():
        with torch.no_grad():
            for parameter in [*export.encoder.parameters(), *export.decoder.parameters()]:
                parameter *= 2.5
            export.decoder.output.bias[END] += END_BIAS.get(name, 1.0)
        export.encoder.eval()
        export.decoder.eval()


def models():
    """Name -> Export."""
    result = {
        "lstm_input_feeding": step(
            Encoder(nn.LSTM, 2), InputFeedingStep(), ["h", "c", "feed"], zero=["feed"]
        ),
        "gru_additive": step(Encoder(nn.GRU, 1), GruStep(), ["h"]),
        "ssru_step": step(Encoder(nn.GRU, 1), SsruStep(), ["c"]),
        "layered_lstm": step(
            Encoder(nn.LSTM, 2, 2), LayeredLstmStep(), ["h", "c"], state_axes=LAYERED
        ),
        "time_first_gru": step(
            Encoder(nn.GRU, 1, 1),
            TimeFirstGruStep(),
            ["h"],
            state_axes=LAYERED,
            token_axes=(None, "rows"),
        ),
        "frames": step(FramesEncoder(), FramesStep(), ["h"], source=("frames", LENGTH)),
        "picture": step(
            PictureEncoder(), FramesStep(), ["h"], source=("image", ("rows", None, None, "length"))
        ),
        "whole_lstm": whole(Encoder(nn.GRU, 2), WholeLstm(), ["h", "c"]),
        "whole_gru": whole(Encoder(nn.GRU, 1), WholeGru(), ["h"]),
        # Dynamo's exporter knows no scripted functions.
        "whole_ssru": whole(
            Encoder(nn.GRU, 1), WholeSsru(), ["c"], exporters=("torchscript", "openvino")
        ),
        "whole_positions": whole(
            Encoder(nn.GRU, 1), WholePositions(), ["h"], exporters=("torchscript", "openvino")
        ),
        "pointer": dataclasses.replace(
            step(PointerEncoder(nn.LSTM, 2), PointerStep(), ["h", "c"]),
            results={"memory": LENGTH, "h": ROWS, "c": ROWS, "copied": LENGTH},
            inputs={"token": ROWS, "memory": LENGTH, "h": ROWS, "c": ROWS, "copied": LENGTH},
        ),
    }
    prepare(result)
    make_twins(result["gru_additive"].decoder)
    return result
