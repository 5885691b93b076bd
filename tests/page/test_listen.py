"""The listen page: a recording, and the microphone, which Chromium plays from a file."""

import math
import random
import re
import shutil
import struct
import wave

import pytest
from playwright.sync_api import expect

from conftest import PICTURES, ROOT, serving

RATE = 16000
SAYS = [3, 17, 8, 12]
BUNDLE = """format_version: 1 name: "tones" frame_ms: 40
encoder { graph: "encoder.onnx" input: "x" length_kind: LENGTH_INPUT_LENGTHS length_input: "x_lens" }
target { form: TEXT_FORM_PIECES vocabulary: "target.vocab" }
transducer {
  predictor { graph: "decoder.onnx" token_input: "y" output: "decoder_out" context_start: -1 }
  joiner { graph: "joiner.onnx" encoder_input: "encoder_out" predictor_input: "decoder_out" logits_output: "logit" }
  context_size: 2
  encoder_output: "encoder_out"
}
sound {}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that hears tones, and a recording of four of them."""
    folder = tmp_path_factory.mktemp("listen")
    bundle = folder / "models/tones/1"
    bundle.mkdir(parents=True)
    (bundle / "model.textproto").write_text(BUNDLE)
    (bundle / "target.vocab").write_text("<blk>\n" + "".join(f"\u2581t{i}\n" for i in range(1, 21)))
    for part in ("encoder", "decoder", "joiner"):
        shutil.copy(ROOT / f"tests/frames/exports/tones/{part}.onnx", bundle)
    noise = random.Random(5)
    samples = [0.0] * (RATE // 10)
    for label in SAYS:
        count = RATE * 15 // 100
        samples += [0.3 * math.sin(2 * math.pi * 200 * 1.18**label * i / RATE)
                    * (0.5 - 0.5 * math.cos(2 * math.pi * i / (count - 1)))**0.3 for i in range(count)]
    samples += [0.0] * (RATE // 10)
    with wave.open(str(folder / "talk.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(struct.pack(f"<{len(samples)}h", *(round(32767 * (one + noise.uniform(-0.04, 0.04))) for one in samples)))
    return folder


@pytest.fixture(scope="module")
def listening(folder):
    with serving(folder, "--model-repository", folder / "models", "--websocket-address", "127.0.0.1:0") as running:
        yield running


@pytest.fixture(scope="module")
def ears(folder, chromium):
    """A browser whose microphone hears the recording again and again."""
    with chromium("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
                  f"--use-file-for-fake-audio-capture={folder / 'talk.wav'}") as running:
        yield running


@pytest.fixture
def tab(browser, listening):
    faults = []
    with browser.new_context(base_url=listening.url, viewport={"width": 1360, "height": 700}) as context:
        tab = context.new_page()
        tab.set_default_timeout(20_000)
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("console", lambda line: faults.append(line.text) if "Content Security Policy" in line.text else None)
        yield tab
    assert faults == []


def test_a_recording_is_heard(tab, folder):
    tab.goto("/#/listen")
    # Models that hear no sound are not offered.
    assert tab.get_by_label("Model", exact=True).locator("option").all_inner_texts() == ["tones · 1"]
    tab.get_by_label("A recording").set_input_files(folder / "talk.wav")
    said = tab.locator(".heard .said")
    said.wait_for()
    assert said.all_inner_texts() == ["t3 t17 t8 t12"]
    tab.get_by_text("The answer is complete.").wait_for()
    tab.get_by_text("3 more of the beam").click()
    assert tab.locator(".heard tbody tr").count() == 4
    tab.screenshot(path=PICTURES / "page-listen.png")
    # Once more: the answer before goes.
    tab.get_by_label("A recording").set_input_files([])
    tab.get_by_label("A recording").set_input_files(folder / "talk.wav")
    expect(said).to_have_text(["t3 t17 t8 t12"])


def test_the_microphone_is_heard(ears, listening):
    with ears.new_context(base_url=listening.url, permissions=["microphone"]) as context:
        tab = context.new_page()
        tab.set_default_timeout(30_000)
        tab.goto("/#/listen")
        tab.get_by_role("button", name="Listen", exact=True).click()
        tab.get_by_text(re.compile(r"Listening… [2-9]\.")).wait_for()
        tab.get_by_role("button", name="Stop", exact=True).click()
        tab.get_by_text("The answer is complete.").wait_for()
        assert "t3 t17 t8 t12" in tab.locator(".heard .said").inner_text()


def test_what_is_no_sound_is_told(tab, folder):
    tab.goto("/#/listen")
    tab.get_by_label("A recording").set_input_files(folder / "log")
    tab.get_by_text("log is not sound that this browser can decode.").wait_for()


def test_without_a_listener_it_says_so(page):
    page.goto("/#/listen")
    page.get_by_text("it was started without --websocket-address").wait_for()
