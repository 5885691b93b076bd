#!/usr/bin/env python3
"""One-token steps out of their authors' own code, by both ONNX exporters: 4-best lists and greedy answers equal those of a
search over the same code's whole sequences.

    rwkv7        `rwkv`, of RWKV's author: RWKV_x070's step; compared with its forward of sequences
    retnet       `torchscale`, of RetNet's authors: the recurrent form of RetNetDecoder; compared with its parallel form
    gla          `flash-linear-attention`: GatedLinearAttention; compared with whole sequences
    gated_delta  `flash-linear-attention`: GatedDeltaNet; compared with its chunked form

Steps of the first two are written for one row, or for rows at the same position: their views get an axis of rows.
flash-linear-attention's kernels are Triton's, for GPUs: its own plain PyTorch forms take their place. These write into
zeros, by which rows can be separated in dynamo's export alone.

Usage: check_authors.py [--record FOLDER] [FAMILY...], with what run.py sets: `./dev frameworks` runs it. --record writes
dynamo's step of each family and its answers, which tests/python/test_onnx.py serves without PyTorch.
"""

import argparse
import contextlib
import gzip
import inspect
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings

os.environ |= {"RWKV_V7_ON": "1", "PYTORCH_JIT": "0"}  # the exporters read Python, not TorchScript
warnings.simplefilter("ignore")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import beamwright  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e" / "exports"))
from beam_search import beam_search  # noqa: E402

SIZE, BEGIN, END, LONGEST, WIDTH, LAYERS = 24, 0, 3, 8, 16, 2
PROMPTS = [[], [5], [7, 9, 11, 4, 20], [15, 15, 1]]


def rounded(values):
    return (values * 16).round() / 16


def with_rows(function):
    """A function of its authors whose views of heads have an axis of rows before them."""
    source = re.sub(r"\.view\((1,)?(?=H[,*)]|self\.num_heads)", ".view(-1,", textwrap.dedent(inspect.getsource(function)))
    scope = dict(function.__globals__)
    exec(source, scope)  # noqa: S102
    return scope[function.__name__]


class Rwkv7(nn.Module):
    """Of the package of RWKV's author: states of one row, a list of three for each layer."""

    def __init__(self):
        super().__init__()
        head = WIDTH // 2
        weights = {"emb.weight": (SIZE, WIDTH), "head.weight": (SIZE, WIDTH), "ln_out": WIDTH, "blocks.0.ln0": WIDTH}
        for layer in range(LAYERS):
            block = f"blocks.{layer}."
            weights |= {block + norm: WIDTH for norm in ("ln1", "ln2", "att.ln_x")}
            weights |= {f"{block}att.x_{kind}": (1, 1, WIDTH) for kind in "rwkvag"}
            weights |= {f"{block}att.{kind}0": (1, 1, WIDTH) for kind in "wav"}
            weights |= {f"{block}att.{kind}1": (WIDTH, 4) for kind in "wavg"}
            weights |= {f"{block}att.{kind}2": (4, WIDTH) for kind in "wavg"}
            weights |= {block + "att.k_k": (1, 1, WIDTH), block + "att.k_a": (1, 1, WIDTH), block + "att.r_k": (2, head)}
            weights |= {f"{block}att.{name}.weight": (WIDTH, WIDTH) for name in ("receptance", "key", "value", "output")}
            weights |= {block + "ffn.x_k": (1, 1, WIDTH), block + "ffn.key.weight": (4 * WIDTH, WIDTH)}
            weights |= {block + "ffn.value.weight": (WIDTH, 4 * WIDTH)}
        file = {}
        for name, shape in weights.items():
            if isinstance(shape, int):  # a norm
                file |= {f"{name}.weight": rounded(torch.rand(shape) + 0.5), f"{name}.bias": rounded(torch.rand(shape) - 0.5)}
            else:
                file[name] = rounded(torch.randn(shape) * (2 if name.startswith(("emb", "head")) else 0.6))
        import rwkv.model

        rwkv.model.RWKV_x070_TMix_one = with_rows(rwkv.model.RWKV_x070_TMix_one)
        with tempfile.TemporaryDirectory() as folder:
            torch.save(file, f"{folder}/model.pth")
            self.author = rwkv.model.RWKV(f"{folder}/model", "cpu fp32")
        self.starts = self.author.generate_zero_state()

    def forward(self, token, *states):
        embedding = functional.embedding(token, self.author.z["emb.weight"])
        logits, following = self.author.forward_one_alt(embedding, list(states))
        return (logits, *following)

    def sequence(self, tokens):
        state = self.author.generate_zero_state()
        return self.author.forward(tokens, state)[0].reshape(SIZE)


class RetNet(nn.Module):
    """States: the position, and of each layer a matrix and its scale."""

    def __init__(self):
        super().__init__()
        from torchscale.architecture.config import RetNetConfig
        from torchscale.architecture.retnet import RetNetDecoder
        from torchscale.component.multiscale_retention import MultiScaleRetention

        MultiScaleRetention.recurrent_forward = with_rows(MultiScaleRetention.recurrent_forward)
        config = RetNetConfig(
            vocab_size=SIZE, decoder_embed_dim=WIDTH, decoder_value_embed_dim=2 * WIDTH, decoder_retention_heads=2,
            decoder_ffn_embed_dim=WIDTH, decoder_layers=LAYERS, no_output_layer=False, dropout=0.0, activation_dropout=0.0,
        )  # fmt: skip
        self.author = RetNetDecoder(config, nn.Embedding(SIZE, WIDTH)).eval()
        self.starts = [torch.zeros(1)]
        for _ in range(LAYERS):
            self.starts += [torch.zeros(2, WIDTH, WIDTH // 2), torch.zeros(2)]

    def forward(self, token, *states):
        position, *states = states
        known = {
            layer: {"prev_key_value": states[2 * layer], "scale": states[2 * layer + 1]} for layer in range(LAYERS)
        }
        hidden, _ = self.author.forward_embedding(token.unsqueeze(1))
        places = self.author.retnet_rel_pos((position + 1).view(-1, 1, 1, 1), activate_recurrent=True)
        for layer, block in enumerate(self.author.layers):
            hidden, _ = block(hidden, known[layer], retention_rel_pos=places)
        logits = self.author.output_layer(self.author.layer_norm(hidden)).squeeze(1)
        following = [known[layer][kind] for layer in range(LAYERS) for kind in ("prev_key_value", "scale")]
        return (logits, position + 1, *following)

    def sequence(self, tokens):
        return self.author(torch.tensor([tokens]))[0][0, -1]


class Layers(nn.Module):
    """Residual layers of flash-linear-attention between an embedding and logits."""

    def __init__(self, layer, state):
        super().__init__()
        self.embed = nn.Embedding(SIZE, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))
        self.layers = nn.ModuleList(layer(place) for place in range(LAYERS))
        self.output = nn.Linear(WIDTH, SIZE)
        self.starts = [torch.zeros(state) for _ in range(LAYERS)]
        self.eval()

    def _run(self, tokens, cache):
        hidden = self.embed(tokens)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            hidden = hidden + layer(norm(hidden), past_key_values=cache, use_cache=cache is not None)[0]
        return self.output(hidden[:, -1])

    def forward(self, token, *states):
        from fla.models.utils import Cache

        cache = Cache.from_legacy_cache(
            tuple({"recurrent_state": state, "attn_state": None, "conv_state": None, "ffn_state": None} for state in states)
        )
        logits = self._run(token.unsqueeze(1), cache)
        return (logits, *(layer["recurrent_state"] for layer in cache))

    def sequence(self, tokens):
        with plain_kernels(chunks=True):
            return self._run(torch.tensor([tokens]), None)[0]


@contextlib.contextmanager
def plain_kernels(chunks):
    """flash-linear-attention's plain PyTorch forms in the place of its kernels. chunks: forms of whole sequences."""
    from fla import layers
    from fla.modules.norm import fused_norm_gate, layernorm
    from fla.ops.gated_delta_rule import naive as delta
    from fla.ops.gla.naive import naive_recurrent_gla

    def gla(q, k, v, gk, initial_state, output_final_state, **_):
        state = None if initial_state is None else initial_state.transpose(-1, -2)
        out, state = naive_recurrent_gla(q, k, v, gk, state, output_final_state)
        return out, None if state is None else state.transpose(-1, -2)

    def gated_delta(q, k, v, g, beta, initial_state, output_final_state, A_log, dt_bias, **_):  # noqa: N803
        state = None if initial_state is None else initial_state.transpose(-1, -2)
        q, k = (functional.normalize(value, dim=-1) for value in (q, k))
        rule = delta.naive_chunk_gated_delta_rule if chunks else delta.naive_recurrent_gated_delta_rule
        gate = -A_log.exp() * functional.softplus(g + dt_bias)
        out, state = rule(
            q, k, v, g=gate, beta=beta.sigmoid(), initial_state=state, output_final_state=output_final_state
        )
        return out, None if state is None else state.transpose(-1, -2)

    def rms_norm(norm, x):
        return layernorm.rms_norm_ref(x, norm.weight, norm.bias, eps=norm.eps)

    replaced = (
        (layers.gla, "fused_recurrent_gla", gla),
        (layers.gated_deltanet, "fused_recurrent_gated_delta_rule", gated_delta),
        (layernorm.RMSNorm, "forward", rms_norm),
        (fused_norm_gate.FusedRMSNormGated, "forward", lambda norm, x, g: rms_norm(norm, x) * functional.silu(g)),
    )
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def gla():
    from fla.layers import GatedLinearAttention

    def layer(place):
        made = GatedLinearAttention(hidden_size=WIDTH, num_heads=2, gate_low_rank_dim=4, fuse_norm=False, layer_idx=place)
        made.gate_fn = functional.silu
        return made

    return Layers(layer, (2, 8, 4))


def gated_delta():
    from fla.layers import GatedDeltaNet

    def layer(place):
        return GatedDeltaNet(hidden_size=WIDTH, head_dim=8, num_heads=2, use_short_conv=False, layer_idx=place)

    return Layers(layer, (2, 16, 8))


FAMILIES = {"rwkv7": Rwkv7, "retnet": RetNet, "gla": gla, "gated_delta": gated_delta}


def rows_of(step, rows):
    return [torch.zeros(rows, dtype=torch.int64), *(start.expand(rows, *start.shape).clone() for start in step.starts)]


def export(step, path, dynamo):
    names = [f"state_{place}" for place in range(len(step.starts))]
    inputs, outputs = ["token", *names], ["logits", *(f"{name}_next" for name in names)]
    rows = {0: torch.export.Dim("rows")}
    more = (
        {"dynamic_shapes": (rows, tuple(rows for _ in names))}
        if dynamo
        else {"dynamic_axes": {name: {0: "rows"} for name in inputs + outputs}}
    )
    with contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        torch.onnx.export(
            step, tuple(rows_of(step, 3)), path, input_names=inputs, output_names=outputs, dynamo=dynamo,
            opset_version=18 if dynamo else 17, **({"external_data": False} if dynamo else {}), **more,
        )  # fmt: skip


def sharpened(step):
    """Random weights give nearly even distributions, whose order rounding may change: larger ones do not. Rounded, they
    make small files."""
    for name, parameter in step.named_parameters():
        if parameter.ndim >= 2 and ("embed" in name or "output" in name):
            parameter.data.mul_(4)
        parameter.data.copy_(rounded(parameter.data))
    return step


def record(folder, name, path, lists):
    """Without the exporter's traces of where each node is from, which are most of the file."""
    import onnx

    model = onnx.load(path)
    for place in (model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info):
        place.ClearField("doc_string")
        place.ClearField("metadata_props")
    del model.metadata_props[:], model.functions[:], model.graph.value_info[:]
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.onnx.gz").write_bytes(gzip.compress(model.SerializeToString(), mtime=0))
    cases = [{"prompt": prompt, "beam": beam, "tokens": [tokens for tokens, _ in wanted]} for prompt, beam, wanted in lists]
    lines = ",\n".join(map(json.dumps, cases))
    (folder / f"{name}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def expected(step, prompt, beam):
    def next_log_probs(prefixes):
        with torch.no_grad():
            rows = [step.sequence([BEGIN, *prompt, *tokens]).double() for tokens in prefixes]
        return torch.log_softmax(torch.stack(rows), -1).numpy()

    options = {"beam_size": beam, "n_best": beam, "length_penalty": "LENGTH_PENALTY_NONE", "length_penalty_alpha": 0}
    found, gaps = beam_search(next_log_probs, END, LONGEST, options)
    return None if gaps.smallest < 1e-4 else [([*prompt, *tokens], total) for tokens, _, total, _ in found]


def check(name, path, folder, lists, together):
    made = beamwright.from_onnx(None, path, (None, None), folder / "1", begin=BEGIN, end=END, flags=["--decoder"])
    checked = subprocess.run(
        [os.environ["BEAMWRIGHT_GRAPH_PROGRAM"], "check", made.path], capture_output=True, text=True, check=True
    )
    assert not together or "rows of several requests together" in checked.stdout, f"{name}: {checked.stdout}"
    largest = 0.0
    with beamwright.Model(made.path) as served:
        for prompt, beam, wanted in lists:
            found = served.decode(
                prompt=prompt, beam_size=beam, n_best=beam, max_length=LONGEST, min_length=0, length_penalty="none",
                stop="never" if beam > 1 else "first",
            ).hypotheses  # fmt: skip
            assert [list(one.tokens) for one in found] == [tokens for tokens, _ in wanted], (name, prompt, beam)
            largest = max(largest, *(abs(one.score - total) for one, (_, total) in zip(found, wanted, strict=True)))
    return largest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="FAMILY")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.families:
            torch.manual_seed(1)
            with contextlib.redirect_stdout(io.StringIO()), plain_kernels(chunks=False):
                step = sharpened(FAMILIES[name]())
            cases = [(prompt, beam, expected(step, prompt, beam)) for beam in (1, 4) for prompt in PROMPTS]
            lists = [case for case in cases if case[2] is not None]
            assert len(lists) >= len(PROMPTS), f"{name}: only {len(lists)} lists could be compared"
            for dynamo in (False, True):
                kind = "dynamo" if dynamo else "torchscript"
                path = pathlib.Path(scratch) / f"{name}-{kind}.onnx"
                with plain_kernels(chunks=False):
                    export(step, path, dynamo)
                together = dynamo or name in ("rwkv7", "retnet")
                largest = check(name, path, pathlib.Path(scratch) / f"{name}-{kind}", lists, together)
                print(f"{name}, {kind}: {len(lists)} of {len(cases)} lists equal, scores within {largest:.0e}", flush=True)
            if arguments.record:
                record(arguments.record, name, path, lists)


if __name__ == "__main__":
    main()
