"""Writes a small random U2++ conformer of WeNet as its exporter and sherpa-onnx's scripts write it.

    wenet_export.py WENET SHERPA OUT   (writes OUT/NAME.tar.gz)

WENET and SHERPA are checkouts: WeNet 3.1.0 (2d8bb97) and sherpa-onnx (scripts/wenet at 55189b0). Their
code runs as it is; modules that it imports and an export does not use are stubs, and so is the
checkpoint: weights are random, by the exporter's seed. Versions: PyTorch 1.13.0, onnx 1.23.2,
onnxruntime 1.32.0. Both toolkits are under the Apache Licence 2.0.

OUT/wenet gets encoder.onnx and ctc.onnx of wenet/bin/export_onnx_cpu.py with chunks of 16 frames behind
4 others, and units.txt; OUT/wenet_whole the same files with --chunk_size -1; OUT/wenet_sherpa
model.onnx of export-onnx.py. (export-onnx-streaming.py with this PyTorch writes Slices whose starts have
two axes, which ONNX Runtime refuses.)
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from unittest.mock import MagicMock

import torch
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from archives import pack  # noqa: E402

PIECES = ["▁the", "▁a", "s", "ed", "▁to", "ing", "er", "▁b", "o", "n", "t", "▁he", "l", "re", "▁in", "y", "d"]
TOKENS = ["<blank>", "<unk>", *PIECES, "<sos/eos>"]
WIDTH, HEADS, BLOCKS = 16, 2, 2
POSITIONS = 256  # of the table, so that files are small and streams reach its end


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    NAMES = ("deepspeed", "langid", "librosa", "tensorboardX", "torchaudio", "whisper")

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in self.NAMES or name in ("wenet.cli", "wenet.cli.model"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__ = [], spec, spec.name
        return module

    def exec_module(self, module):
        pass


def configuration(wenet: Path) -> dict:
    config = yaml.safe_load((wenet / "examples/aishell/s0/conf/train_u2++_conformer.yaml").read_text())
    config["encoder_conf"].update(num_blocks=BLOCKS, linear_units=24, output_size=WIDTH, attention_heads=HEADS)
    config["decoder_conf"].update(num_blocks=1, r_num_blocks=1, linear_units=24, attention_heads=HEADS)
    end = len(TOKENS) - 1
    config["tokenizer_conf"]["special_tokens"] = {"<blank>": 0, "<unk>": 1, "<sos>": end, "<eos>": end}
    config.update(input_dim=80, output_dim=len(TOKENS), vocab_size=len(TOKENS), cmvn=None)
    return config


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor, dropout_p: float,
              scale: float) -> torch.Tensor:
    return query


def with_weights():
    """Replaces what reads a checkpoint, and shortens the table of positions."""
    import wenet.transformer.embedding as embedding
    import wenet.utils.init_model as init_model

    make = init_model.init_model

    def made(args, configs):
        for name in ("checkpoint", "jit", "enc_init", "lora_ckpt_path", "use_lora"):
            setattr(args, name, None)
        torch.manual_seed(43)
        model, configs = make(args, configs)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.startswith("encoder.encoders") and name.endswith("weight") and parameter.dim() > 1:
                    parameter.mul_(2)
            model.ctc.ctc_lo.weight.mul_(12)  # so that distributions are not flat
        return model, configs

    if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):  # compiled, not called: use_sdpa is off
        torch.nn.functional.scaled_dot_product_attention = attention
    init_model.init_model = made
    embedding.PositionalEncoding.__init__.__defaults__ = (POSITIONS, False)
    embedding.RelPositionalEncoding.__init__.__defaults__ = (POSITIONS,)


def run(script: Path, folder: Path, arguments: list[str]) -> None:
    """Runs a script's main in a folder, next to its train.yaml."""
    specification = importlib.util.spec_from_file_location(script.stem.replace("-", "_"), script)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    os.chdir(folder)
    sys.argv = [str(script), *arguments]
    module.main()
    for rest in (*folder.glob("*.int8.onnx"), *folder.glob("*.quant.onnx"), folder / "decoder.onnx", folder / "train.yaml"):
        rest.unlink(missing_ok=True)


def main() -> None:
    wenet, sherpa, out = (Path(path).resolve() for path in sys.argv[1:])
    sys.path.insert(0, str(wenet))
    sys.meta_path.insert(0, Stubs())
    with_weights()
    own = wenet / "wenet/bin/export_onnx_cpu.py"
    for name, script, arguments in (
            ("wenet", own, ["--chunk_size", "16", "--num_decoding_left_chunks", "4"]),
            ("wenet_whole", own, ["--chunk_size", "-1", "--num_decoding_left_chunks", "-1"]),
            ("wenet_sherpa", sherpa / "scripts/wenet/export-onnx.py", [])):
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "train.yaml").write_text(yaml.safe_dump(configuration(wenet)))
        if script == own:
            arguments += ["--config", "train.yaml", "--checkpoint", "none", "--output_dir", "."]
        run(script, folder, arguments)
    units = "".join(f"{token} {i}\n" for i, token in enumerate(TOKENS))
    for name in ("wenet", "wenet_whole", "wenet_sherpa"):
        (out / name / "units.txt").write_text(units, encoding="utf-8")
        pack(out / name)


if __name__ == "__main__":
    main()
