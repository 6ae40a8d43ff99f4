"""The one thing that a page may send: who may, and what comes of it."""

from __future__ import annotations

import http.client
import json
import urllib.parse

import pytest

from grader import course
from grader import workspace as folders
from grader.report import assessing, store
from grader.report.model import LabReport
from grader.site import live, peers
from grader.verdict import Verdict

CHECK = "4.1.2/payment-why"


def judgement(report: LabReport, *said: str, check: str = CHECK) -> dict:
    assessment = report.result(check).assessment
    return {"check": check, "digest": assessment.digest, "said": list(said)}


def post(served: str, data: object, **headers: str | None) -> tuple[int, dict]:
    """A POST as the page's script sends it; a header that is None is left out."""
    address = urllib.parse.urlsplit(served)
    sent = {"Content-Type": "application/json", "Origin": served} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    connection.request(
        "POST",
        live.PREFIX + "assess",
        body,
        {name: value for name, value in sent.items() if value is not None},
    )
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, {}


def test_what_is_sent_is_kept_and_counts(served: str, checked: LabReport) -> None:
    here = folders.find()
    status, got = post(served, judgement(checked, "from-the-cache"))
    assert status == 200
    result = store.load(here.reports, "4.1.2").result(CHECK)
    assert result.verdict is Verdict.NOT_GRADED and result.message.diagnosis == "points-missing"
    assert "as the cache has it at that moment" in result.message.seen

    for check in (CHECK, "4.1.2/enqueue-why"):
        ids = [id for id, _ in checked.result(check).assessment.points]
        status, got = post(served, judgement(checked, *ids, check=check))
        assert status == 200
    report = store.load(here.reports, "4.1.2")
    assert report.passed and {one.id for one in report.self_assessed} == {
        "4.1.2/payment-why", "4.1.2/enqueue-why",
    }  # fmt: skip
    assert here.record("passed")["4.1.2"] == report.started
    assert live.state()["self_assessed"] == ["4.1.2/enqueue-why", "4.1.2/payment-why"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": None}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}, 403),
        ({"Sec_Fetch_Site": "none"}, 403),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Length": "99999999"}, 413),
        ({"Content_Length": "-1"}, 411),
        ({"Transfer_Encoding": "chunked"}, 411),
    ],
    ids=str,
)
def test_nobody_else_may_send_it(
    served: str, checked: LabReport, headers: dict[str, str | None], status: int
) -> None:
    here = folders.find()
    before = store.load(here.reports, "4.1.2").to_json()
    assert post(served, judgement(checked, "from-the-cache"), **headers)[0] == status
    assert store.load(here.reports, "4.1.2").to_json() == before
    assert here.record(assessing.RECORD) == {}


def test_another_user_of_the_machine_may_not(
    served: str, checked: LabReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "is_ours", lambda peer, here: False)
    assert post(served, judgement(checked, "from-the-cache"))[0] == 403
    assert folders.find().record(assessing.RECORD) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"check": "4.1.2/enqueue-line"},
        {"check": "4.2.7/recovery"},
        {"check": "../../etc/passwd"},
        {"digest": "0" * 64},
        {"said": ["no such point"]},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_with_a_sentence(
    served: str, checked: LabReport, change: dict
) -> None:
    status, got = post(served, judgement(checked, "from-the-cache") | change)
    assert status == 409 and got["problem"].endswith(".")
    assert folders.find().record(assessing.RECORD) == {}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'"x"', b"\xff", b'{"check":1}'])
def test_what_is_no_judgement_is_refused(served: str, checked: LabReport, body: bytes) -> None:
    assert post(served, body)[0] == 400


@pytest.mark.parametrize("said", ["ab", [1], None, {"a": 1}], ids=str)
def test_points_are_a_list_of_names(served: str, checked: LabReport, said: object) -> None:
    assert post(served, {**judgement(checked), "said": said})[0] == 400


def test_a_changed_sentence_is_not_judged_by_an_old_page(served: str, checked: LabReport) -> None:
    here = folders.find()
    file = here.folder(course.load().lab("4.1.2")) / "answers.md"
    file.write_text(file.read_text().replace("sees what", "sees whatever"))
    status, got = post(served, judgement(checked, "from-the-cache"))
    assert status == 409 and "has changed" in got["problem"]


def test_a_running_check_is_not_disturbed(served: str, checked: LabReport) -> None:
    with folders.find().exclusive("check 4.1.2", print):
        status, got = post(served, judgement(checked, "from-the-cache"))
    assert status == 409 and "running" in got["problem"]
