"""Rules and queries understand a resource alike."""

from __future__ import annotations

import pytest

from grader.wire.requests import parse
from grader.wire.rules import RuleError, parse_rule
from grader.wire.selector import ResourceSelector, mistake_in
from grader.witness import Timeline
from tests.witness.builders import exchange

PATHS = {
    "itself": "/apis/x.io/v1/namespaces/a/webapps/w",
    "status": "/apis/x.io/v1/namespaces/a/webapps/w/status",
    "scale": "/apis/x.io/v1/namespaces/a/webapps/w/scale",
    "another group's": "/apis/y.io/v1/namespaces/a/webapps/w",
    "another": "/apis/x.io/v1/namespaces/a/webappsets/w/status",
}
EXAMPLES = [
    ("webapps", {"itself", "another group's"}),
    ("webapps.x.io", {"itself"}),
    ("webapps/status", {"status"}),
    ("webapps.x.io/scale", {"scale"}),
    ("webapps.y.io/status", set()),
    ("webapps/*", {"itself", "status", "scale", "another group's"}),
    ("webapps.x.io/*", {"itself", "status", "scale"}),
]


@pytest.mark.parametrize(("text", "means"), EXAMPLES)
def test_what_a_rule_acts_on_is_what_a_query_finds(text, means):
    rule = parse_rule(f"answer 409 update {text}")
    assert {
        name for name, path in PATHS.items() if rule.selects(parse("PUT", path, {}), "op")
    } == means
    records = [exchange("update", path, t=n) for n, path in enumerate(PATHS.values())]
    found = Timeline.of_records(records, []).writes(resource=text)
    assert {name for name, path in PATHS.items() if path in [e.path for e in found]} == means


@pytest.mark.parametrize(("text", "means"), EXAMPLES)
def test_a_selector_survives_being_written_down(text, means):
    assert str(ResourceSelector.parse(text)) == text and not mistake_in(text)


@pytest.mark.parametrize("text", ["", "*", "Pods", "pods/", "pods/a/b", "pods/**", "-a", "pods\n"])
def test_what_is_no_resource(text):
    assert "write the plural in small letters" in mistake_in(text)


@pytest.mark.parametrize("text", ["pod", "po", "webapp/status", "deploy.apps"])
def test_what_kubectl_takes_and_a_url_does_not(text):
    assert "is in no URL" in mistake_in(text)
    with pytest.raises(RuleError, match="is in no URL"):
        parse_rule(f"answer 409 update {text}")
