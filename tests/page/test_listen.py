"""The listen page: a recording, and the microphone, which Chromium plays from a file; the words and the beam as they grow."""

import base64
import re
import sys

import pytest
from playwright.sync_api import expect

from conftest import PATIENCE, PICTURES, ROOT, serving, tab_of

sys.path.insert(0, str(ROOT / "tests/frames"))
from served_tones import make_bundle, make_chunks_bundle, tones, write_wave  # noqa: E402

CHUNKS = "tones_chunks · 1"
# What is said, and of each row of the beam its text, share in % and score: as it stands at the first moment when the best one
# holds these words.
NOW = """(words) => {
    const rows = [...document.querySelectorAll('.alive tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
    return rows.length > 0 && rows[0][0].includes(words) && [document.querySelector('.now').innerText.trim(), rows];
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models that hear tones, when a source is complete and chunk by chunk, and a recording of four of them."""
    folder = tmp_path_factory.mktemp("listen")
    make_bundle(folder / "models/tones/1")
    make_chunks_bundle(folder / "models/tones_chunks/1")
    write_wave(folder / "talk.wav", tones([3, 17, 8, 12]))
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
    with tab_of(browser, listening, height=700) as tab:
        yield tab


def test_a_recording_is_heard(tab, folder):
    tab.goto("/#/listen")
    # Models that hear no sound are not offered.
    expect(tab.get_by_label("Model", exact=True).locator("option")).to_have_text(["tones · 1", CHUNKS])
    tab.get_by_label("A recording").set_input_files(folder / "talk.wav")
    said = tab.locator(".heard .said")
    tab.get_by_text("The answer is complete.").wait_for()
    expect(said).to_have_text(["t3 t17 t8 t12"])
    tab.get_by_text("3 more of the beam").click()
    expect(tab.locator(".heard tbody tr")).to_have_count(4)
    tab.screenshot(path=PICTURES / "page-listen.png")
    # Once more: the answer before goes.
    tab.get_by_label("A recording").set_input_files([])
    tab.get_by_label("A recording").set_input_files(folder / "talk.wav")
    expect(said).to_have_text(["t3 t17 t8 t12"])


def test_a_dropped_recording_has_words_with_times(tab, folder):
    tab.goto("/#/listen")
    expect(tab.get_by_label("Model", exact=True).locator("option")).to_have_count(2)
    recording = base64.b64encode((folder / "talk.wav").read_bytes()).decode()
    files = tab.evaluate_handle("""(recording) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([Uint8Array.from(atob(recording), (one) => one.charCodeAt(0))], 'talk.wav', {type: 'audio/wav'}));
        return transfer;
    }""", recording)
    tab.locator(".columns").dispatch_event("drop", {"dataTransfer": files})
    words = tab.locator(".heard .said .word")
    expect(words).to_have_text(["t3", "t17", "t8", "t12"])
    begins = [float(words.nth(i).get_attribute("title").split("\u2013")[0]) for i in range(4)]
    assert begins == sorted(begins) and 0 <= begins[0] < 0.3, begins
    assert all(words.nth(i).get_attribute("title").endswith(" %") for i in range(4))


def test_the_microphone_is_heard(ears, listening):
    with ears.new_context(base_url=listening.url, permissions=["microphone"]) as context:
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.goto("/#/listen")
        # On a busy machine Chromium plays the file with gaps, which a word may fall into: it listens longer then.
        for least in ("[2-9]", "[5-9]", "[1-9][0-9]"):
            tab.get_by_role("button", name="Listen", exact=True).click()
            tab.get_by_text(re.compile(rf"Listening… ({least}|[1-9][0-9]+)\.")).wait_for()
            tab.get_by_role("button", name="Stop", exact=True).click()
            tab.get_by_text("The answer is complete.").wait_for()
            heard = tab.locator(".heard .said").inner_text()
            if "t3 t17 t8 t12" in heard:
                break
        else:
            raise AssertionError(heard)


def test_samples_under_way_when_it_is_stopped_are_dropped(ears, listening):
    with ears.new_context(base_url=listening.url, permissions=["microphone"]) as context:
        tab = context.new_page()
        tab.set_default_timeout(30_000)
        # A busy browser: what the microphone hears comes half a second late.
        tab.add_init_script("""const {set} = Object.getOwnPropertyDescriptor(MessagePort.prototype, 'onmessage');
            Object.defineProperty(MessagePort.prototype, 'onmessage', {set(hear) {
                set.call(this, (message) => setTimeout(() => { hear(message); window.late = (window.late ?? 0) + 1; }, 500)); }});""")
        tab.goto("/#/listen")
        tab.get_by_role("button", name="Listen", exact=True).click()
        tab.get_by_text(re.compile(r"Listening… [2-9]\.")).wait_for()
        tab.get_by_role("button", name="Stop", exact=True).click()
        before = tab.evaluate("window.late")
        tab.wait_for_function("(before) => window.late > before + 10", arg=before)
        tab.get_by_text("The answer is complete.").wait_for()


def test_the_beam_is_shown_while_it_grows(ears, listening):
    for name, width, height in (("page-beam", 1360, 760), ("page-beam-phone", 390, 844)):
        with ears.new_context(base_url=listening.url, permissions=["microphone"], viewport={"width": width, "height": height}) as context:
            tab = context.new_page()
            tab.set_default_timeout(PATIENCE)
            tab.goto("/#/listen")
            expect(tab.locator(".alive")).to_be_hidden()
            tab.get_by_label("Model", exact=True).select_option(label=CHUNKS)
            tab.get_by_role("button", name="Listen", exact=True).click()
            said, rows = tab.wait_for_function(NOW, arg="t3 t17 t8 t12 t3").json_value()
            tab.screenshot(path=PICTURES / f"{name}.png")
            # The first one is what is said; all that are alive differ, and share what there is in the order of their scores.
            texts = [text for text, _, _ in rows if text]
            assert len(rows) == 4 and texts[0] == said and len(set(texts)) == len(texts) > 1, rows
            scores = [float(score.replace("\u2212", "-")) for text, _, score in rows if text]
            shares = [int(share.removesuffix(" %")) for text, share, _ in rows if text]
            assert scores == sorted(scores, reverse=True) and shares == sorted(shares, reverse=True), rows
            assert 97 <= sum(shares) <= 103, rows
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
            tab.get_by_role("button", name="Stop", exact=True).click()
            tab.get_by_text("The answer is complete.").wait_for()
            expect(tab.locator(".alive")).to_be_hidden()


def test_what_is_no_sound_is_told(tab, folder):
    tab.goto("/#/listen")
    tab.get_by_label("A recording").set_input_files(folder / "log")
    tab.get_by_text("log is not sound that this browser can decode.").wait_for()


def test_without_a_listener_it_says_so(page):
    page.goto("/#/listen")
    page.get_by_text("it was started without --websocket-address").wait_for()
