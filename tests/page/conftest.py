"""A server with both default models, and Chromium that looks at its page."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import expect, sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from archives import unpacked  # noqa: E402, F401

PICTURES = ROOT / "build" / "page"
SERVER = os.environ["BEAMWRIGHT_SERVER_PROGRAM"]
# What a page is waited for, in ms: no busy machine takes as long. expect() has a separate limit, 5 s unless it is set.
PATIENCE = 90_000
expect.set_options(timeout=PATIENCE)


class Server:
    def __init__(self, process, http, grpc):
        self.process = process
        self.url = f"http://127.0.0.1:{http}"
        self.grpc = f"127.0.0.1:{grpc}"

    def ask(self, path, body=None, **headers):
        """(status, headers, text) of a call that no browser makes."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return reply.status, reply.headers, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def decode(self, model, text, **options):
        body = {"sources": [{"text": text}], "options": options}
        return json.loads(self.ask(f"/v1/models/{model}:decode", body)[2])["results"][0]["decoded"]


@contextlib.contextmanager
def serving(folder, *arguments):
    ports = folder / "ports"
    ports.unlink(missing_ok=True)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [SERVER, "--model-path", ROOT / "models/g2p-en", "--model-path", ROOT / "models/p2g-en", "--threads", "1",
             "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--metrics-address", "none",
             "--admin-address", "none", "--ports-file", ports, *arguments],
            stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 120
        while not ports.exists():
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.02)
        port_of = dict(map(str.split, ports.read_text().splitlines()))
        yield Server(process, port_of["http"], port_of["grpc"])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(120)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="session")
def chromium():
    """Starts Chromium with further arguments."""
    program = shutil.which("chromium")
    assert program, "chromium is missing: ./dev test installs it"
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        # As root, as in containers, Chromium has no sandbox.
        yield lambda *arguments: playwright.chromium.launch(executable_path=program, args=["--no-sandbox", *arguments])


@pytest.fixture(scope="session")
def browser(chromium):
    with chromium() as running:
        yield running


@contextlib.contextmanager
def tab_of(browser, server, height=900):
    """A tab. A test fails with any error that its page reports."""
    faults = []
    with browser.new_context(base_url=server.url, viewport={"width": 1360, "height": height}) as context:
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("console", lambda line: faults.append(line.text) if "Content Security Policy" in line.text else None)
        yield tab
    assert faults == []


@pytest.fixture
def page(browser, server):
    with tab_of(browser, server) as tab:
        yield tab


def decode(page, **fields):
    """Opens the link of a request and waits for its answer."""
    from urllib.parse import urlencode
    page.goto("/#/decode?" + urlencode(fields))
    page.locator(".answer").first.wait_for()
