"""The decode page: what it shows is what the API answers."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import numpy
import pytest
from playwright.sync_api import expect

from conftest import ROOT, decode


def table(page, name="Answer"):
    return page.get_by_role("region", name=name, exact=True).locator("tbody tr")


def test_typing_and_decoding(page, server):
    page.goto("/")
    page.get_by_label("Source text").fill("tomato")
    # A new request asks for five answers, and leaves out what the model refuses and what the server does not do.
    for name in ("n_best", "beam_size"):
        expect(page.locator(f"#option-{name}")).to_have_value("5")
    for name in ("fusion", "allowed_list", "lexical_shortlist"):
        expect(page.locator(f"#option-{name}").locator("xpath=..")).to_have_attribute("hidden", "")
    assert page.locator("#kind option:not([hidden])").all_inner_texts() == ["Text", "Token ids"]
    expect(page.locator("#nav-listen")).to_be_hidden()
    page.get_by_label("Source text").press("Control+Enter")
    page.locator(".answer").wait_for()
    wanted = server.decode("g2p-en", "tomato", beam_size=5, n_best=5)["hypotheses"]
    assert page.locator(".answer td.mono").all_inner_texts() == [one["text"] for one in wanted]
    titles = page.locator(".answer td.number[title]").evaluate_all("cells => cells.map(cell => Number(cell.title))")
    assert titles == [value for one in wanted for value in (one["score"], one["log_prob"])]


def test_every_option_has_a_control(page):
    proto = (ROOT / "proto/beamwright/v1/decode.proto").read_text()
    body = proto.split("message DecodeOptions {")[1].split("\n}")[0]
    names = re.findall(r"^  (?:optional |repeated )?[\w.]+ (\w+) = \d+", body, re.M)
    assert len(names) > 40
    page.goto("/")
    page.locator("#option-beam_size").wait_for()
    for name in set(names) - {"lattice", "trace"}:
        assert page.locator(f"#option-{name}").count() == 1, name
    help_text = page.locator("#option-patience-help").inner_text()
    assert "finished hypotheses waited for" in help_text and "0.01 to 100" in help_text
    # The model's own default goes before the option's.
    expect(page.locator("#option-beam_size")).to_have_attribute("placeholder", "4")
    page.get_by_label("Find an option").fill("ngram")
    assert page.locator(".option:visible label").all_inner_texts() == ["no repeat ngram"]


def test_faults_stand_beside_their_controls(page):
    page.goto("/#/decode?source=cat&beam_size=0&top_p=7")
    page.locator(".notice.bad").wait_for()
    assert page.locator("#option-beam_size-fault").inner_text() == "0 is outside [1, 256] hypotheses"
    assert "7 is outside" in page.locator("#option-top_p-fault").inner_text()
    assert page.locator("[aria-invalid]").count() == 2
    page.locator("#option-beam_size").fill("2")
    page.locator("#option-top_p").fill("1")
    page.get_by_role("button", name="Decode", exact=True).click()
    page.locator(".answer").wait_for()
    assert page.locator("[aria-invalid]").count() == 0


def paths(lattice):
    """For each step the token paths of its hypotheses, in order."""
    live, steps = [()], []
    for step in lattice["steps"]:
        here = [live[parent] + (token,) for parent, token in zip(step["parents"], step["tokens"])]
        live = here[:step["num_live"]]
        steps.append(here)
    return steps


def test_the_beam_unfolds(page, server):
    decode(page, source="tomato", beam_size=5, n_best=5)
    decoded = server.decode("g2p-en", "tomato", beam_size=5, n_best=5, lattice=True)
    steps = paths(decoded["lattice"])
    slider = page.get_by_label("Step", exact=True)
    assert slider.get_attribute("max") == str(len(steps) - 1)
    page.get_by_text("This step as a table").click()
    best = decoded["hypotheses"][0]
    words = next((ROOT / "models/g2p-en").rglob("target.vocab")).read_text().split("\n")
    for index in range(len(steps) - 1, -1, -1):
        assert f"Step {index + 1} of {len(steps)}" in page.locator(".position").inner_text()
        rows = page.locator(".step-table tbody tr").evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.innerText))")
        # What the lattice has, and nothing else, was not dropped.
        kept = {row[1]: row for row in rows if not row[4].startswith("dropped: ")}
        assert sorted(kept) == sorted(" ".join(words[token] for token in path) for path in steps[index])
        assert len(rows) > len(kept)
        total = sum(best["token_log_probs"][:index + 1])
        shown = kept[" ".join(words[token] for token in best["tokens"][:index + 1])][3]
        assert float(shown.replace("\u2212", "-")) == pytest.approx(total, abs=6e-4)
        page.get_by_role("button", name="Step back").click()


def test_the_answer_is_chosen_where_the_search_went_on_without_it(page):
    decode(page, source="internationalization", beam_size=5, n_best=3)
    assert "Step 18 of 18" in page.locator(".position").inner_text()
    best = page.locator(".answer td.mono").first.inner_text()
    assert page.locator(".beam-detail dd").first.inner_text() in (best, best + " </s>")


def test_the_tree_by_keyboard(page):
    # The tab's clock stands still but for the steps that are played.
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    decode(page, source="tomato", beam_size=5, n_best=5)
    tree = page.get_by_role("application")
    tree.focus()
    where = page.locator(".beam-detail dd").first
    assert where.inner_text() == "T AH0 M AA1 T OW2 </s>"
    tree.press("ArrowLeft")
    assert where.inner_text() == "T AH0 M AA1 T OW2"
    tree.press("ArrowDown")
    assert where.inner_text() == "T AH0 M AA1 T OW0"
    tree.press("Home")
    assert where.inner_text() == "T"
    assert "T: sum" in page.locator("#live").inner_text()
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(1200)
    page.get_by_text("Step 3 of 7").wait_for()
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(5000)
    assert "Step 3 of 7" in page.locator(".position").inner_text()


def test_attention_is_the_answers(page, server):
    decode(page, source="cat", n_best=2)
    page.get_by_role("button", name="Attention of hypothesis 2").click()
    page.get_by_text("hypothesis 2", exact=True).wait_for()
    map_ = server.decode("g2p-en", "cat", n_best=2, attention="ATTENTION_SOFT")["hypotheses"][1]["attention"]
    weights = page.locator(".heat").evaluate_all("cells => cells.map(cell => Number(cell.style.getPropertyValue('--weight')))")
    assert weights == pytest.approx(map_["values"], abs=6e-4)
    assert page.locator(".heatmap thead th").all_inner_texts() == list("cat")


def test_two_requests_side_by_side(page, server):
    decode(page, **{"source": "tomato", "n_best": 3, "b.source": "tomato", "b.n_best": 3, "b.model": "g2p-en",
                    "b.suppress_tokens": "AH0"})
    assert page.locator(".answer").count() == 2
    left, right = (page.locator(".answer").nth(index) for index in (0, 1))
    wanted = server.decode("g2p-en", "tomato", n_best=3, suppress_tokens={"text": "AH0"})["hypotheses"]
    assert right.locator("td.mono").all_inner_texts() == [one["text"] for one in wanted]
    assert "AH0" in left.locator("mark").all_inner_texts()
    assert left.get_by_text("only here").count() == sum(
        one["text"] not in [other["text"] for other in wanted]
        for one in server.decode("g2p-en", "tomato", n_best=3)["hypotheses"]) > 0
    # A third request: the form edits the one that is chosen.
    page.get_by_role("button", name="Request B").click()
    page.locator("#option-suppress_tokens").fill("")
    page.get_by_role("button", name="Decode", exact=True).click()
    page.locator("mark").first.wait_for(state="detached")
    assert page.get_by_text("same rank, same score").count() == 6


def test_a_link_reproduces_the_request(page, browser, server):
    page.goto("/")
    page.get_by_label("Model").select_option(label="p2g-en · 1")
    page.get_by_label("Source text").fill("K AE1 T")
    page.get_by_label("n best").fill("3")
    page.get_by_role("button", name="Decode", exact=True).click()
    page.locator(".answer").wait_for()
    texts = page.locator(".answer td.mono").all_inner_texts()
    assert "cat" in texts
    link = page.locator("[data-snippet=Link] code").inner_text()
    assert link == page.url
    other = browser.new_page()
    other.goto(link)
    other.locator(".answer").wait_for()
    assert other.locator(".answer td.mono").all_inner_texts() == texts
    other.close()


NASTY = """it's "$(touch /tmp/x)" `id` \\n & é <b>"""


def test_lines_do_the_same(page, server):
    from urllib.parse import quote
    page.goto(f"/#/decode?source={quote(NASTY)}&n_best=2&length_penalty=LENGTH_PENALTY_POW&length_penalty_alpha=-0.5")
    page.locator(".answer").wait_for()
    wanted = page.locator(".answer td.mono").all_inner_texts()
    line = {name: page.locator(f"[data-snippet='{name}'] code").inner_text() for name in ("curl", "Command line", "Python")}
    if pathlib.Path("/usr/bin/curl").exists():
        answer = subprocess.run(["sh", "-c", line["curl"]], capture_output=True, check=True).stdout
        assert [one["text"] for one in json.loads(answer)["results"][0]["decoded"]["hypotheses"]] == wanted
    assert json.loads(shlex.split(line["curl"])[3])["sources"] == [{"text": NASTY}]
    programs = pathlib.Path(os.environ["BEAMWRIGHT_SERVER_PROGRAM"]).parent
    assert server.grpc in line["Command line"] and server.grpc in line["Python"]
    cli = line["Command line"] + " --json"
    cli = cli.replace(" -- ", " --json -- ", 1).removesuffix(" --json")
    answer = subprocess.run(["sh", "-c", f"PATH={programs}:$PATH; {cli}"], capture_output=True, check=True, text=True).stdout
    assert [one["text"] for one in json.loads(answer)["result"]["decoded"]["hypotheses"]] == wanted
    answer = subprocess.run([sys.executable, "-c", line["Python"]], capture_output=True, check=True, text=True).stdout
    assert [text.split(" ", 1)[1] for text in answer.splitlines()] == wanted


MODEL = {"summary": {"name": "speech", "version": "1", "ready": True}, "config": {"decoder": {}}}


def test_features_by_file(page, tmp_path):
    sent = []

    def answer(route):
        sent.append(route.request.post_data_json)
        route.fulfill(json={"results": [{"decoded": {"hypotheses": [], "steps": 0, "compute_ms": 1}}], "model": "speech", "version": "1", "numerics": "f32"})

    page.route("**/v1/models", lambda route: route.fulfill(json={"models": [MODEL["summary"]]}))
    page.route("**/v1/models/speech", lambda route: route.fulfill(json=MODEL))
    page.route("**/v1/models/speech:decode", answer)
    features = numpy.arange(6, dtype=numpy.float32).reshape(3, 2)
    numpy.save(tmp_path / "a.npy", features)
    numpy.save(tmp_path / "f.npy", numpy.asfortranarray(features))
    features.tofile(tmp_path / "raw.bin")
    page.goto("/")
    page.locator("#kind").select_option("features")
    page.locator("#file").set_input_files(tmp_path / "f.npy")
    page.get_by_text("is in Fortran order").wait_for()
    for file, shape in (("a.npy", ""), ("raw.bin", "3, 2")):
        page.locator("#shape").fill(shape)
        page.locator("#file").set_input_files(tmp_path / file)
        page.wait_for_function("() => document.getElementById('source-fault').hidden")
        with page.expect_response("**/v1/models/speech:decode"):
            page.get_by_role("button", name="Decode", exact=True).click()
        page.get_by_text("No hypothesis:").wait_for()
    import base64
    assert len(sent) == 2
    for body in sent:
        tensor = body["sources"][0]["features"]
        assert (tensor["dtype"], tensor["shape"]) == ("f32", ["3", "2"])
        assert base64.b64decode(tensor["data"]) == features.tobytes()


def test_picture_by_file_and_by_drop(page, tmp_path):
    sent = []

    def answer(route):
        sent.append(route.request.post_data_json["sources"][0])
        route.fulfill(json={"results": [{"decoded": {"hypotheses": [], "steps": 0, "compute_ms": 1}}], "model": "ocr", "version": "1", "numerics": "f32"})

    summary = {"name": "ocr", "version": "1", "ready": True}
    model = {"summary": summary, "config": {"ctc": {}, "picture": {}}, "encoder_input": {"name": "image", "dtype": "f32", "shape": ["3", "48", "-1"]}}
    page.route("**/v1/models", lambda route: route.fulfill(json={"models": [summary]}))
    page.route("**/v1/models/ocr", lambda route: route.fulfill(json=model))
    page.route("**/v1/models/ocr:decode", answer)
    data = (pathlib.Path(__file__).resolve().parents[1] / "engine" / "picture" / "data" / "colour.png").read_bytes()
    (tmp_path / "line.png").write_bytes(data)
    page.goto("/")
    page.wait_for_function("() => document.getElementById('kind').value === 'picture'")  # what such a model reads
    page.locator("#picture").set_input_files(tmp_path / "line.png")
    decode = page.get_by_role("button", name="Decode", exact=True)
    with page.expect_response("**/v1/models/ocr:decode"):
        decode.click()
    page.evaluate("""(bytes) => {
      const files = new DataTransfer();
      files.items.add(new File([new Uint8Array(bytes)], 'dropped.png', { type: 'image/png' }));
      document.querySelector('.picture').dispatchEvent(new DragEvent('drop', { dataTransfer: files, bubbles: true, cancelable: true }));
    }""", list(data[:100]))
    page.locator(".picture").get_by_text("dropped.png").wait_for()
    with page.expect_response("**/v1/models/ocr:decode"):
        decode.click()
    import base64
    assert [base64.b64decode(source["picture"]) for source in sent] == [data, data[:100]]
    page.get_by_text("No hypothesis:").wait_for()
