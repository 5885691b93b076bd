"""The network: bidirectional LSTM encoder, attentive two-layer LSTM decoder.

The decoder's first layer reads the token, its state asks the attention, and the second layer reads
both. No input of a step but the token depends on the step before outside the LSTM states, so with
teacher forcing every layer runs over the whole sequence at once.
"""

from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn

from data import Codec, Vocabularies


@dataclass(frozen=True)
class Shape:
    source_embedding: int = 128
    encoder: int = 224  # per direction
    target_embedding: int = 128
    decoder: int = 224
    dropout: float = 0.25


class G2p(nn.Module):
    def __init__(self, shape: Shape, vocabularies: Vocabularies) -> None:
        super().__init__()
        self.shape, self.vocabularies = shape, vocabularies
        memory, hidden = 2 * shape.encoder, shape.decoder
        factors = vocabularies.factors()
        self.register_buffer("base_row", torch.tensor(factors.base), persistent=False)
        self.register_buffer("mark_row", torch.tensor(factors.mark), persistent=False)
        self.source_table = nn.Embedding(len(vocabularies.source), shape.source_embedding)
        self.encoder0 = nn.LSTM(shape.source_embedding, shape.encoder, bidirectional=True)
        self.encoder1 = nn.LSTM(memory, shape.encoder, bidirectional=True)
        self.bridge = nn.Linear(memory, 4 * hidden)
        self.factor_table = nn.Embedding(factors.rows, shape.target_embedding)
        self.decoder0 = nn.LSTM(shape.target_embedding, hidden)
        self.keys = nn.Linear(memory, hidden, bias=False)
        self.decoder1 = nn.LSTM(hidden + memory, hidden)
        self.project = nn.Linear(hidden + memory, len(vocabularies.target))
        self.dropout = nn.Dropout(shape.dropout)
        for table in (self.source_table, self.factor_table):
            nn.init.normal_(table.weight, std=0.1)

    def encode(self, source: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """source [batch, length] -> memory [batch, length, D], states h0, c0, h1, c1 [batch, H]."""
        x = self.dropout(self.source_table(source.t()))
        x, _ = self.encoder0(x)
        x, (last, _) = self.encoder1(self.dropout(x))
        states = torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=1))).chunk(4, dim=1)
        return x.transpose(0, 1), list(states)

    def decode(self, tokens: torch.Tensor, memory: torch.Tensor, states: list[torch.Tensor],
               ) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        """tokens [batch, time] -> logits [batch, time, V], attention [batch, time, S], states."""
        h0, c0, h1, c1 = (state.unsqueeze(0).contiguous() for state in states)
        tokens = tokens.t()
        x = self.factor_table(self.base_row[tokens]) + self.factor_table(self.mark_row[tokens])
        lower, (h0, c0) = self.decoder0(self.dropout(x), (h0, c0))
        scores = torch.bmm(lower.transpose(0, 1), self.keys(memory).transpose(1, 2))
        attention = torch.softmax(scores * self.shape.decoder ** -0.5, dim=2)
        context = torch.bmm(attention, memory).transpose(0, 1)
        upper, (h1, c1) = self.decoder1(self.dropout(torch.cat([lower, context], dim=2)), (h1, c1))
        logits = self.project(self.dropout(torch.cat([upper, context], dim=2)))
        return logits.transpose(0, 1), attention, [s.squeeze(0) for s in (h0, c0, h1, c1)]

    @torch.no_grad()
    def greedy(self, source: torch.Tensor, codec: Codec) -> list[list[int]]:
        memory, states = self.encode(source)
        rows = source.shape[0]
        token = torch.full((rows, 1), codec.begin)
        steps = []
        done = torch.zeros(rows, dtype=torch.bool)
        for _ in range(2 * source.shape[1] + 10):
            logits, _, states = self.decode(token, memory, states)
            token = logits[:, -1].argmax(dim=1, keepdim=True)
            steps.append(token)
            done |= token[:, 0] == codec.end
            if bool(done.all()):
                break
        chosen = torch.cat(steps, dim=1).tolist()
        return [ids[:ids.index(codec.end)] if codec.end in ids else ids for ids in chosen]


def save_weights(model: G2p, path: str) -> None:
    """A checkpoint without PyTorch: arrays by parameter name, the shape and the vocabularies."""
    arrays = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    arrays.update({f"shape.{key}": np.array(value) for key, value in asdict(model.shape).items()})
    arrays.update(model.vocabularies.arrays())
    np.savez(path, **arrays)
