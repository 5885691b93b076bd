#!/usr/bin/env python3
"""from_transformers on small random encoder-decoders: 4-best lists of beam 4 equal those of a search over the logits that the
model itself computes of whole prefixes; texts become the ids of the tokenizer.

Usage: check_encoder_decoders.py, with what run.py sets and tests/python/requirements-optimum.txt: `./dev frameworks` runs it.
"""

import pathlib
import random
import sys
import tempfile

import torch
import transformers
from tokenizers.processors import TemplateProcessing

import beamwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e" / "exports"))
from beam_search import beam_search  # noqa: E402

BEGIN, END, PAD, SIZE, LONGEST = 0, 1, 19, 20, 6
IDS = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": BEGIN}
LAYERS = {
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "d_model": 12,
    "max_position_embeddings": 64,
}
T5 = {"d_model": 12, "d_kv": 6, "d_ff": 16, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2}


def marian(size, ids):
    return transformers.MarianMTModel(transformers.MarianConfig(vocab_size=size, **ids, **LAYERS))


def bart(size, ids):
    config = transformers.BartConfig(vocab_size=size, **ids, **LAYERS, bos_token_id=BEGIN, forced_eos_token_id=None)
    return transformers.BartForConditionalGeneration(config)


def t5(size, ids):
    return transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=size, **ids, **T5))


def made_of(make, size, ids):
    torch.manual_seed(1)
    model = make(size, ids).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name and "positions" not in name:
                parameter.normal_(0, 0.6)
    return model


def expected(model, source):
    """The 4 best hypotheses; None where rounding may decide an order."""

    def next_log_probs(prefixes):
        targets = torch.tensor([[BEGIN, *tokens] for tokens in prefixes])
        with torch.no_grad():
            logits = model(
                input_ids=torch.tensor([source] * len(prefixes)), decoder_input_ids=targets, use_cache=False
            ).logits[:, -1]
        return torch.log_softmax(logits.double(), -1).numpy()

    options = {"beam_size": 4, "n_best": 4, "length_penalty": "LENGTH_PENALTY_NONE", "length_penalty_alpha": 0}
    found, gaps = beam_search(next_log_probs, END, LONGEST, options)
    return None if gaps.smallest < 1e-4 else [list(tokens) for tokens, *_ in found]


def check_lists(name, make, folder):
    model = made_of(make, SIZE, IDS)
    made = beamwright.from_transformers(model, None, folder / name / "1")
    draw = random.Random(1)
    compared = 0
    with beamwright.Model(made.path) as served:
        for _ in range(20):
            source = [draw.randrange(2, PAD) for _ in range(draw.randrange(1, 8))]
            wanted = expected(model, source)
            if wanted is None:
                continue
            found = served.decode(
                source, beam_size=4, n_best=4, max_length=LONGEST, min_length=0, length_penalty="none", stop="never"
            )
            own = [list(one.tokens) for one in found.hypotheses]
            assert own == wanted, (name, source, own, wanted)
            compared += 1
    assert compared > 10, compared
    print(f"{name}: {compared} lists equal. {made.checked}", flush=True)


def check_texts(name, make, file, end, folder):
    """A tokenizer that closes sources, and pads the columns of the model."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(ROOT / "tests/engine/bundle/data" / file))
    closing = tokenizer.convert_tokens_to_ids(end)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, closing)]
    )
    size = len(tokenizer) + 5
    ids = {"pad_token_id": size - 1, "eos_token_id": closing, "decoder_start_token_id": closing}
    made = beamwright.from_transformers(made_of(make, size, ids), tokenizer, folder / name / "1")
    assert "agree with transformers" in made.checked, made
    print(f"{name}: {made.checked}", flush=True)


def main():
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name, make in {"marian": marian, "bart": bart, "t5": t5}.items():
            check_lists(name, make, folder)
        check_texts("t5_texts", t5, "t5.json", "</s>", folder)
        check_texts("bart_texts", bart, "gpt2.json", "<|end|>", folder)


if __name__ == "__main__":
    main()
