#!/usr/bin/env python3
"""Writes what optimum makes of transformers' models with random weights, with requests and the answers to them, as
export.py does of others.

Usage: optimum_export.py OUT   (optimum-onnx 0.1.0, transformers 4.57.3, and what requirements-pytorch.txt names)

The answers are those of beam_search.py over transformers' own module, which reads each prefix anew.
"""

import pathlib
import random
import sys
import tempfile
import types

import onnx
import torch
from export import REQUESTS, SEED, write_answers
from models import BEGIN, END, SOURCES
from optimum.exporters.onnx import onnx_export_from_model
from transformers import MarianConfig, MarianMTModel

TOKENS, PAD = 20, 19
FILES = {"encoder_model": "encoder", "decoder_with_past_model": "decoder", "decoder_model": "decoder_model"}


def marian():
    torch.manual_seed(SEED)
    model = MarianMTModel(
        MarianConfig(
            vocab_size=TOKENS,
            d_model=12,
            encoder_layers=1,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=16,
            decoder_ffn_dim=16,
            max_position_embeddings=32,
            pad_token_id=PAD,
            eos_token_id=END,
            decoder_start_token_id=BEGIN,
            forced_eos_token_id=END,
        )
    ).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name and "positions" not in name:
                parameter.normal_(0, 0.6)
        model.final_logits_bias[0, END] = 2.0
    return model


def next_log_probs(model):
    def of(_, source):
        def answer(prefixes):
            targets = torch.tensor([[BEGIN, *prefix] for prefix in prefixes])
            logits = model(
                input_ids=source.expand(len(prefixes), -1), decoder_input_ids=targets, use_cache=False
            ).logits
            return torch.log_softmax(logits[:, -1], -1).numpy()

        return answer

    return of


def main():
    out = pathlib.Path(sys.argv[1]) / "marian_past"
    model = marian()
    assert SOURCES <= TOKENS
    (out / "optimum").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        onnx_export_from_model(
            model, made, task="text2text-generation-with-past", do_validation=False, no_post_process=True
        )
        for name, own in FILES.items():
            graph = onnx.load_model(f"{made}/{name}.onnx")
            for node in graph.graph.node:
                node.doc_string = ""
                del node.metadata_props[:]
            onnx.save_model(graph, out / "optimum" / f"{own}.onnx")
    export = types.SimpleNamespace(source={"source": ("rows", "length")})
    write_answers(export, out / "answers.jsonl", random.Random(SEED), REQUESTS, next_log_probs(model))


if __name__ == "__main__":
    main()
