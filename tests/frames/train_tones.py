"""Trains a small transducer that hears tones, and exports it as icefall exports its models.

    train_tones.py OUT [--steps N] [--seed N]

Each token is a tone of another pitch, 80 to 200 ms long, in noise; tokens of a word follow each
other without a gap. It is trained with the transducer loss of torchaudio 2.8 until it makes few errors,
and not to the end: hypotheses must stay close. tests/frames/parity.py compares searches on it.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torchaudio
from export import WIDTH, StatelessPredictor, SumJoiner, add_metadata, export, pack, write_tokens
from tones import RATE, TOKENS, features, utterances
from torch import Tensor, nn


class Encoder(nn.Module):
    """x [N, T, 80] -> [N, about T / 4, width]."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, 64, 3, stride=2)
        self.second = nn.Conv1d(64, 64, 3, stride=2)
        self.layer = nn.LSTM(64, 48, batch_first=True, bidirectional=True)
        self.project = nn.Linear(96, WIDTH)

    def forward(self, x: Tensor, x_lens: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(self.first((x.transpose(1, 2) + 8) / 4))
        y = torch.relu(self.second(y)).transpose(1, 2)
        lengths = torch.div(torch.div(x_lens - 1, 2, rounding_mode="floor") - 1, 2,
                            rounding_mode="floor")
        return self.project(self.layer(y)[0]), lengths


@dataclass
class Batch:
    x: Tensor
    lengths: Tensor
    targets: Tensor
    target_lengths: Tensor
    heard: Tensor  # [N, frames of the encoder]: the tone in the middle of what each reads


def batch_of(data: list[tuple[list[int], np.ndarray, np.ndarray]]) -> Batch:
    lengths = [len(x) for _, x, _ in data]
    x = torch.full((len(data), max(lengths), 80), -10.0)
    targets = torch.zeros(len(data), max(len(labels) for labels, _, _ in data), dtype=torch.int32)
    heard = torch.zeros(len(data), (((max(lengths) - 1) // 2) - 1) // 2, dtype=torch.int64)
    for i, (labels, frames, samples) in enumerate(data):
        x[i, :len(frames)] = torch.from_numpy(frames)
        targets[i, :len(labels)] = torch.tensor(labels)
        middles = np.arange(3, len(frames) - 3, 4) * RATE // 100
        heard[i, :len(middles)] = torch.from_numpy(samples[np.minimum(middles, len(samples) - 1)])[
            :heard.shape[1]]
    return Batch(x, torch.tensor(lengths), targets,
                 torch.tensor([len(labels) for labels, _, _ in data]), heard)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    data = [(labels, features(sound), heard)
            for labels, sound, heard in utterances(1200, args.seed)]
    encoder, predictor, joiner = Encoder(), StatelessPredictor(len(TOKENS), 2), SumJoiner(len(TOKENS))
    for module in (joiner.output, encoder.project):
        module.reset_parameters()
    parameters = [p for module in (encoder, predictor, joiner) for p in module.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=3e-3)
    draw = np.random.default_rng(args.seed)
    for step in range(args.steps):
        chosen = [data[i] for i in draw.integers(0, len(data), 24)]
        batch = batch_of(chosen)
        frames, frame_lengths = encoder(batch.x, batch.lengths)
        # First to hear the tones, then where to say them.
        hearing = nn.functional.cross_entropy(joiner.output(torch.tanh(frames)).flatten(0, 1),
                                              batch.heard.flatten())
        share = max(0.0, 1 - step / (0.5 * args.steps))
        history = torch.nn.functional.pad(batch.targets.long(), (2, 0))
        history[:, 0] = -1
        contexts = history.unfold(1, 2, 1)  # [N, U + 1, 2]
        said = predictor(contexts.reshape(-1, 2)).view(len(chosen), -1, WIDTH)
        loss = torchaudio.functional.rnnt_loss(
            joiner(frames.unsqueeze(2), said.unsqueeze(1)), batch.targets, frame_lengths.int(),
            batch.target_lengths.int(), blank=0)
        optimizer.zero_grad()
        (10 * share * hearing + (1 - share) * loss).backward()
        nn.utils.clip_grad_norm_(parameters, 5.0)
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss.item():.3f}, hearing {hearing.item():.3f}", flush=True)
    export(encoder, (torch.zeros(1, 100, 80), torch.tensor([100])), args.out / "encoder.onnx",
           ["x", "x_lens"], ["encoder_out", "encoder_out_lens"],
           {"x": {0: "N", 1: "T"}, "x_lens": {0: "N"}, "encoder_out": {0: "N", 1: "T"},
            "encoder_out_lens": {0: "N"}})
    add_metadata(args.out / "encoder.onnx", model_type="zipformer2", version=1, model_author="k2-fsa",
                 comment="trained on tones")
    export(predictor, (torch.zeros(10, 2, dtype=torch.int64),), args.out / "decoder.onnx", ["y"],
           ["decoder_out"], {"y": {0: "N"}, "decoder_out": {0: "N"}})
    add_metadata(args.out / "decoder.onnx", context_size=2, vocab_size=len(TOKENS))
    export(joiner, (torch.rand(11, WIDTH), torch.rand(11, WIDTH)), args.out / "joiner.onnx",
           ["encoder_out", "decoder_out"], ["logit"],
           {name: {0: "N"} for name in ("encoder_out", "decoder_out", "logit")})
    add_metadata(args.out / "joiner.onnx", joiner_dim=WIDTH)
    write_tokens(args.out / "tokens.txt", TOKENS)
    pack(args.out)


if __name__ == "__main__":
    main()
