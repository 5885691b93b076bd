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


LETTERS = ["", "a", "b", " "]  # the blank first
WORDS = """\\data\\
ngram 1=6
ngram 2=3

\\1-grams:
-1.0	<s>	-0.3
-0.8	</s>
-2.0	<unk>
-0.9	ab	-0.2
-0.7	a	-0.1
-1.2	ba	-0.4

\\2-grams:
-0.1	a ab
-0.2	<s> a
-0.3	ba </s>

\\end\\
"""
LEXICON = ["a", "ab", "ba"]
REWARD = 1.5  # for each word
UNKNOWN = 10  # nats off for a word that the model does not list


def word_bundle(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "target.vocab").write_text("".join(f"{letter or '_'}\n" for letter in LETTERS))
    (folder / "words.arpa").write_text(WORDS)
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in LEXICON))
    (folder / "model.textproto").write_text("""format_version: 1
name: "words"
ctc { blank: 0 kind: LOGITS_KIND_LOG_PROBS }
target { form: TEXT_FORM_CHARACTERS vocabulary: "target.vocab" }
scorers { name: "lm" ngram { file: "words.arpa" } }
scorers { name: "lexicon" ngram { file: "words.txt" } }
""")
    return folder


def by_words(sums: Sums) -> dict[str, float]:
    """Labellings that differ by spaces alone are one to pyctcdecode and flashlight-text."""
    words: dict[str, float] = {}
    for labels, score in sums.items():
        text = " ".join("".join(LETTERS[label] for label in labels).split())
        words[text] = float(np.logaddexp(words.get(text, -np.inf), score))
    return words


def equal_word_scores(start: Callable, work: Path) -> bool:
    """A model of words behind letters, with a reward for each word, against pyctcdecode."""
    import logging

    from pyctcdecode import build_ctcdecoder

    logging.disable(logging.WARNING)
    folder = word_bundle(work / "words")
    draw = np.random.default_rng(9)
    # Spaces are in the middle alone, and letters at both ends: behind two spaces and behind the last one
    # pyctcdecode scores a word without letters.
    logits = draw.normal(0, 2, (LATTICES, FRAMES, len(LETTERS)))
    logits[:, [0, 1, 3, 4], 3] = logits[:, [0, 4], 0] = -1e4
    frames = [log_softmax(one) for one in logits]
    np.savez(work / "words.npz", **{f"{i:04}": x for i, x in enumerate(frames)})
    decoder = build_ctcdecoder(LETTERS, str(folder / "words.arpa"), alpha=WEIGHT, beta=REWARD,
                               unk_score_offset=-UNKNOWN / math.log(10))
    with start(folder) as server:
        found = ours(server, work / "words.npz", "--beam-size", WIDE, "--n-best", WIDE, "--fusion", f"lm:{WEIGHT}",
                     "--fusion", f"word_count:{-REWARD}")
    count, apart, texts = 0, 0.0, 0
    for x, sums in zip(frames, found):
        mine = {text: score for text, score in by_words(sums).items() if score > -100}
        texts += len(mine)
        for beam in decoder.decode_beams(x, beam_width=10 * WIDE, beam_prune_logp=-1e9, token_min_logp=-30,
                                         prune_history=False):
            if beam[0] in mine:
                count += 1
                apart = max(apart, abs(mine[beam[0]] - float(beam[-1])))
    print(f"CTC, 2-gram model of words {WEIGHT:g}, {REWARD:g} for a word: of {texts} texts of {LATTICES} small lattices "
          f"pyctcdecode lists {count}, with scores at most {apart:.2g} apart (at most {EQUAL:g})")
    return apart <= EQUAL and count == texts


def equal_lexicon_scores(start: Callable, work: Path) -> bool:
    """Listed words alone, with a reward for each, against flashlight-text, whose words end with their space."""
    from flashlight.lib.text.decoder import (CriterionType, LexiconDecoder, LexiconDecoderOptions, SmearingMode,
                                             Trie, ZeroLM)

    folder = word_bundle(work / "lexicon")
    draw = np.random.default_rng(10)
    frames = [log_softmax(draw.normal(0, 2, (FRAMES, len(LETTERS)))) for _ in range(LATTICES)]
    np.savez(work / "lexicon.npz", **{f"{i:04}": x for i, x in enumerate(frames)})
    lm, space = ZeroLM(), LETTERS.index(" ")
    trie = Trie(len(LETTERS), space)
    for number, word in enumerate(LEXICON):
        trie.insert([*(LETTERS.index(letter) for letter in word), space], number, 0.0)
    trie.smear(SmearingMode.MAX)
    decoder = LexiconDecoder(
        LexiconDecoderOptions(
            beam_size=100 * WIDE, beam_size_token=len(LETTERS), beam_threshold=1e9, lm_weight=0.0, word_score=REWARD,
            unk_score=-math.inf, sil_score=0.0, log_add=True, criterion_type=CriterionType.CTC),
        trie, lm, space, 0, -1, [], False)
    with start(folder) as server:
        found = ours(server, work / "lexicon.npz", "--beam-size", WIDE, "--n-best", WIDE, "--fusion", "lexicon:1",
                     "--fusion", f"word_count:{-REWARD}")
    count, apart, texts = 0, 0.0, 0
    for source, sums in zip(frames, found):
        x = np.ascontiguousarray(source)
        # It merges what spaces alone distinguish.
        theirs: dict[str, float] = {}
        for one in decoder.decode(x.ctypes.data, *x.shape):
            text = " ".join(LEXICON[word] for word in one.words if word >= 0)
            theirs[text] = float(np.logaddexp(theirs.get(text, -np.inf), one.score))
        mine = by_words({labels: score for labels, score in sums.items() if labels and labels[-1] == space})
        texts += sum(text != "" for text in mine)
        for text, score in theirs.items():
            if text and text in mine:
                count += 1
                apart = max(apart, abs(mine[text] - score))
    print(f"CTC, a lexicon, {REWARD:g} for a word: of {texts} texts of {LATTICES} small lattices flashlight-text lists "
          f"{count}, with scores at most {apart:.2g} apart (at most {EQUAL:g})")
    return apart <= EQUAL and count == texts


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
