#!/usr/bin/env python3
"""from_transformers on small random models of each recurrent family: greedy answers and 4-best lists of beam 4 equal those of
a search over the logits that the model itself computes of whole prefixes, without a cache.

Usage: check_transformers.py [--record FOLDER] [--prompts N] [MODEL...], with what run.py sets, PyTorch and transformers
installed: `./dev frameworks` runs it. --record writes the step of Mamba-2 and its answers, which tests/python/test_onnx.py
serves without either. --prompts: random prompts instead of the four below.
"""

import argparse
import json
import pathlib
import random
import shutil
import sys
import tempfile

import torch
import transformers

import beamwright

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e" / "exports"))
from beam_search import beam_search  # noqa: E402

SIZE, BEGIN, END, LONGEST = 40, 0, 3, 8
SMALL = {"vocab_size": SIZE, "hidden_size": 32, "num_hidden_layers": 2}
GATED_DELTA = {
    "intermediate_size": 48,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
}
MODELS = {
    "mamba": lambda: transformers.MambaForCausalLM(transformers.MambaConfig(**SMALL, state_size=8)),
    "falcon_mamba": lambda: transformers.FalconMambaForCausalLM(transformers.FalconMambaConfig(**SMALL, state_size=8)),
    "mamba2": lambda: transformers.Mamba2ForCausalLM(
        transformers.Mamba2Config(**SMALL, state_size=8, head_dim=16, num_heads=4, n_groups=1)
    ),
    "rwkv": lambda: transformers.RwkvForCausalLM(transformers.RwkvConfig(**SMALL)),
    # Its widths of keys and values are multiples of 64.
    "xlstm": lambda: transformers.xLSTMForCausalLM(
        transformers.xLSTMConfig(**(SMALL | {"hidden_size": 128}), num_blocks=2, num_heads=2)
    ),
    # Layers of both kinds: the caches of attention grow.
    "jamba": lambda: transformers.JambaForCausalLM(
        transformers.JambaConfig(
            **SMALL,
            intermediate_size=48,
            num_attention_heads=2,
            num_key_value_heads=1,
            attn_layer_period=2,
            attn_layer_offset=1,
            num_experts=1,
            num_experts_per_tok=1,
            mamba_d_state=8,
            mamba_dt_rank=4,
        )
    ),
    "qwen3_next": lambda: transformers.Qwen3NextForCausalLM(
        transformers.Qwen3NextConfig(**SMALL, **GATED_DELTA, num_experts=0, mlp_only_layers=[0, 1])
    ),
    "qwen3_5": lambda: transformers.Qwen3_5ForCausalLM(transformers.Qwen3_5TextConfig(**SMALL, **GATED_DELTA)),
    # A window that answers are longer than.
    "recurrent_gemma": lambda: transformers.RecurrentGemmaForCausalLM(
        transformers.RecurrentGemmaConfig(
            **(SMALL | {"num_hidden_layers": 3}),
            intermediate_size=96,
            num_attention_heads=2,
            lru_width=32,
            attention_window_size=6,
        )
    ),
}
PROMPTS = [[], [5], [7, 9, 11, 4, 30], [25, 25, 1]]


def sharpened(model):
    """Random weights give nearly even distributions, whose order rounding may change: larger ones do not."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(4)
    return model.eval()


def expected(model, prompt, beam):
    """Hypotheses [(tokens behind the prompt, score)], best first; None where rounding may decide an order."""

    def next_log_probs(prefixes):
        with torch.no_grad():
            ids = torch.tensor([[BEGIN, *prompt, *tokens] for tokens in prefixes])
            # One row at a time: RWKV-4 of transformers mixes rows.
            rows = [model(input_ids=row[None], use_cache=False).logits[0, -1].double() for row in ids]
        return torch.log_softmax(torch.stack(rows), -1).numpy()

    options = {"beam_size": beam, "n_best": beam, "length_penalty": "LENGTH_PENALTY_NONE", "length_penalty_alpha": 0}
    found, gaps = beam_search(next_log_probs, END, LONGEST, options)
    return None if gaps.smallest < 1e-4 else [(list(tokens), total) for tokens, _, total, _ in found]


def ask(served, prompt, beam):
    found = served.decode(
        prompt=prompt,
        beam_size=beam,
        n_best=beam,
        max_length=LONGEST,
        min_length=0,
        length_penalty="none",
        stop="never" if beam > 1 else "first",
    )
    return [list(one.tokens) for one in found.hypotheses]


def check(name, model, folder, prompts=PROMPTS):
    made = beamwright.from_transformers(model, None, folder / name / "1", begin=BEGIN, end=END)
    assert "agree with transformers" in made.checked, made
    compared, cases = 0, []
    with beamwright.Model(made.path) as served:
        for beam in (1, 4):
            for prompt in prompts:
                wanted = expected(model, prompt, beam)
                if wanted is None:
                    continue
                own = ask(served, prompt, beam)
                theirs = [[*prompt, *tokens] for tokens, _ in wanted]
                assert own == theirs, (name, prompt, beam, own, theirs)
                compared += 1
                cases.append({"prompt": prompt, "beam": beam, "tokens": theirs})
    assert compared >= len(prompts), f"{name}: only {compared} lists could be compared"
    print(f"{name}: {compared} of {2 * len(prompts)} lists equal. {made.checked}", flush=True)
    return made, cases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--prompts", type=int, default=0)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    arguments = parser.parse_args()
    record = arguments.record
    draw = random.Random(1)
    prompts = [
        [draw.choice([token for token in range(SIZE) if token != END]) for _ in range(draw.randrange(9))]
        for _ in range(arguments.prompts)
    ]
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name in arguments.models:
            torch.manual_seed(1)
            made, cases = check(name, sharpened(MODELS[name]()), folder, prompts or PROMPTS)
            if record and name == "mamba2":
                record.mkdir(exist_ok=True)
                shutil.copy(made.path / "decoder.onnx", record / "step.onnx")
                lines = ",\n".join(map(json.dumps, cases))
                (record / "answers.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
