"""The translate page: two panes, languages that fit together, and other translations that change places with the first."""

import os
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from conftest import PICTURES, ROOT, serving, tab_of

sys.path.insert(0, str(ROOT / "tests/stock_clients"))
import marian_files  # noqa: E402


@pytest.fixture(scope="module")
def translating(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translate")
    models = []
    for direction in ("enfr", "esen"):
        marian_files.write(folder, direction)
        subprocess.run(
            [os.environ["BEAMWRIGHT_GRAPH_PROGRAM"], "init", f"model.{direction}.intgemm.alphas.bin", "--source-vocabulary",
             f"vocab.{direction}.spm", "--target-vocabulary", f"vocab.{direction}.spm", "--out", direction],
            cwd=folder, check=True, capture_output=True)
        models += ["--model-path", folder / direction]
    with serving(folder, *models) as running:
        yield running


@pytest.fixture
def tab(browser, translating):
    with tab_of(browser, translating, height=700) as tab:
        yield tab


def test_a_text_is_translated_and_another_translation_chosen(tab, translating):
    tab.goto("/")
    tab.get_by_role("link", name="Translate").click()
    expect(tab.get_by_label("From").locator("option")).to_have_text(["English", "Spanish", "Find out"])
    expect(tab.get_by_label("To", exact=True).locator("option")).to_have_text(["French"])
    tab.get_by_label("Text", exact=True).last.fill("w4 w6 w9!\nw8 w3!")
    expected = [translating.decode("enfr", line)["hypotheses"][0]["text"] for line in ("w4 w6 w9!", "w8 w3!")]
    result = tab.locator("#translation")
    expect(result).to_have_text("\n".join(expected), use_inner_text=True)
    other = tab.get_by_label("Other translations").get_by_role("button").first
    chosen = other.inner_text()
    tab.screenshot(path=PICTURES / "translate.png")
    other.click()
    expect(result).to_have_text(chosen, use_inner_text=True)
    expect(other).to_have_text("\n".join(expected), use_inner_text=True)
    # The beam behind a word is that of its sentence.
    result.locator(".word[data-line='1']").first.click()
    beam = tab.get_by_label("Beam", exact=True)
    expect(beam.get_by_role("heading")).to_contain_text("w8 w3!")
    expect(beam.get_by_text("Step 1 of")).to_be_visible()
    tab.screenshot(path=PICTURES / "translate-beam.png", full_page=True)
    # Spanish goes to English, and through it to French.
    tab.get_by_label("From").select_option("es")
    expect(tab.get_by_label("To", exact=True).locator("option")).to_have_text(["English", "French"])


def test_without_such_models_the_page_is_not_offered(browser, server):
    with tab_of(browser, server, height=700) as tab:
        tab.goto("/#/status")
        tab.get_by_role("link", name="Status").wait_for()
        expect(tab.get_by_role("link", name="Translate")).to_be_hidden()
        tab.goto("/#/translate")
        tab.get_by_text("No model of this server translates.").wait_for()
