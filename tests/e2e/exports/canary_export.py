#!/usr/bin/env python3
"""A Canary (EncDecMultiTaskModel) of NeMo with small random weights, as sherpa-onnx's scripts/nemo/canary/export_onnx_180m_flash.py
writes it: encoder.onnx, decoder.onnx and tokens.txt; and texts.json, the answers of ONNX Runtime on these files to recordings of
this repository, by beam_search.py over whole prefixes.

Usage: canary_export.py export_onnx_180m_flash.py OUT   (nemo-toolkit 3.0.0, torch 2.15, onnxruntime, onnxscript)
"""

import json
import os
import pathlib
import sys
import types
import wave

import beam_search
import numpy as np
import onnx
import onnxruntime
import torch

sys.path.pop(0)  # numba would take the folder `coverage` next to this file for the package
torch.version.cuda = None  # torchaudio compares it with its own
from nemo.collections.asr.modules import AudioToMelSpectrogramPreprocessor, ConformerEncoder  # noqa: E402
from nemo.collections.asr.modules.transformer import transformer_decoders  # noqa: E402
from nemo.collections.asr.modules.transformer.transformer import TransformerDecoderNM  # noqa: E402
from nemo.collections.asr.parts.submodules.token_classifier import TokenClassifier  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from archives import pack  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
WAVES = sorted((ROOT / "models/digits-en").glob("spoken-*.wav"))
HIDDEN, BINS, LAYERS, SEED = 32, 128, 4, 5
LONGEST = 24
SPECIAL = ["<unk>", "<|nospeech|>", "<pad>"] + [f"<|{name}|>" for name in (
    "endoftext startoftranscript pnc nopnc startofcontext itn noitn timestamp notimestamp diarize nodiarize emo:undefined en de es fr"
).split()]  # fmt: skip
# Of several languages, which share pieces.
TOKENS = SPECIAL + [f"▁{word}" for word in "a the of in one two six".split()] + list("abcdefghinorst") + ["▁a", "e", "▁die"]


class Model(torch.nn.Module):
    """The parts of EncDecMultiTaskModel that the script exports. The embedding is not the last product's matrix, as it is
    in NeMo: with random weights a token would follow itself."""

    def __init__(self):
        super().__init__()
        self.encoder = ConformerEncoder(
            feat_in=BINS, feat_out=-1, n_layers=1, d_model=16, subsampling="dw_striding", subsampling_factor=8,
            subsampling_conv_channels=8, ff_expansion_factor=2, self_attention_model="rel_pos", n_heads=2,
            conv_kernel_size=9, pos_emb_max_len=500)  # fmt: skip
        self.encoder_decoder_proj = torch.nn.Linear(16, HIDDEN)
        self.transf_decoder = TransformerDecoderNM(
            vocab_size=len(TOKENS), hidden_size=HIDDEN, num_layers=LAYERS, inner_size=2 * HIDDEN, num_attention_heads=4,
            max_sequence_length=64, num_token_types=0, hidden_act="relu", pre_ln=True)  # fmt: skip
        self.log_softmax = TokenClassifier(hidden_size=HIDDEN, num_classes=len(TOKENS), log_softmax=True)


def with_weights():
    model = Model()
    torch.manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(0, 0 if name.endswith("bias") else 0.3 if name.startswith("encoder.") else 0.6)
        model.encoder_decoder_proj.weight.normal_(0, 2)
        head = model.log_softmax.mlp.layer0
        head.weight.normal_(0, 0.6)
        head.bias.zero_()
        head.bias[: len(SPECIAL)] = -30  # as a trained model, which writes none of them
        head.bias[TOKENS.index("<|endoftext|>")] = 5
    return model.eval()


def exported(script, model, out):
    """Runs the script's own functions on the model, in the output folder."""
    source = pathlib.Path(script).read_text().replace("1024", str(HIDDEN)).replace("rand(1, 4000,", "rand(1, 400,")
    source = source.replace("zeros(1, 1000,", "zeros(1, 50,").replace("ones(1, 1000)", "ones(1, 50)")
    # As the versions of PyTorch and NeMo did for which it was written.
    source = source.replace("        encoder_filename,\n", "        encoder_filename,\n        dynamo=False,\n")
    source = source.replace('"decoder_input_ids": {1: "num_tokens"}', '"decoder_input_ids": {}')
    source = source.replace("            return_mems=True,\n        )\n", "            return_mems=True,\n        )[0]\n")
    module = types.ModuleType("script")
    exec(compile(source, script, "exec"), module.__dict__)
    transformer_decoders.form_attention_mask = module.fixed_form_attention_mask
    os.chdir(out)
    with torch.no_grad():
        module.export_encoder(model)
        module.export_decoder(model)
    module.add_meta_data("encoder.onnx", {
        "vocab_size": len(TOKENS), "normalize_type": "per_feature", "subsampling_factor": 8, "model_type": "EncDecMultiTaskModel",
        "version": "1", "model_author": "NeMo", "url": "https://huggingface.co/nvidia/canary-180m-flash", "feat_dim": BINS})  # fmt: skip
    decoder = onnx.load("decoder.onnx")
    decoder.ir_version = 9
    for node in decoder.graph.node:
        del node.metadata_props[:]
    onnx.save(decoder, "decoder.onnx")
    pathlib.Path("tokens.txt").write_text("".join(f"{token} {i}\n" for i, token in enumerate(TOKENS)))


def features_of(path):
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768
    preprocessor = AudioToMelSpectrogramPreprocessor(features=BINS, n_fft=512, window_size=0.025, window_stride=0.01, window="hann",
                                                     normalize="per_feature", dither=0.0, pad_to=0)  # fmt: skip
    features, length = preprocessor(input_signal=torch.tensor(samples)[None], length=torch.tensor([len(samples)]))
    return features[:, :, : int(length[0])].transpose(1, 2).numpy()


class Files:
    def __init__(self):
        self.encoder, self.decoder = (onnxruntime.InferenceSession(f"{part}.onnx") for part in ("encoder", "decoder"))

    def next_log_probs(self, memory, prompt):
        def ask(prefixes):
            answers = []
            for tokens in prefixes:
                states = [np.zeros((1, 0, HIDDEN), np.float32)] * (LAYERS + 2)
                for place, token in enumerate((*prompt, *tokens)):
                    feed = {f"decoder_mems_list_{i}": state for i, state in enumerate(states)}
                    logits, *states = self.decoder.run(None, {
                        "decoder_input_ids": np.array([[token, place]], np.int32), **feed,
                        "enc_states": memory[0], "enc_mask": memory[2]})  # fmt: skip
                row = logits[0, 0].astype(np.float64)
                answers.append(row - np.log(np.exp(row - row.max()).sum()) - row.max())
            return np.array(answers, np.float32)

        return ask


def prompt_of(source, target, punctuates):
    names = ["startofcontext", "startoftranscript", "emo:undefined", source, target, "pnc" if punctuates else "nopnc", "noitn",
             "notimestamp", "nodiarize"]  # fmt: skip
    return [TOKENS.index(f"<|{name}|>") for name in names]


def main():
    script, out = map(os.path.abspath, sys.argv[1:])
    os.makedirs(f"{out}/nemo", exist_ok=True)
    exported(script, with_weights(), f"{out}/nemo")
    files, end, answers = Files(), TOKENS.index("<|endoftext|>"), []
    for path in WAVES:
        features = features_of(path)
        memory = files.encoder.run(None, {"x": features, "x_len": np.array([features.shape[1]], np.int64)})
        for source, target, beam_size in (("en", "en", 1), ("en", "en", 4), ("de", "de", 1), ("de", "de", 4)):
            options = {"beam_size": beam_size, "n_best": 1, "length_penalty": "LENGTH_PENALTY_NONE", "length_penalty_alpha": 1}
            found, gaps = beam_search.beam_search(files.next_log_probs(memory, prompt_of(source, target, True)), end, LONGEST, options)
            ids = [int(token) for token in found[0][0] if token != end]
            assert gaps.smallest > 1e-4 or beam_size > 1, gaps.smallest
            answers.append({"source": path.name, "language": source, "target": target, "beam_size": beam_size,
                            "text": "".join(TOKENS[i] for i in ids).replace("▁", " ").strip(), "ids": ids})  # fmt: skip
    (pathlib.Path(out) / "texts.json").write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    pack(pathlib.Path(out))


if __name__ == "__main__":
    main()
