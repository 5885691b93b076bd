"""The page that `beamwright-graph show --html` writes, opened as a file."""

import os
import pathlib
import subprocess

import pytest

from conftest import PATIENCE, PICTURES, ROOT
from test_page import violations

PROGRAM = pathlib.Path(os.environ["BEAMWRIGHT_SERVER_PROGRAM"]).parent / "beamwright-graph"
DECODER = ROOT / "models/g2p-en/1/decoder.xml"
EVIL = "&quot;&gt;&lt;img src=x onerror='window.hit=1'&gt;&lt;/script&gt;&lt;script&gt;window.hit=1&lt;/script&gt;"
HOSTILE = f"""<net name="{EVIL}" version="11"><layers>
<layer id="0" name="{EVIL}" type="Parameter" version="opset1"><data element_type="f32" shape="2"/>
<output><port id="0" precision="FP32" names="{EVIL}"><dim>2</dim></port></output></layer>
<layer id="1" name="{EVIL}" type="ReLU" version="opset1"><input><port id="0"/></input>
<output><port id="1" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="2" name="{EVIL}" type="Result" version="opset1"><input><port id="0"/></input></layer></layers>
<edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/></edges></net>"""


@pytest.fixture
def shown(browser, tmp_path):
    """Opens the page of a graph file. A test fails with any error of the page, and if it asks for anything."""
    faults = []

    def open_page(graph, **options):
        out = tmp_path / "graph.html"
        subprocess.run([PROGRAM, "show", graph, "--html", out], check=True, timeout=120)
        tab = browser.new_context(viewport={"width": 1400, "height": 900}, **options).new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
        tab.on("request", lambda request: faults.append(request.url) if not request.url.startswith("file:") else None)
        tab.goto(out.as_uri())
        return tab

    yield open_page
    assert faults == []


def test_a_click_tells_all_of_a_node(shown):
    page = shown(DECODER)
    page.locator(".node", has_text="SoftMax").first.click()
    details = page.locator("#details")
    assert details.locator("h2").inner_text() == "SoftMax"
    assert "request by request" in details.inner_text()
    assert "axis" in details.inner_text()
    assert page.locator(".line.chosen").count() >= 1
    # What it reads is a link to there.
    details.locator("section").first.locator("a").first.click()
    assert details.locator("h2").inner_text() == "MatMul"


def test_search_finds_by_operator_name_and_attribute(shown):
    page = shown(DECODER)
    page.keyboard.press("/")
    page.keyboard.type("lstmcell")
    assert page.locator("#count").inner_text() == "4 found"
    assert page.locator(".node.hit").count() == 4
    page.keyboard.press("Enter")
    assert page.locator("#details h2").inner_text() == "LSTMCell"
    page.keyboard.press("Escape")
    assert page.locator(".node.hit").count() == 0
    assert page.locator(".node.chosen").count() == 0


def test_the_keyboard_goes_everywhere(shown):
    page = shown(DECODER)
    page.locator("#pictures").focus()
    page.keyboard.press("ArrowDown")
    first = page.locator(".node.chosen").get_attribute("data-node")
    page.keyboard.press("ArrowDown")
    assert page.locator(".node.chosen").get_attribute("data-node") != first
    width = page.locator(".view:visible svg").bounding_box()["width"]
    page.keyboard.press("+")
    assert page.locator(".view:visible svg").bounding_box()["width"] > width
    page.keyboard.press("0")
    assert page.locator(".view:visible svg").bounding_box()["width"] == width


def test_a_decoder_is_shown_as_a_step_and_as_its_file(shown):
    page = shown(DECODER)
    assert page.get_by_role("tab", selected=True).inner_text() == "A search's step"
    assert page.locator(".view:visible .fill.token").count() > 2
    page.get_by_role("tab", name="The file").click()
    assert page.locator(".view:visible .frame").count() == 1
    page.screenshot(path=PICTURES / "show-file.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(shown, scheme):
    page = shown(DECODER, color_scheme=scheme)
    assert violations(page) == []
    page.locator(".node", has_text="SoftMax").first.click()
    page.locator("#search").fill("mul")
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.screenshot(path=PICTURES / f"show-{scheme}.png")


def test_picture_of_the_documentation(shown):
    page = shown(DECODER)
    page.set_viewport_size({"width": 1400, "height": 560})
    page.locator(".node", has_text="SoftMax").first.click()
    page.screenshot(path=PICTURES / "show.png")


def test_hostile_names_stay_text(shown, tmp_path):
    graph = tmp_path / "hostile.xml"
    graph.write_text(HOSTILE)
    page = shown(graph)
    page.locator(".node").first.click()
    page.locator("#search").fill("script")
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0
    assert "<img src=x" in page.locator("#details").inner_text()
