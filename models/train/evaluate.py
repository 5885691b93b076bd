"""Error rates of checkpoints (several: their ensemble), by beam search in PyTorch.

Weights are rounded as exported. The search is for measuring only: finished hypotheses stay in the
beam, scores are plain sums. bench/g2p_quality.py measures what is served.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from data import TASKS, Codec, Entries, Tokens, read_vocabularies, split
from model import G2p, Shape
from scoring import Tally


def load(path: Path) -> G2p:
    """The model of best.npz, every array rounded to f16 as the exported graph stores it."""
    arrays = dict(np.load(path))
    fields = {key: arrays.pop(f"shape.{key}").item() for key in vars(Shape())}
    model = G2p(Shape(**fields), read_vocabularies(arrays))
    for name in [name for name in arrays if "vocabulary." in name]:
        del arrays[name]
    for name in [name for name in arrays if "bias_hh" in name]:
        twin = name.replace("bias_hh", "bias_ih")  # exported as one sum
        arrays[twin], arrays[name] = arrays[twin] + arrays[name], np.zeros_like(arrays[name])
    model.load_state_dict({name: torch.tensor(value.astype(np.float16).astype(np.float32))
                           for name, value in arrays.items()})
    return model.eval()


@torch.no_grad()
def best_answers(members: list[G2p], source: torch.Tensor, beam: int, codec: Codec,
                 ) -> list[list[int]]:
    """source [rows, length] -> the best target of each row; all rows have the same length."""
    rows = source.shape[0]
    encoded = [member.encode(source) for member in members]
    memories = [memory.repeat_interleave(beam, dim=0) for memory, _ in encoded]
    states = [[state.repeat_interleave(beam, dim=0) for state in first] for _, first in encoded]
    totals = torch.full((rows, beam), -torch.inf, dtype=torch.float64)
    totals[:, 0] = 0
    history = torch.full((rows * beam, 1), codec.begin)
    for _ in range(2 * source.shape[1] + 10):
        said = [member.decode(history[:, -1:], memory, state)
                for member, memory, state in zip(members, memories, states)]
        logits = torch.stack([step[0][:, 0] for step in said]).mean(dim=0)
        log_probs = torch.log_softmax(logits, dim=1).double().view(rows, beam, -1)
        done = (history[:, -1] == codec.end).view(rows, beam)
        log_probs[done] = -torch.inf
        log_probs[..., codec.end] = torch.where(done, 0.0, log_probs[..., codec.end])
        width = log_probs.shape[2]
        totals, flat = (totals.unsqueeze(2) + log_probs).view(rows, -1).topk(beam, dim=1)
        parents = (flat // width + beam * torch.arange(rows).unsqueeze(1)).view(-1)
        history = torch.cat([history[parents], (flat % width).view(-1, 1)], dim=1)
        states = [[state[parents] for state in step[2]] for step in said]
        if bool((history[::beam, -1] == codec.end).all()):
            break
    best = history[::beam, 1:].tolist()
    return [ids[:ids.index(codec.end)] if codec.end in ids else ids for ids in best]


def tally(members: list[G2p], part: Entries, beam: int, codec: Codec) -> tuple[Tally, Tally]:
    """With marks, and without."""
    by_length: dict[int, list[Tokens]] = {}
    for source in part:
        by_length.setdefault(len(source), []).append(source)
    tallies = Tally(marks=True), Tally(marks=False)
    for group in by_length.values():
        for chunk in (group[i:i + 256] for i in range(0, len(group), 256)):
            ids = torch.tensor([codec.source_ids(source) for source in chunk])
            for source, answer in zip(chunk, best_answers(members, ids, beam, codec)):
                for each in tallies:
                    each.add([tuple(codec.target_tokens[i] for i in answer)], part[source])
    return tallies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=Path, nargs="+", required=True,
                        help="best.npz of train.py")
    parser.add_argument("--task", choices=TASKS, default="g2p")
    parser.add_argument("--lexicon", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", default=["dev", "test"])
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    members = [load(path) for path in args.checkpoints]
    codec = Codec(members[0].vocabularies)
    parts = split(args.task, args.lexicon)
    for part in args.parts:
        for beam in args.beams:
            marked, unmarked = tally(members, parts[part], beam, codec)
            print(f"{part} beam {beam}, {marked.entries} entries: "
                  f"error {100 * marked.error:.2f} %, "
                  f"without marks {100 * unmarked.error:.2f} %, "
                  f"token error {100 * marked.token_error:.2f} %", flush=True)


if __name__ == "__main__":
    main()
