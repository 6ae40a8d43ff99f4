"""A page on the web, in a real browser, gets nothing through a wire, nor to the site's reports."""

from __future__ import annotations

import http.server
import os
import shutil
import threading
from collections.abc import Iterator

import pytest

from grader.site import server as site

CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not CHROMIUM and "CI" not in os.environ, reason="no Chromium on this machine"
    ),
]

#: Names of the web that lead to this machine, as an attacker's do after a rebinding.
EVIL = "evil.example"

TRY = """async (url) => {
    const got = [];
    const attempts = [
        () => fetch(url),
        () => fetch(url, {mode: "no-cors"}),
        () => fetch(url, {method: "POST", mode: "no-cors", body: "{}"}),
        () => fetch(url, {method: "DELETE"}),
        () => fetch(url, {headers: {"Content-Type": "application/json"}, method: "POST", body: "{}"}),
    ];
    for (const attempt of attempts) {
        try { got.push(await (await attempt()).text()); } catch (error) { got.push(""); }
    }
    await new Promise((done) => {
        const image = document.createElement("img");
        image.onload = image.onerror = done;
        image.src = url;
    });
    return got.join("");
}"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>evil</title><form method=post><button>go</button></form>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture(scope="module")
def evil() -> Iterator[int]:
    """The port of a server whose pages mean no good."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"]
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield launched
        launched.close()


@pytest.mark.parametrize("host", [EVIL, "localhost"])
def test_a_page_of_another_origin(browser, evil, alone, upstream, host):
    """Even one that has learnt the secret."""
    wire = alone()
    page = browser.new_page()
    page.goto(f"http://{host}:{evil}/")
    for url in (wire.url, f"http://127.0.0.1:{wire.port}"):
        assert page.evaluate(TRY, f"{url}/api/v1/namespaces/a/configmaps") == ""
    page.eval_on_selector("form", f"form => form.action = '{wire.url}/api/v1/pods'")
    page.click("button")
    assert "may neither read nor write" in page.content()
    page.close()
    assert not upstream.asked


def test_a_name_that_was_pointed_at_this_machine(browser, alone, upstream):
    wire = alone()
    secret = wire.url.rpartition("/")[2]
    page = browser.new_page()
    for path in ("/api/v1/pods", f"/{secret}/api/v1/pods"):
        answer = page.goto(f"http://{EVIL}:{wire.port}{path}")
        assert answer.status == 421
        assert page.evaluate(TRY, path).count("MisdirectedRequest") > 1
    page.close()
    assert not upstream.asked


@pytest.fixture
def reports(monkeypatch, tmp_path) -> Iterator[int]:
    """The port of the site's server, with nothing built: what is asked of it is the reports."""
    monkeypatch.setenv("PHASE4_WORKSPACE", str(tmp_path))
    with site.Server(("127.0.0.1", 0), site.Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_the_reports_of_the_site(browser, evil, reports):
    page = browser.new_page()
    page.goto(f"http://{EVIL}:{evil}/")
    assert page.evaluate(TRY, f"http://127.0.0.1:{reports}/-/phase4/state") == ""
    assert page.goto(f"http://{EVIL}:{reports}/-/phase4/state").status == 421
    # Its own user, at its own address, does read them.
    own = page.goto(f"http://127.0.0.1:{reports}/-/phase4/state")
    assert own.status == 200 and "standing" in own.text()
    page.close()
