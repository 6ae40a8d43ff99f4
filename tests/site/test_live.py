"""What the site's server answers, to whom, and that it does nothing but answer."""

from __future__ import annotations

import fcntl
import gzip
import http.client
import json
import re
import urllib.parse
from pathlib import Path

import pytest

from grader import course
from grader import workspace as folders
from grader.report import store
from grader.report.model import CheckResult, LabReport
from grader.site import live
from grader.verdict import Verdict


def ask(served: str, path: str, method: str = "GET", **headers: str) -> tuple[int, dict, bytes]:
    """One request with exactly these headers; returns status, headers and body."""
    address = urllib.parse.urlsplit(served)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=named)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {k.lower(): v for k, v in answer.getheaders()}, body


def passing(lab: str) -> LabReport:
    results = [
        CheckResult(check.id, check.title, check.points, check.evidence, Verdict.PASS)
        for check in course.checks(lab)
    ]
    return LabReport(lab=lab, started=1_790_000_000.0, checks=results)


def tree(root: Path) -> dict[str, float]:
    return {str(path): path.stat().st_mtime for path in root.rglob("*")}


@pytest.mark.parametrize("path", ["/", "/-/phase4/state", "/-/phase4/events", "/4.1/4.1.1.html"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"},
    ],
    ids=str,
)
def test_nobody_else_gets_anything(served: str, path: str, headers: dict[str, str]) -> None:
    status, given, body = ask(served, path, **headers)
    assert status in (400, 403, 421)
    assert b"phase4-live" not in body and b"standing" not in body
    assert "access-control-allow-origin" not in given


def test_a_link_from_elsewhere_to_a_page_works(served: str) -> None:
    status, _, body = ask(served, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert status == 200 and b"phase4-live" in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_there_is_no_other_method(served: str, method: str) -> None:
    assert ask(served, "/-/phase4/state", method)[0] == 501


@pytest.mark.parametrize(
    "path",
    [
        "/../grader/course.toml",
        "/%2e%2e/grader/course.toml",
        "/..%2f..%2fetc/passwd",
        "/.built-from",
        "/-/phase4/report/../../../etc/passwd",
        "/-/phase4/report/%2e%2e%2fhints",
        "/-/phase4/answer/nothing",
        "/-/phase4/nothing",
        "/-/phase4/",
        "/4.1/",
        "/search/",
    ],
)
def test_what_is_not_there_is_not_there(served: str, path: str) -> None:
    status, _, body = ask(served, path)
    assert status in (200, 404), body[:200]
    if path == "/4.1/":
        assert status == 200, "a folder's page is its index"
    else:
        assert status == 404
    assert b"root:" not in body and b"[[lab]]" not in body


def test_a_get_changes_nothing(served: str, workspace: Path) -> None:
    before = tree(workspace)
    for path in ("/", "/-/phase4/state", "/-/phase4/report/4.1.2", "/-/phase4/answer/4.1.2"):
        ask(served, path)
    assert tree(workspace) == before


def test_pages_are_squeezed_and_not_sent_twice(served: str) -> None:
    status, given, body = ask(served, "/index.html", Accept_Encoding="gzip")
    assert status == 200 and given["content-encoding"] == "gzip"
    assert b"phase4-live" in gzip.decompress(body)
    assert ask(served, "/index.html", If_None_Match=given["etag"])[0] == 304
    _, plain, whole = ask(served, "/index.html")
    assert "content-encoding" not in plain and len(whole) == int(plain["content-length"])


def test_short_addresses_lead_to_the_page(served: str) -> None:
    status, given, _ = ask(served, "/4.1/4.1.2/")
    assert (status, given.get("location")) in ((301, "/4.1/4.1.2.html"), (200, None))
    assert ask(served, "/4.1/4.1.2")[0] == 301


def test_the_policy_lets_nothing_in_from_outside(served: str) -> None:
    _, given, _ = ask(served, "/")
    policy = given["content-security-policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert not re.search(r"https?:|\*", policy)
    assert given["x-content-type-options"] == "nosniff"


def test_state_without_a_workspace_says_how_to_make_one(
    served: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PHASE4_WORKSPACE", str(tmp_path / "nowhere"))
    state = json.loads(ask(served, "/-/phase4/state")[2])
    assert "phase4 init" in state["problem"]
    assert state["labs"]["4.1.1"]["standing"] == "not checked"


def test_the_answer_opens_with_a_pass_and_stays_open(served: str, workspace: Path) -> None:
    status, _, body = ask(served, "/-/phase4/answer/4.1.2")
    assert status == 403 and "once the lab passes" in json.loads(body)["problem"]
    here = folders.open_folder(workspace)
    store.save(here.reports, passing("4.1.2"))
    status, _, body = ask(served, "/-/phase4/answer/4.1.2")
    names = [file["name"] for file in json.loads(body)["files"]]
    assert status == 200 and "answers.md" in names
    assert "phase4:solution" not in body.decode()
    here.keep("passed", {"4.1.2": 1})
    store.path_of(here.reports, "4.1.2").unlink()
    assert ask(served, "/-/phase4/answer/4.1.2")[0] == 200


def test_a_damaged_report_is_said_and_is_no_error(served: str, workspace: Path) -> None:
    path = store.path_of(folders.open_folder(workspace).reports, "4.1.2")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{", encoding="utf-8")
    state = json.loads(ask(served, "/-/phase4/state")[2])
    assert "4.1.2" in state["damaged"][0]
    assert ask(served, "/-/phase4/report/4.1.2")[0] == 409


def test_the_stream_says_the_state_and_each_change(served: str, workspace: Path) -> None:
    here = folders.open_folder(workspace)
    address = urllib.parse.urlsplit(served)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    connection.request("GET", "/-/phase4/events")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"

    def next_state() -> dict:
        while True:
            line = answer.readline().decode()
            assert line, "the stream ended"
            if line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))

    assert next_state()["passed"] == 0
    store.save(here.reports, passing("4.1.2"))
    assert next_state()["labs"]["4.1.2"]["standing"] == "PASS"
    with here.exclusive("check 4.1.1 4.1.2", print):
        assert next_state()["running"] == ["4.1.1", "4.1.2"]
    assert next_state()["running"] == []
    connection.close()


def test_what_is_running_is_read_from_the_lock_alone(workspace: Path) -> None:
    here = folders.open_folder(workspace)
    assert live.running(here) == []
    here.state.mkdir(exist_ok=True)
    (here.state / "lock").write_text("`phase4 check 4.1.1` (process 1)", encoding="utf-8")
    assert live.running(here) == [], "nobody holds it: what it says is old"
    with (here.state / "lock").open("r+", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert live.running(here) == ["4.1.1"]
