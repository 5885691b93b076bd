#!/usr/bin/env python3
"""Writes small tokenizers with the split patterns of GPT-2, Llama 3 and Qwen, and texts with the ids that the package
`tokenizers` gives them. Usage: make_tokenizers.py FOLDER [LINES]; `--lines N` only prints N texts of many scripts.
"""

import argparse
import json
import pathlib
import random

SPLITS = {
    "gpt2": None,
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
# Letters, marks, digits and signs of scripts: first and last character.
SCRIPTS = [(0x61, 0x7A), (0x41, 0x5A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x587), (0x5D0, 0x5EA), (0x620, 0x669),
           (0x904, 0x96F), (0x985, 0x9EF), (0xB85, 0xBEF), (0xE01, 0xE5B), (0x10D0, 0x10FF), (0x1200, 0x1370), (0x1780, 0x17E9),
           (0x3041, 0x30FF), (0x4E00, 0x4FFF), (0xAC00, 0xADFF), (0x1F300, 0x1F64F), (0x20000, 0x200FF), (0x21, 0x7E), (0x30, 0x39)]
JOINTS = [" ", " ", " ", " ", "  ", "\t", "\n", "\r\n", "   ", "'s ", "'LL ", "'ſ", ", ", ".\n\n", "\u00a0", "\u3000", "-", "…", "\u200d", "\x00", "0", ""]


def texts(count, seed=1):
    """Texts of words of one script each, joined by spaces, line ends, contractions and signs."""
    draw = random.Random(seed)
    words = [["".join(chr(draw.randint(a, b)) for _ in range(draw.randint(1, 7))) for _ in range(60)] for a, b in SCRIPTS]
    words[0] += "the of and to in is was it for on he that with you are".split() * 8
    for _ in range(count):
        script = draw.sample(words, draw.choice([1, 1, 2, 3]))
        yield "".join(draw.choice(draw.choice(script)) + draw.choice(JOINTS) for _ in range(draw.randint(1, 12)))


def train(split, size, corpus):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    of_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    made.pre_tokenizer = of_bytes if split is None else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(split), "isolated"), of_bytes])
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(corpus, trainer)
    made.add_tokens([AddedToken("  ", normalized=False), AddedToken("<think>", normalized=False)])
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    corpus = list(texts(3000, seed=2))
    for name, split in SPLITS.items():
        made = train(split, 420, corpus)
        content = json.loads(made.to_str())
        content["post_processor"] = None
        (folder / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
        with open(folder / f"{name}.tsv", "w", encoding="ascii") as out:
            for text in [*texts(60), "<think>  a<think>b", "x<|end|>"[:1], " " * 40 + "x"]:
                escaped = "".join(f"\\x{byte:02x}" for byte in text.encode())
                out.write(f"{escaped}\t{' '.join(map(str, made.encode(text).ids))}\n")


if __name__ == "__main__":
    main()
