"""Trains the CTC model; writes `last.pt` (to resume) and `best.npz` (best on dev) into a folder.

Like train.py: a running average of the weights is what is measured on dev and kept. With --epochs a
run is a function of the seed, the data, the PyTorch build and the processor; with --minutes it also
depends on the machine's speed, since the learning rate follows the share of time spent.
"""

import argparse
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch

from data import UNKNOWN, Entries, Tokens, split
from model_ctc import FRAMES_PER_LETTER, CtcShape, CtcVocabularies, G2pCtc, save_weights
from train import move_average, parse, run

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--early", type=float, default=0.3, help="share of the early loss")
    parser.add_argument("--bfloat16", action="store_true", help="products in bfloat16")
    return parse(parser)


@dataclass
class Ids:
    """Token ids by token."""

    source: dict[str, int]
    target: dict[str, int]

    @staticmethod
    def of(vocabularies: CtcVocabularies) -> "Ids":
        return Ids({token: i for i, token in enumerate(vocabularies.source)},
                   {token: i for i, token in enumerate(vocabularies.target)})

    def sources(self, source: Tokens) -> list[int]:
        return [self.source.get(token, self.source[UNKNOWN]) for token in source]

    def targets(self, target: Tokens) -> list[int]:
        return [self.target[token] for token in target]


def fits(source: Tokens, target: Tokens) -> bool:
    """Whether CTC can say `target`: a blank has to stand between two equal tokens."""
    repeats = sum(a == b for a, b in zip(target, target[1:]))
    return len(target) + repeats <= FRAMES_PER_LETTER * len(source)


def batches(train: Entries, ids: Ids, rows: int, rng: random.Random,
            unknown_rate: float = 0.002) -> list[Batch]:
    """One epoch in random order: source [rows, length], all labels end to end, their lengths.

    Rows of a batch have one source length: no padding. A few source tokens turn into the unknown
    token, which the lexicon itself never contains.
    """
    by_length: dict[int, list[tuple[Tokens, Tokens]]] = {}
    for source, targets in train.items():
        by_length.setdefault(len(source), []).extend(
            (source, target) for target in targets if fits(source, target))
    plan: list[Batch] = []
    for pairs in by_length.values():
        rng.shuffle(pairs)
        for chunk in (pairs[i:i + rows] for i in range(0, len(pairs), rows)):
            sources = [[ids.source[UNKNOWN] if rng.random() < unknown_rate else i
                        for i in ids.sources(source)] for source, _ in chunk]
            labels = [ids.targets(target) for _, target in chunk]
            plan.append((torch.tensor(sources), torch.tensor([i for row in labels for i in row]),
                         torch.tensor([len(row) for row in labels])))
    rng.shuffle(plan)
    return plan


def loss_of(log_probs: torch.Tensor, labels: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Per label, over the batch."""
    frames, rows, _ = log_probs.shape
    total = torch.nn.functional.ctc_loss(log_probs, labels, torch.full((rows,), frames), lengths,
                                         reduction="sum")
    return total / lengths.sum()


def train_step(model: G2pCtc, average: G2pCtc, optimizer: torch.optim.Optimizer, batch: Batch,
               args: argparse.Namespace, steps: int) -> torch.Tensor:
    source, labels, lengths = batch
    with torch.autocast("cpu", torch.bfloat16) if args.bfloat16 else contextlib.nullcontext():
        log_probs, early = model(source)
    loss = loss_of(log_probs, labels, lengths)
    optimizer.zero_grad(set_to_none=True)
    ((1 - args.early) * loss + args.early * loss_of(early, labels, lengths)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    move_average(average, model, args.decay, steps)
    return loss.detach()


def error_rate(model: torch.nn.Module, greedy: Callable[[torch.Tensor], list[list[int]]], part: Entries,
               ids: Ids, rows: int = 512) -> float:
    """Share of sources whose greedy answer differs from every reference."""
    model.eval()
    tokens = list(ids.target)
    by_length: dict[int, list[Tokens]] = {}
    for source in part:
        by_length.setdefault(len(source), []).append(source)
    wrong = 0
    for sources in by_length.values():
        for chunk in (sources[i:i + rows] for i in range(0, len(sources), rows)):
            answers = greedy(torch.tensor([ids.sources(source) for source in chunk]))
            wrong += sum(tuple(tokens[i] for i in answer) not in part[source]
                         for source, answer in zip(chunk, answers))
    return wrong / len(part)


class CtcRecipe:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.parts = args, split(args.task, args.lexicon)
        print({name: len(part) for name, part in self.parts.items()}, flush=True)
        vocabularies = CtcVocabularies.of(self.parts["train"])
        self.ids = Ids.of(vocabularies)
        self.model, self.average = (G2pCtc(CtcShape(), vocabularies),
                                    G2pCtc(CtcShape(), vocabularies))

    def plan(self, rng: random.Random) -> list[Batch]:
        return batches(self.parts["train"], self.ids, self.args.rows, rng)

    def step(self, optimizer: torch.optim.Optimizer, batch: Batch, steps: int) -> torch.Tensor:
        return train_step(self.model, self.average, optimizer, batch, self.args, steps)

    def dev_error(self) -> float:
        return error_rate(self.average, self.average.greedy, self.parts["dev"], self.ids)

    def save(self, path: str) -> None:
        save_weights(self.average, path)


def main() -> None:
    run(CtcRecipe, arguments())


if __name__ == "__main__":
    main()
