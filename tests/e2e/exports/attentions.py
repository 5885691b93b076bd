"""Decoders that differ in how they read the memory: spellings of attention as teams write them. All are one step of a
GRU cell, but for the one with a cache."""

import math

import torch
import torch.nn.functional as F
from models import LENGTH, ROWS, SOURCES, TOKENS, WIDTH, Encoder, Export, step
from torch import nn

HEADS = 2
WINDOW = 4  # steps that a cache holds


class AttentionStep(nn.Module):
    """A GRU cell over the token; `read(h, memory) -> (what is read [rows, 2 width], weights [rows, length])`."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.output = nn.Linear(3 * WIDTH, TOKENS)

    def forward(self, token, memory, h):
        h = self.cell(self.embed(token), h)
        read, weights = self.read(h, memory)
        return self.output(torch.cat([h, read], 1)), h, weights


class BmmStep(AttentionStep):
    """Luong's general score with bmm, as most tutorials write it."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, 2 * WIDTH, bias=False)

    def read(self, h, memory):
        scores = torch.bmm(memory, self.query(h).unsqueeze(2)).squeeze(2)
        weights = F.softmax(scores, dim=1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class ConcatStep(AttentionStep):
    """Luong's concat score: the query is repeated for every position."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3 * WIDTH, WIDTH)
        self.energy = nn.Linear(WIDTH, 1, bias=False)

    def read(self, h, memory):
        query = h.unsqueeze(1).expand(-1, memory.size(1), -1)
        weights = F.softmax(
            self.energy(torch.tanh(self.hidden(torch.cat([query, memory], 2)))).squeeze(2), 1
        )
        return torch.einsum("bl,bld->bd", weights, memory), weights


class SumStep(AttentionStep):
    """Scaled scores by an elementwise product and sums, no matrix product."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, 2 * WIDTH)

    def read(self, h, memory):
        scores = (self.query(h)[:, None] * memory).sum(-1) / math.sqrt(2 * WIDTH)
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
        return (weights[:, :, None] * memory).sum(1), weights


class HeadsStep(AttentionStep):
    """Heads by view and transpose."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, 2 * WIDTH)
        self.key = nn.Linear(2 * WIDTH, 2 * WIDTH)
        self.value = nn.Linear(2 * WIDTH, 2 * WIDTH)

    def heads(self, x):
        return x.view(x.size(0), -1, HEADS, 2 * WIDTH // HEADS).transpose(1, 2)

    def read(self, h, memory):
        query = self.heads(self.query(h).unsqueeze(1))
        scores = query @ self.heads(self.key(memory)).transpose(2, 3) / math.sqrt(WIDTH)
        weights = scores.softmax(-1)
        read = (weights @ self.heads(self.value(memory))).transpose(1, 2).reshape(h.size(0), -1)
        return read, weights.mean(1).squeeze(1)


class ScaledDotStep(AttentionStep):
    """F.scaled_dot_product_attention; no weights come out."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, token, memory, h):
        h = self.cell(self.embed(token), h)
        read = F.scaled_dot_product_attention(self.query(h).unsqueeze(1), memory, memory)
        return self.output(torch.cat([h, read.squeeze(1)], 1)), h


class MultiheadStep(AttentionStep):
    """nn.MultiheadAttention."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, 2 * WIDTH)
        self.attention = nn.MultiheadAttention(2 * WIDTH, HEADS, batch_first=True)

    def read(self, h, memory):
        read, weights = self.attention(self.query(h).unsqueeze(1), memory, memory)
        return read.squeeze(1), weights.squeeze(1)


class GatedStep(AttentionStep):
    """Additive attention with a gate on what is read, computed from a key that the step projects itself."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.energy = nn.Parameter(torch.randn(WIDTH))
        self.gate = nn.Linear(WIDTH, 2 * WIDTH)

    def read(self, h, memory):
        scores = torch.matmul(
            torch.tanh(self.key(memory) + self.query(h).unsqueeze(1)), self.energy
        )
        weights = torch.softmax(scores, dim=-1)
        read = torch.matmul(weights.unsqueeze(-2), memory).squeeze(-2)
        return torch.sigmoid(self.gate(h)) * read, weights


class CoverageEncoder(Encoder):
    """Gives zeros as the first coverage."""

    def __init__(self):
        super().__init__(nn.GRU, 1)

    def forward(self, source):
        memory, h = super().forward(source)
        return memory, h, torch.zeros_like(memory[:, :, 0])


class CoverageStep(AttentionStep):
    """See et al. (2017): attention sees the sum of its past weights, a state as long as the source."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.cover = nn.Linear(1, WIDTH, bias=False)
        self.energy = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, token, memory, h, coverage):
        h = self.cell(self.embed(token), h)
        hidden = (
            self.query(h).unsqueeze(1) + self.key(memory) + self.cover(coverage.unsqueeze(2))
        )
        weights = torch.softmax(self.energy(torch.tanh(hidden)).squeeze(2), 1)
        read = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return self.output(torch.cat([h, read], 1)), h, coverage + weights, weights


class LocationStep(CoverageStep):
    """Chorowski et al. (2015): attention sees a convolution of its last weights."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv1d(1, WIDTH, 3, padding=1)

    def forward(self, token, memory, h, coverage):
        h = self.cell(self.embed(token), h)
        seen = self.convolution(coverage.unsqueeze(1)).transpose(1, 2)
        hidden = self.query(h).unsqueeze(1) + self.key(memory) + seen
        weights = torch.softmax(self.energy(torch.tanh(hidden)).squeeze(2), 1)
        read = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return self.output(torch.cat([h, read], 1)), h, weights, weights


class PointerEncoder(Encoder):
    """Hands the source's ids on, for the decoder to copy."""

    def __init__(self):
        super().__init__(nn.GRU, 1)

    def forward(self, source):
        memory, h = super().forward(source)
        return memory, h, source % TOKENS


class PointerStep(AttentionStep):
    """Pointer-generator: a mixture of the vocabulary's distribution and of copies, by scatter_add."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.switch = nn.Linear(3 * WIDTH, 1)

    def forward(self, token, memory, h, ids):
        h = self.cell(self.embed(token), h)
        weights = torch.softmax(torch.bmm(memory, self.query(h).unsqueeze(2)).squeeze(2), 1)
        both = torch.cat([h, torch.bmm(weights.unsqueeze(1), memory).squeeze(1)], 1)
        generate = torch.sigmoid(self.switch(both))
        mixed = generate * torch.softmax(self.output(both), -1)
        mixed = mixed.scatter_add(1, ids, (1 - generate) * weights)
        return torch.log(mixed + 1e-9), h, weights


class CacheEncoder(Encoder):
    """Gives zeros as the first window of keys and values."""

    def __init__(self):
        super().__init__(nn.GRU, 0)

    def forward(self, source):
        (memory,) = super().forward(source)
        # Two tensors: torch.export takes one that an example brings twice for one input.
        shape = memory.size(0), HEADS, WINDOW, WIDTH // HEADS
        return memory, memory.new_zeros(shape), memory.new_zeros(shape)


class CacheStep(nn.Module):
    """A step of self-attention whose states are the keys and values of the last WINDOW steps, and a look at the
    memory, both by F.scaled_dot_product_attention."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.joint = nn.Linear(WIDTH, 3 * WIDTH)
        self.query = nn.Linear(WIDTH, 2 * WIDTH)
        self.output = nn.Linear(3 * WIDTH, TOKENS)

    def forward(self, token, memory, keys, values):
        query, key, value = (
            part.view(part.size(0), HEADS, 1, WIDTH // HEADS)
            for part in self.joint(self.embed(token)).chunk(3, -1)
        )
        keys = torch.cat([keys, key], 2)[:, :, 1:]
        values = torch.cat([values, value], 2)[:, :, 1:]
        own = F.scaled_dot_product_attention(query, keys, values)
        own = own.transpose(1, 2).reshape(token.size(0), WIDTH)
        query, memory = self.query(own)[:, None, None], memory.unsqueeze(1)
        read = F.scaled_dot_product_attention(query, memory, memory).flatten(1)
        return self.output(torch.cat([own, read], 1)), keys, values


def attentions():
    """Name -> Export."""
    covered = Export(
        CoverageEncoder(),
        CoverageStep(),
        {"source": LENGTH},
        {"memory": LENGTH, "h": ROWS, "coverage": LENGTH},
        {"token": ROWS, "memory": LENGTH, "h": ROWS, "coverage": LENGTH},
        {"logits": ROWS, "h_next": ROWS, "coverage_next": LENGTH, "attention": LENGTH},
        ("h", "coverage"),
    )
    located = Export(**{**vars(covered), "encoder": CoverageEncoder(), "decoder": LocationStep()})
    pointer = Export(
        PointerEncoder(),
        PointerStep(),
        {"source": LENGTH},
        {"memory": LENGTH, "h": ROWS, "ids": LENGTH},
        {"token": ROWS, "memory": LENGTH, "h": ROWS, "ids": LENGTH},
        {"logits": ROWS, "h_next": ROWS, "attention": LENGTH},
        ("h",),
    )
    scaled = step(Encoder(nn.GRU, 1), ScaledDotStep(), ["h"])
    del scaled.outputs["attention"]
    result = {
        name: step(Encoder(nn.GRU, 1), decoder, ["h"])
        for name, decoder in {
            "attention_bmm": BmmStep(),
            "attention_concat": ConcatStep(),
            "attention_sums": SumStep(),
            "attention_heads": HeadsStep(),
            "attention_multihead": MultiheadStep(),
            "attention_gated": GatedStep(),
        }.items()
    }
    result["attention_scaled_dot"] = scaled
    cached = step(CacheEncoder(), CacheStep(), ["keys", "values"])
    del cached.outputs["attention"]
    others = {"coverage": covered, "location": located, "pointer_scatter": pointer}
    return {**result, **others, "attention_cache": cached}
