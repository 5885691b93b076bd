"""Word and phoneme error rates of a checkpoint, by beam search, weights rounded as exported.

A word is right if the best hypothesis, stress included, is one of its reference pronunciations; its
phoneme errors are counted against the closest one. The search here is for measuring only: finished
hypotheses stay in the beam, scores are plain sums.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from data import Codec, Lexicon, read_lexicon, split
from model import G2p, Shape


def load(path: Path) -> G2p:
    """The model of best.npz, every array rounded to f16 as the exported graph stores it."""
    arrays = dict(np.load(path))
    fields = {key: arrays.pop(f"shape.{key}").item() for key in vars(Shape())}
    model = G2p(Shape(**fields))
    for name in [name for name in arrays if "bias_hh" in name]:
        twin = name.replace("bias_hh", "bias_ih")  # exported as one sum
        arrays[twin], arrays[name] = arrays[twin] + arrays[name], np.zeros_like(arrays[name])
    model.load_state_dict({name: torch.tensor(value.astype(np.float16).astype(np.float32))
                           for name, value in arrays.items()})
    return model.eval()


@torch.no_grad()
def best_answers(model: G2p, source: torch.Tensor, beam: int, codec: Codec) -> list[list[int]]:
    """source [rows, length] -> the best phonemes of each row; all rows have the same length."""
    rows = source.shape[0]
    memory, states = model.encode(source)
    memory = memory.repeat_interleave(beam, dim=0)
    states = [state.repeat_interleave(beam, dim=0) for state in states]
    totals = torch.full((rows, beam), -torch.inf, dtype=torch.float64)
    totals[:, 0] = 0
    history = torch.full((rows * beam, 1), codec.begin)
    for _ in range(2 * source.shape[1] + 10):
        logits, _, states = model.decode(history[:, -1:], memory, states)
        log_probs = torch.log_softmax(logits[:, 0], dim=1).double().view(rows, beam, -1)
        done = (history[:, -1] == codec.end).view(rows, beam)
        log_probs[done] = -torch.inf
        log_probs[..., codec.end] = torch.where(done, 0.0, log_probs[..., codec.end])
        width = log_probs.shape[2]
        totals, flat = (totals.unsqueeze(2) + log_probs).view(rows, -1).topk(beam, dim=1)
        parents = (flat // width + beam * torch.arange(rows).unsqueeze(1)).view(-1)
        history = torch.cat([history[parents], (flat % width).view(-1, 1)], dim=1)
        states = [state[parents] for state in states]
        if bool((history[::beam, -1] == codec.end).all()):
            break
    best = history[::beam, 1:].tolist()
    return [ids[:ids.index(codec.end)] if codec.end in ids else ids for ids in best]


def distance(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """Levenshtein distance."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def error_rates(model: G2p, lexicon: Lexicon, beam: int, codec: Codec) -> dict[str, float]:
    by_length: dict[int, list[str]] = {}
    for word in lexicon:
        by_length.setdefault(len(word), []).append(word)
    wrong = wrong_plain = errors = phonemes = 0
    for group in by_length.values():
        for words in (group[i:i + 256] for i in range(0, len(group), 256)):
            source = torch.tensor([codec.source_ids(word) for word in words])
            for word, ids in zip(words, best_answers(model, source, beam, codec)):
                said = tuple(codec.target_tokens[i] for i in ids)
                references = lexicon[word]
                wrong += said not in references
                plain = [[p.rstrip("012") for p in r] for r in references]
                wrong_plain += [p.rstrip("012") for p in said] not in plain
                count, length = min((distance(said, r), len(r)) for r in references)
                errors, phonemes = errors + count, phonemes + length
    return {"words": len(lexicon), "word error": wrong / len(lexicon),
            "word error without stress": wrong_plain / len(lexicon),
            "phoneme error": errors / phonemes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="best.npz of train.py")
    parser.add_argument("--lexicon", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", default=["dev", "test"])
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model, codec = load(args.checkpoint), Codec()
    parts = split(read_lexicon(args.lexicon))
    for part in args.parts:
        for beam in args.beams:
            rates = error_rates(model, parts[part], beam, codec)
            words = rates.pop("words")
            print(f"{part} beam {beam}, {words:.0f} words: " + ", ".join(
                f"{name} {100 * rate:.2f} %" for name, rate in rates.items()), flush=True)


if __name__ == "__main__":
    main()
