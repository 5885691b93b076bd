"""What is true of every page: it runs nothing but its own code, shows everything as text and is usable by all."""

import pathlib

import axe_playwright_python
import pytest
from playwright.sync_api import expect

from conftest import PICTURES, decode, serving

AXE = (pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
SIZES = {"phone": (375, 812), "tablet": (820, 1180), "desktop": (1360, 900)}
EVIL = "<img src=x onerror='window.hit=1'><script>window.hit=1</script>\u202e\x1b[31m"


def violations(page):
    """What axe finds: (rule, elements)."""
    page.evaluate(AXE)
    found = page.evaluate("async () => (await axe.run()).violations.map(v => [v.id, v.nodes.map(n => n.html + ' ' + n.failureSummary)])")
    return found


def no_overflow(page):
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize(("size", "scheme"), [("phone", "light"), ("tablet", "light"), ("desktop", "dark")])
def test_everybody_can_use_it(page, size, scheme):
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    decode(page, source="internationalization", beam_size=5, n_best=3)
    expect(page.locator(".answer").first).to_be_in_viewport()
    page.get_by_text("This step as a table").click()
    assert violations(page) == []
    assert no_overflow(page)
    page.screenshot(path=PICTURES / f"decode-{size}-{scheme}.png", full_page=True)
    page.goto("/#/status")
    page.locator(".tile").nth(6).wait_for()
    assert violations(page) == []
    assert no_overflow(page)
    page.screenshot(path=PICTURES / f"status-{size}-{scheme}.png", full_page=True)


def test_errors_and_comparisons_are_accessible(page):
    page.goto("/#/decode?source=cat&beam_size=0")
    page.locator(".notice.bad").wait_for()
    assert violations(page) == []
    decode(page, **{"source": "tomato", "n_best": 3, "b.source": "tomatoes", "b.n_best": 3})
    page.locator("#access summary").click()
    assert violations(page) == []
    page.screenshot(path=PICTURES / "compare.png", full_page=True)


def test_pictures_of_the_documentation(page):
    page.set_viewport_size({"width": 1280, "height": 900})
    decode(page, source="tomato", beam_size=5, n_best=5)
    page.locator(".heat").first.wait_for()
    page.screenshot(path=PICTURES / "page.png")


def test_nothing_is_read_as_html(page):
    hypothesis = {"tokens": [5, 1], "token_log_probs": [-1, -1], "text": EVIL, "log_prob": -2, "score": -2,
                  "finish_reason": "FINISH_REASON_EOS", "alignment": [0, 0], "attention": {"rows": 2, "columns": 1, "values": [1, 0]}}
    lattice = {"steps": [{"parents": [0], "tokens": [5], "log_probs": [-1], "num_live": 1},
                         {"parents": [0], "tokens": [1], "log_probs": [-1], "num_live": 0}]}
    answer = {"results": [{"decoded": {"hypotheses": [hypothesis], "steps": 2, "compute_ms": 1, "lattice": lattice,
                                       "unknown_positions": [0]}}], "model": EVIL, "version": EVIL, "numerics": EVIL}
    summary = {"name": EVIL, "version": EVIL, "ready": True, "labels": [EVIL], "reason": EVIL}
    config = {"source": {}, "target": {"end_tokens": [EVIL]}, "decoder": {"attention_output": EVIL}}
    page.route("**/v1/models", lambda route: route.fulfill(json={"models": [summary]}))
    page.route("**/v1/models/**", lambda route: route.fulfill(json=answer if route.request.method == "POST" else {"summary": summary, "config": config}))
    page.goto("/")
    page.get_by_label("Source text").fill(EVIL)
    page.get_by_role("button", name="Decode", exact=True).click()
    page.locator(".heat").first.wait_for()
    assert page.locator(".answer td.mono").inner_text() == EVIL
    page.get_by_role("button", name="Compare with another").click()
    page.goto("/#/status")
    page.locator("th", has_text="onerror").wait_for()
    error = {"error": {"code": 3, "status": EVIL, "message": EVIL, "details": [{"fieldViolations": [{"field": EVIL, "description": EVIL}]}]}}
    page.unroute("**/v1/models/**")
    page.route("**/v1/models/**", lambda route: route.fulfill(status=400, json=error))
    page.goto("/#/decode")
    page.get_by_role("button", name="Decode", exact=True).click()
    page.locator(".notice.bad li").wait_for()
    assert page.evaluate("[document.querySelectorAll('main img, main script').length, window.hit === undefined]") == [0, True]


def test_what_is_not_its_own_does_not_run(browser, server):
    status, headers, _ = server.ask("/")
    assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"]
    page = browser.new_page(base_url=server.url)
    page.goto("/")
    ran = page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.hit = 1';
        document.body.append(script);
        return window.hit === 1;
    }""")
    assert not ran
    assert server.ask("/page/none.js")[0] == 404
    assert server.ask("/", {})[0] == 405
    # Nothing is asked of other hosts.
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    decode(page, source="cat")
    assert asked and all(url.startswith(server.url) for url in asked)
    page.close()


def test_the_page_can_be_off(tmp_path):
    with serving(tmp_path, "--page", "false") as server:
        status, _, text = server.ask("/")
        assert status == 200 and "<html" not in text and "/openapi.json" in text
        assert server.ask("/page/app.js")[0] == 404
        assert server.ask("/openapi.json")[0] == 200


def test_tokens_stay_in_the_tab(page, browser, tmp_path):
    import hashlib
    lines = [f'tokens {{ name: "d" sha256: "{hashlib.sha256(b"secret").hexdigest()}" roles: ROLE_DECODE }}']
    (tmp_path / "auth").write_text("\n".join(lines))
    with serving(tmp_path, "--auth-token-file", str(tmp_path / "auth"), "--auth-in-clear", "true") as server:
        page.goto(server.url + "/#/decode?source=cat")
        page.get_by_text("enter a token under Access").wait_for()
        page.get_by_label("Bearer token").fill("secret")
        page.get_by_label("Bearer token").press("Enter")
        page.locator(".answer").wait_for()
        assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        assert "secret" not in page.url + page.locator("main").inner_text()
        # Decoding is allowed to it, the status is not.
        page.goto(server.url + "/#/status")
        page.locator(".notice.bad").wait_for()
        assert "observe or operate" in page.locator(".notice.bad").inner_text()
