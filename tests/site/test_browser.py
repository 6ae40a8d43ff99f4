"""The site in a real browser: accessibility, widths, weight, live verdicts, offline.

Needs a Chromium on the machine (``CHROMIUM`` names it; else it is looked for). Where
there is none these tests are skipped, and CI, which has one, runs them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader import course

ROOT = Path(__file__).parents[2]
CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not CHROMIUM and "CI" not in os.environ, reason="no Chromium on this machine"
    ),
]

#: One of each kind of page.
KINDS = {
    "home": "index.html",
    "prose with tabs": "start.html",
    "list of modules": "modules.html",
    "module": "4.2/index.html",
    "lab": "4.1/4.1.2.html",
    "lab with tracks": "4.1/4.1.4.html",
    "drill": "drills/4.C1.html",
    "talks": "talks.html",
    "progress": "progress.html",
    "gate": "gate.html",
    "checklist": "checklist.html",
    "guide with picture": "guide/verdicts.html",
    "guide with tabs": "guide/wire.html",
    "commands": "reference/commands.html",
    "faults": "reference/faults.html",
    "links": "reference/links.html",
    "troubleshooting": "troubleshooting.html",
    "not found": "404.html",
}

for _lab in course.load().labs:
    if not _lab.built:
        KINDS["lab not built"] = f"{_lab.module}/{_lab.id}.html"

#: How long a page is waited for (ms): a limit, which measures nothing.
PATIENCE = 120_000

#: What keeps somebody from using a page.
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def browser() -> Iterator:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


def open_page(browser, address: str):
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, color_scheme="light", reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    return page


def findings(page) -> list[str]:
    """axe's serious findings on a page, with everything that is folded opened."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    result = Axe().run(page, options={"resultTypes": ["violations"]})
    return [
        f"{found['id']} ({found['impact']}): {node['html'][:160]}"
        for found in result.response["violations"]
        if found["impact"] in SERIOUS
        for node in found["nodes"][:3]
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_everyone_can_use_it(browser, served: str, kind: str) -> None:
    """Nothing serious for axe in light and dark, and no sideways scrolling from phone to wall."""
    page = open_page(browser, f"{served}/{KINDS[kind]}")
    assert findings(page) == []
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("body[data-md-color-scheme=slate]")
    assert findings(page) == [], "in the dark"
    for width in (360, 768, 1280, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


def test_axe_has_no_serious_finding_with_verdicts_on_the_page(
    browser, served: str, workspace: Path, failing_report
) -> None:
    failing_report(workspace)
    page = open_page(browser, f"{served}/4.1/4.1.2.html")
    page.wait_for_selector(".p4-message")
    assert findings(page) == []
    page.goto(f"{served}/progress.html")
    page.wait_for_selector(".p4-live table")
    assert findings(page) == []
    page.context.close()


def test_the_first_page_weighs_under_300_kb(browser, served: str) -> None:
    page = open_page(browser, "about:blank")
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    loaded: dict[str, int] = {}
    session.on(
        "Network.loadingFinished",
        lambda e: loaded.__setitem__(e["requestId"], int(e["encodedDataLength"])),
    )
    # The theme asks for the largest of it when all else is there.
    with page.expect_event("requestfinished", lambda request: "search_index" in request.url):
        page.goto(f"{served}/index.html", wait_until="load")
    # By a locator: the page's policy allows no script in a string.
    page.locator(".p4-live[data-what=next] a").first.wait_for(state="attached")
    assert len(loaded) >= 4, "the page's own style and script were not even loaded"
    assert sum(loaded.values()) < 300_000, loaded
    page.context.close()


def test_nothing_goes_to_the_console_or_to_another_host(browser, served: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else 0)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    for name in KINDS.values():
        if name != "404.html":
            page.goto(f"{served}/{name}", wait_until="load")
    assert said == []
    assert [url for url in asked if not url.startswith((served, "data:", "blob:"))] == []
    context.close()


def test_a_verdict_appears_on_the_open_page_without_a_reload(
    browser, served: str, workspace: Path, failing_report
) -> None:
    page = open_page(browser, f"{served}/4.1/4.1.2.html")
    page.wait_for_selector(".p4-verdict >> text=Not checked yet")
    page.evaluate("window.stillTheSamePage = true")
    failing_report(workspace)
    page.wait_for_selector(".p4-verdict[data-v=FAIL] .p4-message")
    text = page.inner_text(".p4-message")
    assert "the queue's Add" in text and "<img src=x" in text, "a message is shown as text"
    assert page.locator(".p4-message img").count() == 0
    failing_report(workspace, passing=True)
    page.wait_for_selector(".p4-verdict[data-v=PASS]")
    page.wait_for_selector(".p4-answer details")
    assert "answers.md" in page.inner_text(".p4-answer")
    assert page.evaluate("window.stillTheSamePage") is True
    page.context.close()


def test_a_sentence_is_judged_by_its_writer_on_the_open_page(
    browser, served: str, checked
) -> None:
    from grader import workspace as folders
    from grader.report import store
    from grader.verdict import Verdict

    def result():
        return store.load(folders.find().reports, "4.1.2").result("4.1.2/payment-why")

    page = open_page(browser, f"{served}/4.1/4.1.2.html")
    form = page.locator("form[aria-label^='4.1.2/payment-why']")
    form.wait_for()
    assert "not yet assessed" in form.inner_text() and "what does it read" in form.inner_text()
    assert "<img src=x onerror" in form.locator("blockquote").inner_text()
    assert form.locator("img").count() == 0
    boxes = form.get_by_role("checkbox")
    assert boxes.count() == 2 and not boxes.nth(0).is_checked() and not boxes.nth(1).is_checked()
    assert findings(page) == []
    page.evaluate("window.stillTheSamePage = true")

    boxes.nth(0).focus()
    page.keyboard.press("Space")
    form.get_by_role("button").press("Enter")
    page.wait_for_selector("form[aria-label^='4.1.2/payment-why'] >> text=not yet. A point")
    assert result().verdict is Verdict.NOT_GRADED and result().assessment.said == ("from-the-cache",)
    assert boxes.nth(0).is_checked() and not boxes.nth(1).is_checked()
    assert "as the cache has it" in page.locator(".p4-message").first.inner_text()

    page.click("form[aria-label^='4.1.2/payment-why'] label:has-text('whatever was in the event')")
    form.get_by_role("button").click()
    page.wait_for_selector("form[aria-label^='4.1.2/payment-why'] >> text=self-assessed")
    page.wait_for_selector("[data-check='4.1.2/payment-why'] [data-v=PASS]")
    assert result().self_assessed
    assert page.evaluate("window.stillTheSamePage") is True
    assert findings(page) == []
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.goto(f"{served}/progress.html")
    page.wait_for_selector(".p4-live >> text=marked by your instructor: 4.1.2/payment-why")
    page.context.close()


def test_no_page_of_another_origin_judges_a_sentence(browser, served: str, checked) -> None:
    from grader import workspace as folders
    from grader.report import assessing

    asked = checked.result("4.1.2/payment-why").assessment
    body = json.dumps({"check": "4.1.2/payment-why", "digest": asked.digest, "said": []})
    # The same server by its other name is another origin to a browser.
    page = open_page(browser, f"{served.replace('127.0.0.1', 'localhost')}/404.html")
    for mode, kind in (("cors", "application/json"), ("no-cors", "text/plain")):
        page.evaluate(
            """async ([address, body, mode, kind]) => {
              try {
                await fetch(address, { method: "POST", mode, body,
                                       headers: { "Content-Type": kind } });
              } catch (refused) {}
            }""",
            [f"{served}/-/phase4/assess", body, mode, kind],
        )
    assert folders.find().record(assessing.RECORD) == {}
    page.context.close()


def test_a_timeline_is_followed_by_eye_and_by_keyboard(browser, tmp_path: Path) -> None:
    from grader.report import timeline_page
    from grader.witness import Timeline
    from tests.report.test_timeline_page import AUDITED, made

    path = tmp_path / "run.html"
    path.write_text(
        timeline_page.page(Timeline.of_records(made(), [AUDITED]), title="Run"), encoding="utf-8"
    )
    page = open_page(browser, path.as_uri())
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    assert page.input_value("#object") != "-1", "somebody was behind, and that is followed"
    assert "operator was behind" in page.inner_text("#detail")
    assert page.locator(".behind").count() == 1
    page.focus(".scroll")
    page.keyboard.press("Escape")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert "watch" in page.inner_text("#detail")
    before = page.locator(".scroll svg").bounding_box()["width"]
    page.keyboard.press("+")
    assert page.locator(".scroll svg").bounding_box()["width"] > before
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert "pods default/other" in page.inner_text("#object option:checked")
    assert findings(page) == []
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert problems == []
    page.context.close()


def test_the_report_to_send_can_be_read_by_everyone(
    browser, workspace: Path, tmp_path: Path, failing_report
) -> None:
    from grader.report import page as report
    from grader.report.progress import progress

    failing_report(workspace)
    path = tmp_path / "report.html"
    path.write_text(report.whole(progress(workspace / ".phase4" / "reports")), encoding="utf-8")
    page = open_page(browser, path.as_uri())
    assert "FAIL" in page.inner_text("main")
    assert findings(page) == []
    page.context.close()


def test_tabs_are_linked_and_keep_their_choice(browser, served: str) -> None:
    page = open_page(browser, f"{served}/start.html")
    page.click(".tabbed-labels label:has-text('Go')")
    page.wait_for_selector("text=--track go", state="visible")
    page.reload()
    page.wait_for_selector("text=--track go", state="visible")
    page.context.close()


def test_from_a_file_the_pages_work_and_explain_themselves(browser, built: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    said = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((built / "progress.html").as_uri())
    assert "phase4 start" in page.inner_text(".p4-live")
    page.goto((built / "index.html").as_uri())
    page.fill(".md-search__input", "workqueue")
    page.wait_for_selector(".md-search-result__item")
    assert said == []
    context.close()


@pytest.fixture
def failing_report():
    """Write a report of 4.1.2 into a workspace: FAIL, or PASS when asked."""
    from grader import course
    from grader.report import store
    from grader.report.model import CheckResult, LabReport, Observation
    from grader.verdict import Message, Verdict

    clock = iter(range(1, 100))

    def write(workspace: Path, passing: bool = False) -> None:
        message = Message(
            expected="The line that puts a key on the queue: the queue's Add.",
            seen="You cite the retry, <img src=x onerror=alert(1)> `AddRateLimited`.",
            why="The retry only runs when a key was there already.",
            next="Look for the function that every handler calls.",
            diagnosis="cited-the-retry",
            evidence=("c.workqueue.AddRateLimited(objRef)",),
        )
        checks = course.checks("4.1.2")
        results = [
            CheckResult(
                check.id,
                check.title,
                check.points,
                check.evidence,
                Verdict.PASS if passing or number else Verdict.FAIL,
                None if passing or number else message,
            )
            for number, check in enumerate(checks)
        ]
        picture = {"svg": "<svg xmlns='http://www.w3.org/2000/svg'/>", "alt": "A picture"}
        report = LabReport(
            lab="4.1.2",
            started=1_790_000_000.0 + next(clock),
            checks=results,
            observations=[
                Observation(checks[0].id, "gap", {"predicted": 3, "measured": 4}),
                Observation(checks[0].id, "drawn", picture),
            ],
        )
        store.save(workspace / ".phase4" / "reports", report)

    return write
