#!/usr/bin/env python3
"""Ids of texts of many scripts: those of `tokenizers`, for byte-level BPE with the split patterns of GPT-2, Llama 3 and Qwen.

Usage: check_tokenizers.py [TEXTS] (10,000), with what run.py sets, PyTorch and transformers installed: `./dev frameworks` runs it.
A prompt's ids are the first tokens of its answer.
"""

import pathlib
import sys
import tempfile

import torch
import transformers

import beamwright

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "engine" / "bundle" / "data"))
from make_tokenizers import SPLITS, texts, train  # noqa: E402


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    transformers.logging.set_verbosity_error()
    corpus = list(texts(3000, seed=2))
    for name, split in SPLITS.items():
        original = train(split, 3000, corpus)
        size = original.get_vocab_size()
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=original, eos_token="<|end|>")
        config = transformers.MambaConfig(vocab_size=size, hidden_size=4, num_hidden_layers=1, state_size=2)
        model = transformers.MambaForCausalLM(config)
        with tempfile.TemporaryDirectory() as scratch:
            made = beamwright.from_transformers(model, tokenizer, pathlib.Path(scratch) / "1")
            compared = 0
            with beamwright.Model(made.path) as served:
                for text in texts(count // len(SPLITS) + 1, seed=3):
                    theirs = original.encode(text).ids
                    if not text:
                        continue
                    best = served.decode(prompt=text, beam_size=1, n_best=1, max_length=len(theirs) + 1).best
                    assert list(best.tokens[: len(theirs)]) == theirs, (name, text)
                    compared += 1
        print(f"{name}: the ids of {compared} texts are equal")


if __name__ == "__main__":
    main()
