#!/usr/bin/env python3
"""Writes what optimum makes of transformers' models with random weights, with requests and the answers to them, as
export.py does of others.

Usage: optimum_export.py OUT [--all] [MODEL...]   (optimum-onnx 0.1.0, transformers 4.57.3, and what
requirements-pytorch.txt names)

The answers are those of beam_search.py over transformers' own module, which reads each prefix anew.
"""

import argparse
import dataclasses
import pathlib
import random
import tempfile
from typing import Callable

import onnx
import torch
import transformers
from export import REQUESTS, SEED, pack, write_answers
from models import BEGIN, END, SOURCES
from optimum.exporters.onnx import onnx_export_from_model

TOKENS, PAD = 20, 19
IDS = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": BEGIN}
LAYERS = {"encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
LAYERS.update(encoder_ffn_dim=16, decoder_ffn_dim=16, d_model=12)
T5 = {"d_model": 12, "d_kv": 6, "d_ff": 16, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2, "relative_attention_num_buckets": 8}
T5.update(relative_attention_max_distance=12)
LLAMA = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA.update(num_key_value_heads=2, max_position_embeddings=64, bos_token_id=BEGIN)
SPEECH = "automatic-speech-recognition-with-past"
LANGUAGE = "text-generation-with-past"
APART = {"encoder_model": "encoder", "decoder_with_past_model": "decoder", "decoder_model": "decoder_model"}
MERGED = {"encoder_model": "encoder", "decoder_model_merged": "decoder"}


@dataclasses.dataclass
class Model:
    make: Callable  # nothing -> the module
    source: dict = dataclasses.field(default_factory=lambda: {"source": ("rows", "length")})
    takes: str = "input_ids"  # the module's name of the source
    task: str = "text2text-generation-with-past"
    files: dict = dataclasses.field(default_factory=lambda: dict(APART))
    shapes: dict = dataclasses.field(default_factory=dict)  # of the exporter's example
    requests: int = REQUESTS
    committed: bool = False


def of(name, config, **settings):
    """A module with random weights of transformers' class `name`."""
    return lambda: getattr(transformers, name)(
        getattr(transformers, config)(vocab_size=TOKENS, **{**IDS, **settings})
    )


def trocr():
    vision = transformers.ViTConfig(
        hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4
    )
    text = transformers.TrOCRConfig(
        vocab_size=TOKENS, d_model=12, decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=16,
        max_position_embeddings=32, cross_attention_hidden_size=12, is_decoder=True, add_cross_attention=True, **IDS,
    )  # fmt: skip
    joined = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(vision, text)
    joined.decoder_start_token_id, joined.pad_token_id, joined.eos_token_id = BEGIN, PAD, END
    return transformers.VisionEncoderDecoderModel(config=joined)


MODELS = {
    "marian_past": Model(
        of("MarianMTModel", "MarianConfig", forced_eos_token_id=END, max_position_embeddings=32, **LAYERS),
        committed=True,
    ),
    "t5_past": Model(of("T5ForConditionalGeneration", "T5Config", **T5), requests=20, committed=True),
    "whisper_merged": Model(
        of("WhisperForConditionalGeneration", "WhisperConfig", num_mel_bins=4, max_source_positions=10,
           max_target_positions=32, bos_token_id=BEGIN, begin_suppress_tokens=None, suppress_tokens=None, **LAYERS),
        {"features": ("rows", 4, 20)}, "input_features", SPEECH, MERGED, {"nb_max_frames": 20}, 20,
    ),
    "llama": Model(
        of("LlamaForCausalLM", "LlamaConfig", **LLAMA), {"prompt": ("rows",)}, "", LANGUAGE, {"model": "decoder"}
    ),
    "bart_past": Model(
        of("BartForConditionalGeneration", "BartConfig", forced_eos_token_id=None, max_position_embeddings=32,
           bos_token_id=BEGIN, **LAYERS)
    ),
    "mt5_past": Model(of("MT5ForConditionalGeneration", "MT5Config", **T5)),
    "marian_merged": Model(
        of("MarianMTModel", "MarianConfig", forced_eos_token_id=END, max_position_embeddings=32, **LAYERS),
        files=MERGED,
        requests=20,
        committed=True,
    ),
    "whisper_past": Model(
        of("WhisperForConditionalGeneration", "WhisperConfig", num_mel_bins=4, max_source_positions=10,
           max_target_positions=32, bos_token_id=BEGIN, begin_suppress_tokens=None, suppress_tokens=None, **LAYERS),
        {"features": ("rows", 4, 20)}, "input_features", SPEECH, APART, {"nb_max_frames": 20},
    ),
    "moonshine_past": Model(
        of("MoonshineForConditionalGeneration", "MoonshineConfig", hidden_size=16, intermediate_size=24,
           encoder_num_hidden_layers=1, decoder_num_hidden_layers=2, encoder_num_attention_heads=2,
           decoder_num_attention_heads=2, encoder_num_key_value_heads=2, decoder_num_key_value_heads=2,
           max_position_embeddings=64, bos_token_id=BEGIN),
        {"features": ("rows", (1200, 4000))}, "input_values", SPEECH,
    ),
    "trocr_past": Model(trocr, {"features": ("rows", 3, 8, 8)}, "pixel_values", "image-to-text-with-past"),
    "gpt2": Model(
        of("GPT2LMHeadModel", "GPT2Config", n_positions=64, n_embd=12, n_layer=2, n_head=2, bos_token_id=BEGIN),
        {"prompt": ("rows",)}, "", LANGUAGE, {"model": "decoder"},
    ),
    "qwen2": Model(
        of("Qwen2ForCausalLM", "Qwen2Config", **LLAMA), {"prompt": ("rows",)}, "", LANGUAGE, {"model": "decoder"}
    ),
}  # fmt: skip


def with_weights(make):
    torch.manual_seed(SEED)
    module = make().eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" not in name and "positions" not in name:
                parameter.normal_(0, 0.6)
        if hasattr(module, "final_logits_bias"):
            module.final_logits_bias[0, END] = 2.0
    return module


def next_log_probs(model, module):
    def of(_, source):
        def answer(prefixes):
            targets = torch.tensor([[BEGIN, *prefix] for prefix in prefixes])
            rows = len(prefixes)
            if model.takes:
                source_rows = source.expand(rows, *source.shape[1:])
                logits = module(**{model.takes: source_rows}, decoder_input_ids=targets, use_cache=False).logits
            else:
                prompt = torch.cat([targets[:, :1], source.expand(rows, -1), targets[:, 1:]], 1)
                logits = module(input_ids=prompt, use_cache=False).logits
            return torch.log_softmax(logits[:, -1], -1).numpy()

        if not model.takes:  # what answers begin with is a part of them
            prompt = torch.cat([torch.tensor([[BEGIN]]), source], 1)
            steps = torch.log_softmax(module(input_ids=prompt, use_cache=False).logits[0, :-1], -1)
            answer.given = source[0].tolist(), steps.gather(1, source.T)[:, 0].tolist()
        return answer

    return of


def export(model, module, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        merges = "decoder_model_merged" in model.files
        onnx_export_from_model(
            module, made, task=model.task, do_validation=False, no_post_process=not merges, **model.shapes
        )
        for name, own in model.files.items():
            graph = onnx.load_model(f"{made}/{name}.onnx")
            for node in graph.graph.node:
                node.doc_string = ""
                del node.metadata_props[:]
            onnx.save_model(graph, folder / f"{own}.onnx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--all", action="store_true", help="those that do not lie here, too")
    arguments = parser.parse_args()
    assert SOURCES <= TOKENS
    for name, model in MODELS.items():
        if arguments.models and name not in arguments.models:
            continue
        if not (arguments.models or arguments.all or model.committed):
            continue
        out = arguments.out / name
        export(model, with_weights(model.make), out / "optimum")
        # The exporter leaves its own settings in a module.
        answers = next_log_probs(model, with_weights(model.make))
        torch.manual_seed(SEED)
        write_answers(model, out / "answers.jsonl", random.Random(SEED), model.requests, answers)
        if not arguments.all:
            pack(out)


if __name__ == "__main__":
    main()
