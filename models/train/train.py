"""Trains the model; writes `last.pt` (to resume) and `best.npz` (best on dev) into a folder.

What is measured and kept is a running average of the weights (about the last epoch's worth), which
is better than any single step's weights and steadier from epoch to epoch.

With --epochs a run is a function of the seed, the data and the PyTorch build; with --minutes it
also depends on the machine's speed, since the learning rate follows the share of time spent.
"""

import argparse
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from data import IGNORE, TASKS, Batch, Codec, Entries, Vocabularies, batches, split
from model import G2p, Shape, save_weights


@dataclass
class Progress:
    epoch: int = 0
    seconds: float = 0.0
    best_error: float = 1.0


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What a parser knows of a network, and what all training takes."""
    parser.add_argument("--task", choices=TASKS, default="g2p")
    parser.add_argument("--lexicon", type=Path, required=True,
                        help="a word and its phonemes a line")
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoints")
    parser.add_argument("--epochs", type=int, default=0, help="stop after this number of epochs")
    parser.add_argument("--minutes", type=float, default=0, help="stop after this number of minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=128, help="pronunciations in a batch")
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--decay", type=float, default=0.999, help="of the average of the weights")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="go on from last.pt")
    args = parser.parse_args()
    if (args.epochs > 0) == (args.minutes > 0):
        parser.error("give one of --epochs and --minutes")
    return args


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoothing", type=float, default=0.1, help="label smoothing")
    return parse(parser)


@torch.no_grad()
def move_average(average: torch.nn.Module, model: torch.nn.Module, decay: float,
                 steps: int) -> None:
    """Young averages forget faster."""
    share = 1 - min(decay, (1 + steps) / (10 + steps))
    for mean, value in zip(average.parameters(), model.parameters()):
        mean.lerp_(value, share)


def train_step(model: G2p, average: G2p, optimizer: torch.optim.Optimizer, batch: Batch,
               args: argparse.Namespace, steps: int) -> torch.Tensor:
    memory, states = model.encode(torch.tensor(batch.source))
    logits, _, _ = model.decode(torch.tensor(batch.inputs), memory, states)
    labels = torch.tensor(batch.labels)
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[2]),
                                             labels.reshape(-1), ignore_index=IGNORE,
                                             label_smoothing=args.smoothing)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    move_average(average, model, args.decay, steps)
    return loss.detach()


def error_rate(model: G2p, part: Entries, codec: Codec, rows: int = 512) -> float:
    """Share of sources whose greedy answer differs from every reference."""
    model.eval()
    by_length: dict[int, list[tuple[str, ...]]] = {}
    for source in part:
        by_length.setdefault(len(source), []).append(source)
    wrong = 0
    for sources in by_length.values():
        for i in range(0, len(sources), rows):
            chunk = sources[i:i + rows]
            answers = model.greedy(torch.tensor([codec.source_ids(s) for s in chunk]), codec)
            for source, ids in zip(chunk, answers):
                wrong += tuple(codec.target_tokens[i] for i in ids) not in part[source]
    return wrong / len(part)


def rate_at(share: float, peak: float) -> float:
    """Short linear warm-up, then a cosine down to 1 % of the peak."""
    warm_up = 0.01
    if share < warm_up:
        return peak * (0.05 + 0.95 * share / warm_up)
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(share, 1.0))))


class Recipe(Protocol):
    """What differs between networks: batches, the loss of a step, what is measured and kept."""

    model: torch.nn.Module
    average: torch.nn.Module  # of the model's weights

    def plan(self, rng: random.Random) -> list[Any]:
        """The batches of one epoch."""

    def step(self, optimizer: torch.optim.Optimizer, batch: Any, steps: int) -> torch.Tensor:
        """Trains on a batch. Returns its loss."""

    def dev_error(self) -> float:
        """Of the average."""

    def save(self, path: str) -> None:
        """The average, as an archive of arrays."""


def run_epoch(recipe: Recipe, optimizer: torch.optim.Optimizer, plan: list[Any],
              progress: Progress, args: argparse.Namespace) -> float:
    """Mean loss per batch. Ends early when the minutes are over."""
    recipe.model.train()
    total, started = 0.0, time.monotonic()
    for done, batch in enumerate(plan, 1):
        seconds = progress.seconds + time.monotonic() - started
        share = (seconds / (60 * args.minutes) if args.minutes
                 else (progress.epoch + done / len(plan)) / args.epochs)
        if args.minutes and share >= 1:
            done -= 1
            break
        for group in optimizer.param_groups:
            group["lr"] = rate_at(share, args.rate)
        total += float(recipe.step(optimizer, batch, progress.epoch * len(plan) + done))
        if done % 100 == 0:
            print(f"epoch {progress.epoch + 1} batch {done}/{len(plan)} loss {total / done:.4f} "
                  f"{seconds / 60:.1f} min", flush=True)
    progress.seconds += time.monotonic() - started
    return total / max(done, 1)


def train(recipe: Recipe, args: argparse.Namespace) -> None:
    """Runs the epochs that are left, each with a checkpoint and a line of what it came to."""
    last = args.out / "last.pt"
    recipe.average.load_state_dict(recipe.model.state_dict())
    optimizer = torch.optim.Adam(recipe.model.parameters(), lr=args.rate)
    progress = Progress()
    if args.resume and last.exists():
        saved = torch.load(last)
        recipe.model.load_state_dict(saved["model"])
        recipe.average.load_state_dict(saved["average"])
        optimizer.load_state_dict(saved["optimizer"])
        progress = Progress(**saved["progress"])
        torch.set_rng_state(saved["rng"])
    while (progress.epoch < args.epochs) if args.epochs else progress.seconds < 60 * args.minutes:
        # The order of an epoch depends on its number, so that a resumed run repeats no other.
        rng = random.Random(f"{args.seed}:{progress.epoch}")
        plan = recipe.plan(rng)
        loss = run_epoch(recipe, optimizer, plan, progress, args)
        progress.epoch += 1
        error = recipe.dev_error()
        print(f"epoch {progress.epoch} done, {progress.seconds / 60:.1f} min, loss {loss:.4f}, "
              f"dev error {100 * error:.2f} %", flush=True)
        if error <= progress.best_error:
            progress.best_error = error
            recipe.save(str(args.out / "best.npz"))
        unfinished = args.out / "last.pt.new"
        torch.save({"model": recipe.model.state_dict(), "average": recipe.average.state_dict(),
                    "optimizer": optimizer.state_dict(), "progress": vars(progress),
                    "rng": torch.get_rng_state()}, unfinished)
        unfinished.replace(last)


def run(make_recipe: Callable[[argparse.Namespace], Recipe], args: argparse.Namespace) -> None:
    """Makes a recipe, whose first weights are the seed's, and trains it."""
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    train(make_recipe(args), args)


class AttentionRecipe:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.parts = args, split(args.task, args.lexicon)
        print({name: len(part) for name, part in self.parts.items()}, flush=True)
        vocabularies = Vocabularies.of(self.parts["train"])
        self.codec = Codec(vocabularies)
        self.model, self.average = G2p(Shape(), vocabularies), G2p(Shape(), vocabularies)

    def plan(self, rng: random.Random) -> list[Batch]:
        return list(batches(self.parts["train"], self.codec, self.args.rows, rng))

    def step(self, optimizer: torch.optim.Optimizer, batch: Batch, steps: int) -> torch.Tensor:
        return train_step(self.model, self.average, optimizer, batch, self.args, steps)

    def dev_error(self) -> float:
        return error_rate(self.average, self.parts["dev"], self.codec)

    def save(self, path: str) -> None:
        save_weights(self.average, path)


def main() -> None:
    run(AttentionRecipe, arguments())


if __name__ == "__main__":
    main()
