#!/usr/bin/env python3
"""Writes small tokenizers with the split patterns of GPT-2, Llama 3 and Qwen, Unigram ones as T5's and XLM-R's and WordPiece
ones as BERT's, and texts with the ids that the package `tokenizers` gives them. Usage: make_tokenizers.py FOLDER [LINES]; `--lines N` only prints N texts of many scripts.
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


# Characters, and what becomes of them: SentencePiece's own rules take 300 KB.
RULES = {"\u00c9": "\u00e9", "e\u0301": "\u00e9", "\ufb01": "fi", "\u3000": " ", "\u00a0": " ", "\t": " ", "\r": " ", "\n": " ", "\u2026": "...",
         "\u337f": "\u682a\u5f0f\u4f1a\u793e", "\u30ab\u3099": "\u30ac", "\u200d": ""}


def charsmap(corpus, rules=None):
    """The normalisation of a SentencePiece model; without rules that of T5."""
    import io
    import tempfile

    import sentencepiece

    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as table:
        for before, after in (rules or {}).items():
            table.write(" ".join(f"{ord(c):x}" for c in before) + "\t" + " ".join(f"{ord(c):x}" for c in after) + "\n")
        table.flush()
        model = io.BytesIO()
        way = {"normalization_rule_tsv": table.name} if rules else {"normalization_rule_name": "nmt_nfkc"}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=model, vocab_size=8000, minloglevel=2,
                                                 hard_vocab_limit=False, **way)
    from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).normalizer_spec.precompiled_charsmap


def train_pieces(name, size, corpus, rules=RULES):
    """t5: Unigram behind a charsmap; xlmr: the same with joined spaces and bytes for unknown characters; bert, cased: WordPiece."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

    if name in ("bert", "cased"):
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=name == "bert")
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        made.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False))
        made.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
        return made
    made = Tokenizer(models.Unigram())
    map_of_text = normalizers.Precompiled(charsmap(corpus, rules))
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    made.normalizer = map_of_text if name == "t5" else normalizers.Sequence([map_of_text, spaces])
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="always" if name == "t5" else "first")
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace]) if name == "t5" else metaspace
    special = ["<pad>", "</s>", "<unk>", *([f"<0x{byte:02X}>" for byte in range(256)] if name == "xlmr" else [])]
    made.train_from_iterator(corpus, trainers.UnigramTrainer(vocab_size=size + len(special), special_tokens=special, unk_token="<unk>",
                                                             show_progress=False))
    content = json.loads(made.to_str())
    content["model"]["byte_fallback"] = name == "xlmr"
    made = Tokenizer.from_str(json.dumps(content))
    made.add_tokens([AddedToken("<extra>", normalized=name == "xlmr", rstrip=True)])
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    corpus = list(texts(3000, seed=2))
    latin = [text for text in texts(3000, seed=2) if all(ord(c) < 0x250 for c in text)]
    for name in (*SPLITS, "t5", "xlmr", "bert", "cased"):
        made = train(SPLITS[name], 420, corpus) if name in SPLITS else train_pieces(name, 300, latin)
        content = json.loads(made.to_str())
        content["post_processor"] = None
        (folder / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
        with open(folder / f"{name}.tsv", "w", encoding="ascii") as out:
            more = ["<think>  a<think>b", "x<|end|>"[:1], " " * 40 + "x"] if name in SPLITS else [
                "the<extra>  of e\u0301\u0301 \u337f \ufb01\r\nx", "the [MASK] caf\u00e9 \u0130 \u1fb3 don't...", "a" * 120, "\uac01\u4e00the,of"]
            for text in [*texts(60), *more]:
                escaped = "".join(f"\\x{byte:02x}" for byte in text.encode())
                out.write(f"{escaped}\t{' '.join(map(str, made.encode(text).ids))}\n")


if __name__ == "__main__":
    main()
