"""from_onnx on recorded exports of PyTorch: bundles that decode as ONNX Runtime does."""

import gzip
import json
import os
import subprocess

import numpy as np
import pytest
from conftest import ROOT, unpacked

import beamwright

LETTERS = list("abcdefghijklmnopqrstuvwxyz")
TOKENS = ["<s>", "</s>", *LETTERS]


@pytest.mark.parametrize("kind", ["step-lstm", "step-gru", "step-ssru", "whole-lstm", "whole-gru", "whole-ssru"])
def test_files_become_a_bundle_that_answers_alike(kind, tmp_path):
    exported = unpacked(f"tools/graph/testdata/{kind}")
    made = beamwright.from_onnx(
        exported / "encoder.onnx",
        exported / "decoder.onnx",
        (LETTERS, TOKENS),
        tmp_path / "1",
        example=[[1, 2, 3, 4], [5, 6]],
        name="backwards",
    )
    assert "agree with ONNX Runtime" in made.checked
    text = str(made)
    assert "\n" not in text
    assert "token input" in text
    with beamwright.Model(made.path) as model:
        assert model.name == "backwards"
        assert set(model.decode("abc", max_length=5).text) <= set(LETTERS)


def test_features_and_ids_without_a_vocabulary(tmp_path):
    folder = unpacked("e2e/exports/frames") / "torchscript"
    made = beamwright.from_onnx(
        folder / "encoder.onnx",
        folder / "decoder.onnx",
        (None, None),
        tmp_path / "1",
        example=np.random.default_rng(1).standard_normal((9, 12)).astype(np.float32),
        begin=0,
        end=1,
    )
    assert "agree with ONNX Runtime" in made.checked


STEPS = ROOT / "tests" / "python"


@pytest.mark.parametrize(
    "file",
    ["mamba2/step.onnx", *(f"authors/{name}.onnx.gz" for name in ("rwkv7", "retnet", "gla", "gated_delta"))],
)
def test_a_recurrent_language_model_answers_as_its_authors_code_does(tmp_path, file):
    """Mamba-2 as from_transformers exports it, others out of their authors' code, and the lists that check_transformers.py and
    check_authors.py found with the code itself."""
    step = STEPS / file
    answers = step.with_name("answers.json")
    if step.suffix == ".gz":
        answers = step.with_name(step.name.replace(".onnx.gz", ".json"))
        step = tmp_path / "step.onnx"
        step.write_bytes(gzip.decompress((STEPS / file).read_bytes()))
    made = beamwright.from_onnx(None, step, (None, None), tmp_path / "1", begin=0, end=3, flags=["--decoder"])
    check = [os.environ["BEAMWRIGHT_GRAPH_PROGRAM"], "check", str(made.path)]
    assert "steps rows of several requests together" in subprocess.run(check, capture_output=True, text=True).stdout
    cases = json.loads(answers.read_text(encoding="utf-8"))
    assert len(cases) >= 4
    with beamwright.Model(made.path) as model:
        for case in cases:
            beam = case["beam"]
            found = model.decode(
                prompt=case["prompt"],
                beam_size=beam,
                n_best=beam,
                max_length=8,
                min_length=0,
                length_penalty="none",
                stop="never" if beam > 1 else "first",
            )
            assert [list(one.tokens) for one in found.hypotheses] == case["tokens"], case["prompt"]
        with pytest.raises(beamwright.InvalidArgumentError, match="send a prompt as options.target_prefix"):
            model.decode([5])


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    step = ROOT / "tests" / "python" / "mamba2" / "step.onnx"
    tokenizer = ROOT / "tests" / "engine" / "bundle" / "data" / "gpt2.json"
    for name, special, reason in (
        ("1", {"begin": "<|end|>", "end": "<|end|>"}, "vocabulary has 422"),
        ("2", {}, "which token ends a text"),
        ("3", {"begin": "<s>", "end": "<|end|>"}, "'<s>' is not in the target vocabulary"),
    ):
        with pytest.raises(beamwright.ExportError, match=reason):
            beamwright.from_onnx(None, step, (None, tokenizer), tmp_path / name, flags=["--decoder"], **special)


def test_wrong_graphs_are_told(tmp_path):
    exported = unpacked("tools/graph/testdata/step-lstm")
    files = exported / "encoder.onnx", exported / "decoder.onnx"
    with pytest.raises(beamwright.ExportError, match="the target vocabulary has 26"):
        beamwright.from_onnx(*files, (LETTERS, LETTERS), tmp_path / "1")
    with pytest.raises(beamwright.ExportError, match="cannot open"):
        beamwright.from_onnx(files[0], tmp_path / "none.onnx", (LETTERS, TOKENS), tmp_path / "2")
    with pytest.raises(beamwright.ExportError, match="there is no file"):
        beamwright.from_onnx(*files, ("source.vocab", TOKENS), tmp_path / "3")
    with pytest.raises(beamwright.ArgumentTypeError, match="pair"):
        beamwright.from_onnx(*files, "letters.vocab", tmp_path / "4")
    with pytest.raises(beamwright.ArgumentTypeError, match="token 1"):
        beamwright.from_onnx(*files, (["a", ""], TOKENS), tmp_path / "5")


def test_a_bundle_that_answers_otherwise_is_told(tmp_path, monkeypatch):
    """States that are tied to each other crosswise load and decode, and answer otherwise."""
    exported = unpacked("tools/graph/testdata/step-lstm")
    with pytest.raises(beamwright.ExportError, match="decodes otherwise than ONNX Runtime"):
        monkeypatch.setattr(beamwright._onnx._Runtime, "_first_inputs", crossed(beamwright._onnx._Runtime._first_inputs))
        beamwright.from_onnx(
            exported / "encoder.onnx",
            exported / "decoder.onnx",
            (LETTERS, TOKENS),
            tmp_path / "1",
            example=[1, 2, 3],
        )


def crossed(original):
    def first_inputs(*arguments):
        feed = original(*arguments)
        feed["h"], feed["c"] = feed["c"], feed["h"]
        return feed

    return first_inputs


def test_programs_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("BEAMWRIGHT_GRAPH_PROGRAM", os.devnull)
    with pytest.raises(beamwright.ServerError, match="BEAMWRIGHT_GRAPH_PROGRAM"):
        beamwright.from_onnx(None, "decoder.onnx", (None, None), tmp_path / "1")
