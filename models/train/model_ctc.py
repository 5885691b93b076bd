"""The CTC network: bidirectional LSTM layers over letters, two output frames a letter, one more layer.

Unlike the model with attention it has no decoder: every frame gets a distribution over phonemes and
the blank at once, and a search over frames reads them. A letter can stand for two phonemes (the x of
`box`), which CTC can only say if there are at least two frames for it; words like `w` need more, and
the loss leaves them out. The last layer runs over frames, so that the two frames of a letter, which
are independent once the scores stand, have agreed before.
"""

from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn

from data import UNKNOWN, Entries

BLANK = "<blk>"
FRAMES_PER_LETTER = 2


@dataclass(frozen=True)
class CtcVocabularies:
    """Tokens by id. The blank is 0, as most toolkits have it."""

    source: list[str]
    target: list[str]

    @staticmethod
    def of(train: Entries) -> "CtcVocabularies":
        sources = {token for source in train for token in source}
        targets = {token for said in train.values() for target in said for token in target}
        return CtcVocabularies([UNKNOWN, *sorted(sources)], [BLANK, *sorted(targets)])

    def arrays(self) -> dict[str, list[str]]:
        return {"vocabulary.source": self.source, "vocabulary.target": self.target}


@dataclass(frozen=True)
class CtcShape:
    source_embedding: int = 128
    encoder: int = 224  # per direction, layers over letters
    frame: int = 256  # what a frame reads of its letter
    upper: int = 192  # per direction, the layer over frames
    dropout: float = 0.25


class G2pCtc(nn.Module):
    def __init__(self, shape: CtcShape, vocabularies: CtcVocabularies) -> None:
        super().__init__()
        self.shape, self.vocabularies = shape, vocabularies
        memory = 2 * shape.encoder
        tokens = len(vocabularies.target)
        self.source_table = nn.Embedding(len(vocabularies.source), shape.source_embedding)
        self.encoder0 = nn.LSTM(shape.source_embedding, shape.encoder, bidirectional=True)
        self.encoder1 = nn.LSTM(memory, shape.encoder, bidirectional=True)
        self.spread = nn.Linear(memory, FRAMES_PER_LETTER * shape.frame)
        self.upper = nn.LSTM(shape.frame, shape.upper, bidirectional=True)
        self.project = nn.Linear(2 * shape.upper, tokens)
        # Only trained with: a second loss below the last layer. Not exported.
        self.early = nn.Linear(shape.frame, tokens)
        self.dropout = nn.Dropout(shape.dropout)
        nn.init.normal_(self.source_table.weight, std=0.1)

    def letter_frames(self, source: torch.Tensor) -> torch.Tensor:
        """source [batch, length] -> what the frames read of their letters, [2 length, batch, frame]."""
        x = self.dropout(self.source_table(source.t()))
        x, _ = self.encoder0(x)
        x, _ = self.encoder1(self.dropout(x))
        length, batch, _ = x.shape
        x = self.spread(self.dropout(x)).view(length, batch, FRAMES_PER_LETTER, self.shape.frame)
        return torch.tanh(x.transpose(1, 2).reshape(FRAMES_PER_LETTER * length, batch, -1))

    def read(self, frames: torch.Tensor) -> torch.Tensor:
        """What the last layer makes of the letters' frames, [2 length, batch, 2 upper]."""
        y, _ = self.upper(self.dropout(frames))
        return self.dropout(y)

    def forward(self, source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """source [batch, length] -> log-probabilities [2 length, batch, V], and those of `early`."""
        x = self.letter_frames(source)
        y = self.read(x)
        return (torch.log_softmax(self.project(y).float(), dim=2),
                torch.log_softmax(self.early(self.dropout(x)).float(), dim=2) if self.training else y)

    @torch.no_grad()
    def greedy(self, source: torch.Tensor) -> list[list[int]]:
        """The best path of each row, repeats joined and blanks left out."""
        best = self(source)[0].argmax(dim=2).t().tolist()
        return [[token for at, token in enumerate(row)
                 if token != 0 and (at == 0 or token != row[at - 1])] for row in best]


def save_weights(model: G2pCtc, path: str) -> None:
    """A checkpoint without PyTorch: arrays by parameter name, the shape and the vocabularies."""
    arrays = {name: value.detach().float().numpy() for name, value in model.state_dict().items()
              if not name.startswith("early.")}
    arrays.update({f"shape.{key}": np.array(value) for key, value in asdict(model.shape).items()})
    arrays.update(model.vocabularies.arrays())
    np.savez(path, **arrays)
