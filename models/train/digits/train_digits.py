"""Trains the network that hears digits; keeps in OUT the weights that do best on voices of synthesis held out.

    train_digits.py OUT --voices FOLDER... --held-out FOLDER [--minutes N] [--overfit N] [--seed N] [--threads N]

Every round is heard anew: strings of one engine are joined at random, with gaps, and pass through sounds.recorded; then
SpecAugment hides bands and stretches. --overfit N is the check that features, labels and loss fit together: the first
N strings as they are, until none is wrong. With --minutes the learning rate follows the share of time spent.
"""

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from model_digits import BINS, STRIDE, Digits, Shape, frames_of, labels, save
from scoring_digits import Errors, heard
from sounds import RATE, SILENCE, Draw, features, read, recorded

KEPT = 3000  # strings that are heard again, since computing new ones costs time
LONGEST = 4 * RATE  # longer strings cost time and teach nothing else

Item = tuple[str, np.ndarray]  # digits, samples or features


@dataclass
class Heard:
    """Features, what is said in them, and where the voice ends in those words that stand alone: (word, feature)."""

    digits: str
    x: np.ndarray
    ends: list[tuple[int, int]]



def strings(folders: list[Path]) -> list[list[Item]]:
    """One list an engine."""
    return [[(line.split("\t")[1], read(folder / f"{line.split(chr(9))[0]}.wav"))
             for line in (folder / "list.tsv").read_text(encoding="utf-8").splitlines()] for folder in folders]


def trimmed(draw: Draw, samples: np.ndarray) -> tuple[np.ndarray, int]:
    """Cut close to the voice, as recordings of single words often are, and where the voice ends in it."""
    loud = np.flatnonzero(np.abs(samples) > 0.03 * np.abs(samples).max())
    before, behind = (int(RATE * draw.uniform(0, 0.15)) for _ in range(2))
    start = max(loud[0] - before, 0)
    return samples[start:loud[-1] + behind], loud[-1] - start


def joined(draw: Draw, engine: list[Item]) -> tuple[str, np.ndarray, list[tuple[int, int]]]:
    """Digits, samples, and where words that stood alone end: (word, sample)."""
    single = [item for item in engine if len(item[0]) == 1]
    alone = draw.random() < 0.6
    chosen = single if alone else engine
    count = int(draw.integers(1, 6)) if alone else int(draw.choice([1, 2], p=[0.8, 0.2]))
    pieces, said, ends, length = [], "", [], 0
    for digits, samples in (chosen[i] for i in draw.integers(0, len(chosen), count)):
        cut, end = trimmed(draw, samples)
        if len(digits) == 1:
            ends.append((labels(digits)[0], length + end))
        gap = np.zeros(int(RATE * draw.uniform(0.01, 0.4)), np.float32)
        pieces += [cut, gap]
        said += digits
        length += len(cut) + len(gap)
    return said, np.concatenate(pieces[:-1]), ends


def hidden(draw: Draw, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """SpecAugment."""
    x = x.copy()
    for _ in range(2):
        width = draw.integers(0, 18)
        start = draw.integers(0, BINS - width)
        x[:, start:start + width] = mean[start:start + width]
    if len(x) > 60:
        length = draw.integers(0, 12)
        start = draw.integers(0, len(x) - length)
        x[start:start + length] = mean
    return x


def surrounded(draw: Draw, x: np.ndarray) -> tuple[np.ndarray, int]:
    """Silence as the server adds it, before the source by chance and behind it always; and how much is before."""
    before = int(draw.integers(0, 30)) if draw.random() < 0.5 else 0
    silence = np.full((before + int(draw.integers(25, 50)), BINS), SILENCE, np.float32)
    return np.concatenate([silence[:before], x, silence[before:]]), before


class Hearing:
    """A training round's strings, drawn as they are needed."""

    def __init__(self, engines: list[list[Item]], shares: list[float], seed: int) -> None:
        self.engines, self.shares, self.draw = engines, np.array(shares) / sum(shares), np.random.default_rng(seed)
        plain = np.concatenate([features(samples) for engine in engines for _, samples in engine[:60]])
        plain = plain[plain.mean(1) > SILENCE + 2]
        self.mean, self.deviation = plain.mean(0), plain.std(0)
        self.kept: list[Heard] = []
        self.recorded = 0.0  # the share of strings that pass through a recording

    def one(self) -> Heard:
        draw = self.draw
        engine = self.engines[draw.choice(len(self.engines), p=self.shares)]
        digits, samples, ends = joined(draw, engine)
        while len(samples) > LONGEST:
            digits, samples, ends = joined(draw, engine)
        if draw.random() < self.recorded:
            sound = recorded(draw, samples, engine[draw.integers(len(engine))][1])
        else:
            sound = samples * 10 ** (-draw.uniform(0, 20) / 20)
        x = features(sound)
        return Heard(digits, x, [(word, end * len(x) // len(samples)) for word, end in ends])

    def again(self, heard_: Heard) -> Heard:
        x, before = surrounded(self.draw, hidden(self.draw, heard_.x, self.mean))
        return Heard(heard_.digits, x, [(word, before + end) for word, end in heard_.ends])

    def batches(self, rows: int, count: int) -> list[list[Heard]]:
        """Batches of rows of similar lengths, in random order. A sixth of the strings is new to training."""
        self.kept += [self.one() for _ in range(rows * count // 6)]
        del self.kept[:-KEPT]
        chosen = sorted((self.again(self.kept[i]) for i in self.draw.integers(0, len(self.kept), rows * count)),
                        key=lambda item: len(item.x))
        return [chosen[i * rows:(i + 1) * rows] for i in self.draw.permutation(count)]


def loss_of(model: Digits, batch: list[Heard]) -> tuple[torch.Tensor, torch.Tensor]:
    """CTC's loss per row; and per single word, the loss of its choice among all words at the end of its voice.

    Rows that are shorter than the longest end in silence that is not scored.
    """
    x = torch.full((len(batch), max(len(row.x) for row in batch), BINS), SILENCE)
    for at, row in enumerate(batch):
        x[at, :len(row.x)] = torch.from_numpy(row.x)
    log_probs = model(x)[0]
    said = [labels(row.digits) for row in batch]
    ctc = torch.nn.functional.ctc_loss(
        log_probs.transpose(0, 1), torch.tensor(sum(said, [])), torch.tensor([frames_of(len(row.x)) for row in batch]),
        torch.tensor([len(row) for row in said]), reduction="sum", zero_infinity=True) / len(batch)
    ends = [(at, min(end // STRIDE + later, log_probs.shape[1] - 1), word) for at, row in enumerate(batch)
            for word, end in row.ends for later in (0, 1)]
    if not ends:
        return ctc, torch.zeros(())
    rows, frames, words = (torch.tensor(column) for column in zip(*ends))
    return ctc, torch.nn.functional.cross_entropy(log_probs[rows, frames, 1:], words - 1)


def errors_on(model: Digits, items: list[Item]) -> Errors:
    errors = Errors()
    for digits, x in items:
        errors.add(digits, heard(model, x))
    return errors


def overfit(engines: list[list[Item]], count: int, shape: Shape) -> None:
    hearing = Hearing(engines, [1] * len(engines), 1)
    tail = np.full((50, BINS), SILENCE, np.float32)
    items = [(digits, np.concatenate([features(samples), tail]))
             for i in range(count) for digits, samples in [engines[i % len(engines)][i // len(engines)]]]
    shape.dropout = 0
    model = Digits(shape, torch.from_numpy(hearing.mean), torch.from_numpy(1 / hearing.deviation))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, 201):
        model.train()
        order = np.random.default_rng(step).permutation(count)
        for rows in np.array_split(order, max(count // 10, 1)):
            loss, _ = loss_of(model, [Heard(*items[i], []) for i in rows])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5)
            optimizer.step()
        if step % 5 == 0:
            errors = errors_on(model.eval(), items)
            print(f"round {step}: loss {loss.item():.3f}, {errors}", flush=True)
            if errors.wrong == 0:
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--voices", type=Path, nargs="+", required=True)
    parser.add_argument("--shares", type=float, nargs="+", help="how often each folder is heard; default: by its size")
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=2e-3, help="peak of the learning rate")
    parser.add_argument("--overfit", type=int, default=0)
    parser.add_argument("--start", type=Path, help="weights to go on from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    engines = strings(args.voices)
    print("strings:", *(f"{folder.name} {len(engine)}" for folder, engine in zip(args.voices, engines)), flush=True)
    if args.overfit:
        return overfit(engines, args.overfit, Shape())
    draw = np.random.default_rng(0)
    dev = [(digits, surrounded(draw, features(samples))[0]) for digits, samples in strings([args.held_out])[0]]
    hearing = Hearing(engines, args.shares or [len(engine) for engine in engines], args.seed)
    model = Digits(Shape(), torch.from_numpy(hearing.mean), torch.from_numpy(1 / hearing.deviation))
    average = Digits(Shape(), model.mean, model.scale).eval()
    if args.start:
        model.load_state_dict(torch.load(args.start)["weights"])
    average.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    begin, best, step, round_number = time.monotonic(), math.inf, 0, 0
    while (share := (time.monotonic() - begin) / (60 * args.minutes)) < 1:
        losses = []
        # Clean voices first: with all of them recorded nothing is learned.
        hearing.recorded = min(0.9, max(step - 60, 0) / 600)
        hearing.engines = strings(args.voices)  # voices that still speak are heard as they come
        for batch in hearing.batches(rows=24, count=30):
            share = (time.monotonic() - begin) / (60 * args.minutes)
            rate = args.rate * min(1, (step + 1) / 50) * max(0.02, 0.5 * (1 + math.cos(math.pi * min(share, 1))))
            for group in optimizer.param_groups:
                group["lr"] = rate
            model.train()
            loss, telling = loss_of(model, batch)
            optimizer.zero_grad()
            (min(1, step / 100) * loss + 10 * (1 - share) * telling).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5)
            optimizer.step()
            step += 1
            decay = min(0.99, step / (step + 20))
            with torch.no_grad():
                for mine, theirs in zip(average.parameters(), model.parameters()):
                    mine.lerp_(theirs, 1 - decay)
            losses.append((loss.item(), telling.item()))
        round_number += 1
        errors = errors_on(average, dev)
        print(f"round {round_number}, {step} steps, {share:.0%}: losses {np.mean(losses, 0).round(3)}, "
              f"held out {errors}", flush=True)
        save(average, args.out / "last.pt")
        if errors.rate <= best:
            best = errors.rate
            save(average, args.out / "best.pt")


if __name__ == "__main__":
    main()
