"""Decoders whose states are the keys and values of all tokens read so far: caches that grow by one place a step, as
exporters write attention decoders today."""

import math

import torch
import torch.nn.functional as F
from models import LENGTH, SOURCES, TOKENS, Encoder, Export
from torch import nn

LAYERS, HEADS, WIDTH = 2, 2, 12
MOST = 32  # positions
CACHE = ("rows", None, "past", None)
CROSS = ("rows", None, "length", None)


def heads(x):
    """[rows, length, width] -> [rows, heads, length, width of a head]"""
    return x.view(x.size(0), -1, HEADS, WIDTH // HEADS).transpose(1, 2)


class CrossEncoder(nn.Module):
    """Gives each layer's keys and values of the source, as sherpa-onnx's exports of Whisper do."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(SOURCES, WIDTH)
        self.layer = nn.GRU(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)
        self.parts = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH) for _ in range(LAYERS))

    def forward(self, source):
        memory, _ = self.layer(self.embed(source))
        return tuple(heads(half) for part in self.parts for half in part(memory).chunk(2, -1))


class MemoryEncoder(Encoder):
    """Gives what the decoder makes its keys and values of."""

    def __init__(self):
        super().__init__(nn.GRU, 0)
        self.embed = nn.Embedding(SOURCES, 10)

    def forward(self, source):
        return super().forward(source)[0]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.cross_norm, self.last_norm = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.joint = nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.query, self.cross_out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )


class OffsetStep(nn.Module):
    """Scores, softmax and products as Whisper's own code has them; positions by the number of the step."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.positions = nn.Embedding(MOST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.output = nn.Linear(WIDTH, TOKENS)

    def attend(self, query, keys, values):
        weights = torch.softmax(query @ keys.transpose(2, 3) / math.sqrt(WIDTH // HEADS), -1)
        return (weights @ values).permute(0, 2, 1, 3).flatten(2)

    def forward(self, tokens, offset, k0, v0, k1, v1, cross_k0, cross_v0, cross_k1, cross_v1):
        return self.run(
            tokens, offset, (k0, v0, k1, v1), (cross_k0, cross_v0, cross_k1, cross_v1)
        )

    def run(self, tokens, offset, caches, cross):
        x = self.embed(tokens) + self.positions(offset)
        grown = []
        for i, layer in enumerate(self.layers):
            query, key, value = (heads(part) for part in layer.joint(layer.norm(x)).chunk(3, -1))
            keys = torch.cat([caches[2 * i], key], 2)
            values = torch.cat([caches[2 * i + 1], value], 2)
            grown += [keys, values]
            x = x + layer.out(self.attend(query, keys, values))
            query = heads(layer.query(layer.cross_norm(x)))
            x = x + layer.cross_out(self.attend(query, cross[2 * i], cross[2 * i + 1]))
            x = x + layer.feed(layer.last_norm(x))
        return self.output(x[:, -1]), *grown


class PastStep(OffsetStep):
    """As optimum names its ports; F.scaled_dot_product_attention; keys and values of the source are made in the step,
    of what the encoder gives."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(20, 2 * WIDTH) for _ in range(LAYERS))

    def attend(self, query, keys, values):
        read = F.scaled_dot_product_attention(query, keys, values)
        return read.transpose(1, 2).reshape(query.size(0), -1, WIDTH)

    def forward(self, input_ids, position_ids, encoder_hidden_states, k0, v0, k1, v1):
        cross = [
            heads(half) for part in self.parts for half in part(encoder_hidden_states).chunk(2, -1)
        ]
        logits, *grown = self.run(input_ids, position_ids, (k0, v0, k1, v1), cross)
        return logits.unsqueeze(1), *grown


def caches():
    """Name -> Export."""
    own = [f"self_{what}_{i}" for i in range(LAYERS) for what in ("keys", "values")]
    cross = {f"cross_{what}_{i}": CROSS for i in range(LAYERS) for what in ("keys", "values")}
    past = [f"past_key_values.{i}.{what}" for i in range(LAYERS) for what in ("key", "value")]
    present = [name.replace("past_key_values", "present") for name in past]
    return {
        "growing_offset": Export(
            CrossEncoder(),
            OffsetStep(),
            {"source": LENGTH},
            dict(cross),
            {"tokens": ("rows", None), "offset": (None,), **dict.fromkeys(own, CACHE), **cross},
            {"logits": ("rows", None), **{f"{name}_next": CACHE for name in own}},
            tuple(own),
            caches=tuple(own),
            counts=("offset",),
            exporters=("torchscript", "dynamo"),
        ),
        "growing_past": Export(
            MemoryEncoder(),
            PastStep(),
            {"source": LENGTH},
            {"encoder_hidden_states": LENGTH},
            {
                "input_ids": ("rows", None),
                "position_ids": ("rows", None),
                "encoder_hidden_states": LENGTH,
                **dict.fromkeys(past, CACHE),
            },
            {"logits": ("rows", None, None), **dict.fromkeys(present, CACHE)},
            tuple(past),
            caches=tuple(past),
            counts=("position_ids",),
            exporters=("torchscript", "dynamo"),
        ),
    }
