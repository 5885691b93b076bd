"""The transducer: the layers of the CTC network, an LSTM that reads the phonemes said so far, and a joiner.

Unlike the CTC network, a frame's distribution knows what was said before it. Unlike the attention model,
the search moves letter by letter, so that it can neither skip a part of the word nor say it twice.
"""

from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from torch import nn

from model_ctc import CtcShape, CtcVocabularies, G2pCtc

BLANK = 0


@dataclass(frozen=True)
class TransducerShape:
    ctc: CtcShape = field(default_factory=CtcShape)
    target_embedding: int = 128
    predictor: int = 224
    joint: int = 256


class G2pTransducer(nn.Module):
    def __init__(self, shape: TransducerShape, vocabularies: CtcVocabularies) -> None:
        super().__init__()
        self.shape, self.vocabularies = shape, vocabularies
        tokens = len(vocabularies.target)
        self.ctc = G2pCtc(shape.ctc, vocabularies)
        self.target_table = nn.Embedding(tokens, shape.target_embedding)
        self.predictor = nn.LSTM(shape.target_embedding, shape.predictor)
        self.join_frame = nn.Linear(2 * shape.ctc.upper, shape.joint)
        self.join_said = nn.Linear(shape.predictor, shape.joint)
        self.scores = nn.Linear(shape.joint, tokens)
        self.dropout = nn.Dropout(shape.ctc.dropout)

    def frames(self, source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """source [batch, length] -> [batch, 2 length, joint], and CTC's log-probabilities [2 length, batch, V]."""
        upper = self.ctc.read(self.ctc.letter_frames(source))
        log_probs = torch.log_softmax(self.ctc.project(upper).float(), dim=2)
        return self.join_frame(upper).transpose(0, 1), log_probs

    def said(self, tokens: torch.Tensor, states: tuple[torch.Tensor, torch.Tensor] | None = None
             ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """tokens [batch, length] -> [batch, length, joint], and the states behind the last token."""
        x, states = self.predictor(self.dropout(self.target_table(tokens.t())), states)
        return self.join_said(self.dropout(x)).transpose(0, 1), states

    def join(self, frames: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
        return self.scores(torch.tanh(frames + said))

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [batch, 2 length, 1 + target length, V] of a source and its padded target, and CTC's log-probabilities."""
        frames, log_probs = self.frames(source)
        said, _ = self.said(torch.nn.functional.pad(target, (1, 0), value=BLANK))
        return self.join(frames[:, :, None], said[:, None]).float(), log_probs

    @torch.no_grad()
    def greedy(self, source: torch.Tensor, max_symbols: int) -> list[list[int]]:
        """The best token of each frame again and again, until it is the blank or a frame has said `max_symbols`."""
        frames, _ = self.frames(source)
        rows = source.shape[0]
        answers: list[list[int]] = [[] for _ in range(rows)]
        said, states = self.said(torch.full((rows, 1), BLANK))
        for frame in frames.unbind(1):
            open_rows = torch.ones(rows, dtype=torch.bool)
            for _ in range(max_symbols):
                best = self.join(frame, said[:, 0]).argmax(dim=1)
                open_rows &= best != BLANK
                if not open_rows.any():
                    break
                for row in open_rows.nonzero()[:, 0].tolist():
                    answers[row].append(int(best[row]))
                now, after = self.said(best[:, None], states)
                said = torch.where(open_rows[:, None, None], now, said)
                states = tuple(torch.where(open_rows[None, :, None], new, old)
                               for new, old in zip(after, states))
        return answers


def save_weights(model: G2pTransducer, path: str) -> None:
    """A checkpoint without PyTorch: arrays by parameter name, the shape and the vocabularies."""
    arrays = {name: value.detach().float().numpy() for name, value in model.state_dict().items()
              if not name.startswith("ctc.early.")}
    shape = asdict(model.shape)
    for key, value in {**shape.pop("ctc"), **shape}.items():
        arrays[f"shape.{key}"] = np.array(value)
    arrays.update(model.vocabularies.arrays())
    np.savez(path, **arrays)


def start_from(model: G2pTransducer, ctc_checkpoint: str) -> None:
    """Takes the layers below the joiner from a trained CTC network."""
    arrays = np.load(ctc_checkpoint)
    if arrays["vocabulary.target"].tolist() != model.vocabularies.target:
        raise SystemExit(f"{ctc_checkpoint} has another vocabulary")
    weights = {name: torch.from_numpy(arrays[name]) for name in model.ctc.state_dict() if name in arrays}
    model.ctc.load_state_dict(weights, strict=False)
