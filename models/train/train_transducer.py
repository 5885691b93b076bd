"""Trains the transducer; writes `last.pt` (to resume) and `best.npz` (best on dev) into a folder.

The loss is the transducer's (Graves 2012) over all alignments, with a share of CTC's on the layers below the
joiner. --start takes these layers from a trained CTC network, which saves most of the time. As train.py for the rest.
"""

import argparse
import contextlib
import random
import warnings

import torch
from torch.nn.utils.rnn import pad_sequence
from torchaudio.functional import rnnt_loss  # of 2.8 or older: later ones have none

from data import split
from model_ctc import CtcVocabularies
from model_transducer import BLANK, G2pTransducer, TransducerShape, save_weights, start_from
from train import move_average, parse, run
from train_ctc import Batch, Ids, batches, error_rate, loss_of

MAX_SYMBOLS = 3  # of a frame, as export_transducer.py writes into the bundle


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ctc", type=float, default=0.2, help="share of the CTC loss")
    parser.add_argument("--start", help="best.npz of train_ctc.py")
    parser.add_argument("--bfloat16", action="store_true", help="products in bfloat16")
    args = parse(parser)
    if args.start:
        args.rate /= 2  # most of the network is trained
    return args


def train_step(model: G2pTransducer, average: G2pTransducer, optimizer: torch.optim.Optimizer, batch: Batch,
               args: argparse.Namespace, steps: int) -> torch.Tensor:
    source, labels, lengths = batch
    target = pad_sequence(labels.split(lengths.tolist()), batch_first=True)
    with torch.autocast("cpu", torch.bfloat16) if args.bfloat16 else contextlib.nullcontext():
        logits, log_probs = model(source, target)
    frames = torch.full((len(source),), logits.shape[1], dtype=torch.int32)
    loss = rnnt_loss(logits, target.int(), frames, lengths.int(), blank=BLANK, reduction="sum") / lengths.sum()
    optimizer.zero_grad(set_to_none=True)
    ((1 - args.ctc) * loss + args.ctc * loss_of(log_probs, labels, lengths)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    move_average(average, model, args.decay, steps)
    return loss.detach()


class TransducerRecipe:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.parts = args, split(args.task, args.lexicon)
        print({name: len(part) for name, part in self.parts.items()}, flush=True)
        vocabularies = CtcVocabularies.of(self.parts["train"])
        self.ids = Ids.of(vocabularies)
        self.model, self.average = (G2pTransducer(TransducerShape(), vocabularies),
                                    G2pTransducer(TransducerShape(), vocabularies))
        if args.start:
            start_from(self.model, args.start)

    def plan(self, rng: random.Random) -> list[Batch]:
        return batches(self.parts["train"], self.ids, self.args.rows, rng)

    def step(self, optimizer: torch.optim.Optimizer, batch: Batch, steps: int) -> torch.Tensor:
        return train_step(self.model, self.average, optimizer, batch, self.args, steps)

    def dev_error(self) -> float:
        return error_rate(self.average, lambda source: self.average.greedy(source, MAX_SYMBOLS),
                          self.parts["dev"], self.ids)

    def save(self, path: str) -> None:
        save_weights(self.average, path)


def main() -> None:
    warnings.filterwarnings("ignore", message=".*_rnnt_loss has been deprecated")
    run(TransducerRecipe, arguments())


if __name__ == "__main__":
    main()
