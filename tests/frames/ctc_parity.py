"""CTC against flashlight-text and pyctcdecode, with and without a 4-gram model; part of parity.py.

Lattices that are so small that no beam drops anything: then a score has one definition, the sum over all
alignments and the language model's share, and all programs must say the same of every labelling.
flashlight-text and we drop different prefixes of long sources, since its beam holds a prefix twice, in
blank and in its last token; there the best scores found are compared, of which more is better. With a
random language model either search may lose the other's best.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

TOKENS = 3  # the blank among them
FRAMES = 5
LATTICES = 200
WIDE = 256  # more than there are labellings: 63
EQUAL = 1e-5
WEIGHT = 0.5
Sums = dict[tuple[int, ...], float]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return (logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))).astype(np.float32)


def lattices() -> list[np.ndarray]:
    draw = np.random.default_rng(7)
    return [log_softmax(draw.normal(0, 2, (FRAMES, TOKENS))) for _ in range(LATTICES)]


def arpa() -> str:
    """A 4-gram model of the tokens' texts, of which half of the possible 2- to 4-grams are listed."""
    draw = np.random.default_rng(8)
    words = [f"w{i}" for i in range(1, TOKENS)]
    grams: list[dict[tuple[str, ...], float]] = [{(word,): -0.6 - 0.2 * i for i, word in enumerate(words)}]
    for _ in range(3):
        longer: dict[tuple[str, ...], float] = {}
        for gram in grams[-1]:
            for word in words:
                if draw.random() < 0.5 and (len(gram) == 1 or (*gram[1:], word) in grams[-1]):
                    longer[(*gram, word)] = draw.uniform(-1.5, -0.1)
        grams.append(longer)
    lines = ["\\data\\"]
    lines += [f"ngram {i}={len(found) + (3 if i == 1 else 0)}" for i, found in enumerate(grams, 1)]
    for order, found in enumerate(grams, 1):
        lines += ["", f"\\{order}-grams:"]
        if order == 1:
            lines += ["-99\t<s>\t0", "-0.9\t</s>", "-5\t<unk>\t0"]
        lines += [f"{value:.4f}\t{' '.join(gram)}" + (f"\t{draw.uniform(-0.5, 0):.4f}" if order < 4 else "")
                  for gram, value in found.items()]
    return "\n".join([*lines, "", "\\end\\", ""])


def bundle(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "target.vocab").write_text("".join(f"{t}\n" for t in ["<blk>", "w1", "w2"]))
    (folder / "lm.arpa").write_text(arpa())
    (folder / "model.textproto").write_text("""format_version: 1
name: "ctc"
ctc { blank: 0 kind: LOGITS_KIND_LOG_PROBS }
target { form: TEXT_FORM_WHITESPACE vocabulary: "target.vocab" }
scorers { name: "lm" ngram { file: "lm.arpa" } }
""")
    return folder


def flashlight(folder: Path, frames: list[np.ndarray], weight: float, beam: int,
               expansion: int) -> list[Sums]:
    """Of each source, the sum of each labelling that it lists."""
    from flashlight.lib.text.decoder import (CriterionType, KenLM, LexiconFreeDecoder,
                                             LexiconFreeDecoderOptions, ZeroLM)
    from flashlight.lib.text.dictionary import Dictionary

    tokens = (folder / "target.vocab").read_text().splitlines()
    lm = KenLM(str(folder / "lm.arpa"), Dictionary(tokens)) if weight else ZeroLM()
    decoder = LexiconFreeDecoder(
        LexiconFreeDecoderOptions(
            beam_size=beam, beam_size_token=expansion, beam_threshold=1e9,
            lm_weight=weight * math.log(10), sil_score=0.0, log_add=True,
            criterion_type=CriterionType.CTC), lm, -1, 0, [])
    answers = []
    for source in frames:
        x = np.ascontiguousarray(source)
        sums: Sums = {}
        for one in decoder.decode(x.ctypes.data, *x.shape):
            path = one.tokens[1:-1]  # both ends are padding
            labels = tuple(token for i, token in enumerate(path)
                           if token != 0 and (i == 0 or token != path[i - 1]))
            sums[labels] = float(np.logaddexp(sums.get(labels, -np.inf), one.score))
        answers.append(sums)
    return answers


def pyctcdecode(folder: Path, frames: list[np.ndarray], weight: float) -> list[Sums]:
    """Each token is a word. It scores no end of an empty text."""
    import logging

    from pyctcdecode import build_ctcdecoder

    logging.disable(logging.WARNING)
    texts = (folder / "target.vocab").read_text().splitlines()
    lm = {"kenlm_model_path": str(folder / "lm.arpa"), "alpha": weight, "beta": 0.0,
          "unk_score_offset": 0.0} if weight else {}
    decoder = build_ctcdecoder(["", *(f"▁{text}" for text in texts[1:])], **lm)
    answers = []
    for x in frames:
        beams = decoder.decode_beams(x, beam_width=10 * WIDE, beam_prune_logp=-1e9, token_min_logp=-1e9,
                                     prune_history=False)
        answers.append({tuple(texts.index(word) for word in beam[0].split()): float(beam[-1])
                        for beam in beams})
    return answers


def ours(server: object, path: Path, *flags: object) -> list[Sums]:
    return [{tuple(one.get("tokens", [])): one["score"] for one in answer["hypotheses"]}
            for answer in server.decode(path, *flags)]


def largest(a: list[Sums], b: list[Sums]) -> tuple[int, float]:
    """How many labellings both list, and how far apart their scores are at most."""
    apart = [abs(mine[labels] - theirs[labels])
             for mine, theirs in zip(a, b) for labels in mine if labels and labels in theirs]
    return len(apart), max(apart, default=math.inf)


def equal_scores(start: Callable, work: Path) -> bool:
    folder, frames = bundle(work / "small"), lattices()
    np.savez(work / "small.npz", **{f"{i:04}": x for i, x in enumerate(frames)})
    good = True
    with start(folder) as server:
        for weight in (0.0, WEIGHT):
            fused = ["--fusion", f"lm:{weight}"] if weight else []
            found = ours(server, work / "small.npz", "--beam-size", WIDE, "--n-best", WIDE, *fused)
            labellings = sum(len(sums) - 1 for sums in found)
            for name, theirs in (("flashlight-text", flashlight(folder, frames, weight, 100 * WIDE, TOKENS)),
                                 ("pyctcdecode", pyctcdecode(folder, frames, weight))):
                count, apart = largest(found, theirs)
                print(f"CTC, 4-gram model {weight:g}: of {labellings} labellings of {LATTICES} small lattices "
                      f"{name} lists {count}, with scores at most {apart:.2g} apart (at most {EQUAL:g})")
                good = good and apart <= EQUAL and count == labellings
    return good


def best_scores(start: Callable, folder: Path, beam: int) -> bool:
    frames = [x for _, x in sorted(np.load(folder / "frames.npz").items())]
    good = True
    with start(folder / "bundle") as server:
        for weight in (0.0, WEIGHT):
            fused = ["--fusion", f"lm:{weight}"] if weight else []
            found = ours(server, folder / "frames.npz", "--beam-size", beam, "--expansion", 20, *fused)
            theirs = flashlight(folder / "bundle", frames, weight, beam, 20)
            pairs = [(max(mine, key=mine.get), max(other, key=other.get), max(mine.values()),
                      max(other.values())) for mine, other in zip(found, theirs)]
            same = sum(a == b for a, b, _, _ in pairs)
            apart = [mine - other for _, _, mine, other in pairs]
            as_good = sum(one >= -EQUAL for one in apart)
            print(f"CTC, 4-gram model {weight:g}, beam {beam}: the same text as flashlight-text in {same} of "
                  f"{len(pairs)} long sources, a best score at least as good in {as_good} (at least "
                  f"{'half' if weight else 'all'}), {np.mean(apart):+.2f} in the mean")
            good = good and as_good >= len(pairs) / (2 if weight else 1)
    return good
