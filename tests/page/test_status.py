"""The status page, and what hidden pages cost."""

import json

from playwright.sync_api import expect

from conftest import PICTURES, decode, serving

HIDE = """hidden => {
    window.asked = 0;
    Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""
COUNT = """() => {
    const ask = window.fetch;
    window.asked = 0;
    window.fetch = (...args) => { window.asked += 1; return ask(...args); };
}"""
DAY = 24 * 3600 * 1000


def test_the_status_is_the_servers(page, server):
    for word in ("cat", "tomato", "beam"):
        server.decode("g2p-en", word)
    page.set_viewport_size({"width": 1280, "height": 480})
    # The tab's clock stands still but for the two seconds between two readings, however long the calls between them take.
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    page.goto("/#/status")
    page.get_by_role("region", name="Models").locator("tbody tr").nth(1).wait_for()
    metrics = json.loads(server.ask("/v1/status")[2])["metrics"]
    capacity = metrics["beamwright_beam_rows_capacity"][0]["value"]
    assert f"of {capacity:,}" in page.get_by_role("region", name="Rows").inner_text()
    assert "ready" in page.get_by_role("region", name="State").inner_text()
    sources = sum(one["value"] for one in metrics["beamwright_sources_total"] if one["labels"]["model"] == "g2p-en")
    row = page.locator("tbody tr", has=page.get_by_role("rowheader", name="g2p-en"))
    assert row.locator("td").last.inner_text() == f"{int(sources):,}"
    # What happens meanwhile shows up as a rate and a latency. Once the page shows them it has set the timer of its next reading.
    rate = page.get_by_role("region", name="Calls a second").locator(".value")
    expect(rate).to_have_text("0.0")
    for index in range(40):
        calls = 1 + index * 7 % 5
        for _ in range(calls):
            server.decode("g2p-en", "status")
        page.clock.run_for(2000)
        expect(rate).to_have_text(f"{calls / 2:.1f}")
    assert row.locator("td").nth(3).inner_text().endswith("ms")
    page.screenshot(path=PICTURES / "page-status.png")


def test_quantiles(page):
    page.goto("/")
    module = "async ([before, after, share]) => (await import('/page/status.js')).quantile(before, after, share)"
    empty = [{"count": 0, "buckets": [[1, 0], [2, 0], [4, 0]]}]
    after = [{"count": 10, "buckets": [[1, 5], [2, 10], [4, 10]]}]
    assert page.evaluate(module, [empty, after, 0.5]) == 1
    assert page.evaluate(module, [empty, after, 0.75]) == 1.5
    assert page.evaluate(module, [after, after, 0.5]) is None
    # Two histograms count as one; what is beyond the last bound is said to be at it.
    assert page.evaluate(module, [empty * 2, after * 2, 0.5]) == 1
    assert page.evaluate(module, [empty, [{"count": 10, "buckets": [[1, 0], [2, 0], [4, 0]]}], 0.5]) == 4


def test_nothing_is_asked_while_nobody_looks(page):
    page.clock.install()
    page.add_init_script(f"({COUNT})()")
    page.goto("/#/status")
    page.locator(".tile").nth(6).wait_for()
    with page.expect_response("**/v1/status"):
        page.clock.run_for(2500)
    assert page.evaluate("window.asked") > 2
    page.evaluate(HIDE, True)
    page.clock.run_for(DAY)
    assert page.evaluate("window.asked") == 0
    with page.expect_response("**/v1/status"):
        page.evaluate(HIDE, False)
    # From the other page nothing is asked either.
    decode(page, source="cat")
    page.evaluate("window.asked = 0")
    page.clock.run_for(DAY)
    assert page.evaluate("window.asked") == 0


def test_a_server_that_goes_away(page, tmp_path):
    with serving(tmp_path) as server:
        page.goto(server.url + "/#/status")
        page.locator(".tile").nth(6).wait_for()
        server.process.kill()
        server.process.wait(60)
        page.get_by_text("What stands here was read before.").wait_for()
        assert page.locator(".tile").count() == 7


LARGE = """() => {
    window.drawn = 0;
    const fill = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (...args) { window.drawn += 1; return fill.apply(this, args); };
}"""


def test_ten_thousand_hypotheses(page):
    beam, steps = 250, 40
    lattice = {"steps": [{"parents": [i // 2 if step else 0 for i in range(beam)], "tokens": list(range(beam)),
                          "log_probs": [-0.1 * i for i in range(beam)], "num_live": beam} for step in range(steps)]}
    hypothesis = {"tokens": [0] * steps, "token_log_probs": [], "text": "x", "log_prob": 0, "score": 0, "finish_reason": "FINISH_REASON_LENGTH"}
    answer = {"results": [{"decoded": {"hypotheses": [hypothesis], "steps": steps, "compute_ms": 1, "lattice": lattice}}],
              "model": "g2p-en", "version": "1", "numerics": "f32"}
    page.route("**:decode", lambda route: route.fulfill(json=answer))
    page.add_init_script(f"({LARGE})()")
    decode(page, source="x")
    assert page.get_by_text("10,000 hypotheses").count() == 1
    # A frame draws what is in sight and no more, wherever that is.
    for place in (0, 0.5, 1):
        drawn = page.evaluate("""async place => {
            const box = document.querySelector('.beam-scroll');
            box.scrollTop = place * box.scrollHeight;
            box.scrollLeft = place * box.scrollWidth;
            await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            window.drawn = 0;
            box.scrollTop -= 1;
            box.scrollLeft += 1;
            box.dispatchEvent(new Event('scroll'));
            await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            return window.drawn;
        }""", place)
        assert 0 < drawn < 1500
    assert page.evaluate("document.querySelectorAll('*').length") < 2500
    assert page.evaluate("document.querySelector('.beam canvas').width") < 3000
