"""The network: log-mel features to a distribution over words for each 40 ms, from the past and 30 ms of what comes.

Two convolutions without padding in time leave one frame of four, so chunks of a stream overlap by the three features
that the next frame begins with, and nothing but the LSTM layers has states.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

BINS = 80
TOKENS = "<blk> zero one two three four five six seven eight nine oh".split()
FIELD, STRIDE = 7, 4  # features that a frame sees, and by how many the next begins later


@dataclass
class Shape:
    channels: int = 16
    width: int = 128
    layers: int = 2
    dropout: float = 0.1


class Digits(nn.Module):
    def __init__(self, shape: Shape, mean: Tensor, scale: Tensor) -> None:
        """mean, scale: [80], of the features of the training part."""
        super().__init__()
        self.shape = shape
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.first = nn.Conv2d(1, shape.channels, 3, stride=2, padding=(0, 1))
        self.second = nn.Conv2d(shape.channels, shape.channels, 3, stride=2, padding=(0, 1))
        self.inner = nn.Linear(shape.channels * BINS // 4, shape.width)
        self.lstm = nn.LSTM(shape.width, shape.width, shape.layers, batch_first=True, dropout=shape.dropout)
        self.drop = nn.Dropout(shape.dropout)
        self.project = nn.Linear(shape.width, len(TOKENS))
        self.reset()

    def reset(self) -> None:
        """Weights with which a layer's results are as large as what it reads: PyTorch's make them 20 times smaller."""
        for layer in (self.first, self.second, self.inner):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        for name, values in self.lstm.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(values)
                if name.startswith("bias_ih"):
                    nn.init.ones_(values.data[self.shape.width:2 * self.shape.width])  # what is known is kept
                continue
            for gate in values.data.chunk(4):
                (nn.init.orthogonal_ if name.startswith("weight_hh") else nn.init.xavier_uniform_)(gate)

    def front(self, x: Tensor) -> Tensor:
        """x [N, T, 80] -> [N, (T - 3) / 4, width]."""
        y = ((x - self.mean) * self.scale).unsqueeze(1)
        y = torch.relu(self.second(torch.relu(self.first(y))))
        return torch.relu(self.inner(y.transpose(1, 2).flatten(2)))

    def forward(self, x: Tensor, h: Tensor | None = None, c: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """x [N, T, 80], h and c [layers, N, width] -> log-probabilities [N, frames, tokens], and the states behind."""
        states = None if h is None else (h, c)
        y, (h, c) = self.lstm(self.drop(self.front(x)), states)
        return torch.log_softmax(self.project(self.drop(y)), -1), h, c


def frames_of(features: int) -> int:
    return max((features - FIELD) // STRIDE + 1, 0)


def greedy(log_probs: Tensor) -> list[int]:
    """[frames, tokens] -> tokens of the best path."""
    best = torch.unique_consecutive(log_probs.argmax(-1)).tolist()
    return [token for token in best if token]


def labels(digits: str) -> list[int]:
    return [11 if digit == "o" else int(digit) + 1 for digit in digits]


def save(model: Digits, path: str) -> None:
    torch.save({"shape": model.shape, "weights": model.state_dict()}, path)


def load(path: str) -> Digits:
    stored = torch.load(path, map_location="cpu")
    model = Digits(stored["shape"], torch.zeros(BINS), torch.ones(BINS))
    model.load_state_dict(stored["weights"])
    return model.eval()
