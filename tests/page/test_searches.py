"""The page for models that are searched by frames: their options, and a request without what only decoders have."""

import base64
import json
import pathlib
import shlex
import subprocess

import pytest

from conftest import PICTURES, SERVER, serving, unpacked

OF_ALL = {"beam_size", "n_best", "hotwords", "temperature", "length_penalty"}
OF_TOKENS = {"repetition_penalty", "stop", "sampling", "trace", "attention"}
OF_FRAMES = {"blank_penalty", "recombine", "full_sum"}
OF_TRANSDUCERS = {"max_symbols_per_frame", "frame_order"}


def bundle(folder, name, graphs):
    exported = unpacked(f"frames/exports/{name}")
    subprocess.run([pathlib.Path(SERVER).parent / "beamwright-graph", "init",
                    *(exported / f"{graph}.onnx" for graph in graphs), "--tokens", exported / "tokens.txt",
                    "--out", folder / name], check=True, capture_output=True)
    return folder / name


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """A server with a CTC model, a transducer and the default models."""
    folder = tmp_path_factory.mktemp("frames")
    ctc = bundle(folder, "ctc_icefall", ["model"])
    transducer = bundle(folder, "icefall_offline", ["encoder", "decoder", "joiner"])
    with serving(folder, "--model-path", ctc, "--model-path", transducer) as running:
        yield running


def best_text(result):
    return result["decoded"]["hypotheses"][0]["text"]


def choose(page, model):
    page.locator("#model").select_option(json.dumps([model, "1"], separators=(",", ":")))


def wait_for_options(page, shown, hidden):
    names = [f"#option-{name}" for name in shown], [f"#option-{name}" for name in hidden]
    page.wait_for_function("""([shown, hidden]) => {
      const isHidden = (name) => document.querySelector(name).closest('.option').hidden;
      return !shown.some(isHidden) && hidden.every(isHidden); }""", arg=names)


def test_a_model_has_the_options_of_its_search(page, frames):
    page.goto(frames.url)
    page.locator("#model").wait_for()
    choose(page, "ctc_icefall")
    wait_for_options(page, OF_ALL | OF_FRAMES, OF_TOKENS | OF_TRANSDUCERS)
    choose(page, "icefall_offline")
    wait_for_options(page, OF_ALL | OF_FRAMES | OF_TRANSDUCERS, OF_TOKENS)
    # A search finds none that are not there; what is set stays, so that it can be taken back.
    page.locator("#option-filter").fill("penalty")
    wait_for_options(page, {"blank_penalty", "length_penalty"}, {"repetition_penalty"})
    page.locator("#option-blank_penalty").fill("1")
    choose(page, "g2p-en")
    wait_for_options(page, {"blank_penalty", "repetition_penalty"}, set())
    page.locator("#option-blank_penalty").fill("")
    page.locator("#option-filter").fill("")
    wait_for_options(page, OF_ALL | OF_TOKENS, OF_FRAMES | OF_TRANSDUCERS)


@pytest.mark.parametrize("model", ["ctc_icefall", "icefall_offline"])
def test_such_a_model_is_decoded(page, frames, tmp_path, model):
    known = json.loads((unpacked(f"frames/exports/{model}") / "answers.jsonl").read_text(encoding="utf-8").splitlines()[0])
    features = known["source"]["features"]
    question = {"sources": [known["source"]], "options": {"beam_size": 5, "n_best": 5}}  # as a new request asks
    answer = json.loads(frames.ask(f"/v1/models/{model}:decode", question)[2])
    page.goto(frames.url)
    page.locator("#model").wait_for()
    choose(page, model)
    page.locator("#kind").select_option("features")
    page.locator("#shape").fill(", ".join(map(str, features["shape"])))
    page.locator("#file").set_input_files({"name": "x.f32", "mimeType": "", "buffer": base64.b64decode(features["data"])})
    page.get_by_role("button", name="Decode", exact=True).click()
    page.locator(".answer").first.wait_for()
    texts = [cell.inner_text() for cell in page.locator(".answer td.mono").all()]
    assert texts == [hypothesis["text"] or "(empty)" for hypothesis in answer["results"][0]["decoded"]["hypotheses"]]
    assert page.locator(".answer td").last.inner_text() == "end of source"
    page.screenshot(path=PICTURES / f"{model}.png", full_page=True)
    # The line for the terminal does the same.
    line = page.locator('[data-snippet="Command line"] code').inner_text()
    flags = shlex.split(line.replace("127.0.0.1:8001", frames.grpc))[2:]
    (tmp_path / "x.f32").write_bytes(base64.b64decode(features["data"]))
    shown = subprocess.run([pathlib.Path(SERVER).parent / "beamwright", "decode", *flags, "--json"], cwd=tmp_path, check=True,
                          capture_output=True, text=True)
    assert best_text(json.loads(shown.stdout)["result"]) == best_text(answer["results"][0])
    assert '.fromfile("x.f32", "<f4").reshape(9, 80)' in page.locator('[data-snippet="Python"] code').inner_text()
