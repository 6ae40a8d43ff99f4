"""A wire's life, from the side of who opens it."""

from __future__ import annotations

import json
import os
import threading
from types import SimpleNamespace

import pytest
import yaml

from grader.cluster.errors import EnvironmentProblem
from grader.wire import Identity, Wire, control
from grader.wire import wire as wires
from grader.wire.in_use import in_use
from grader.wire.rules import RuleError
from grader.witness import Timeline
from tests.wire.conftest import PATIENCE

MAPS = "/api/v1/namespaces/a/configmaps"


def test_whom_the_api_server_takes_it_for(alone, upstream, http):
    wire = alone(identity=Identity.service_account("system", "operator"))
    http.request("GET", wire.url + MAPS)
    headers = upstream.asked[0].headers
    assert headers["Impersonate-User"] == "system:serviceaccount:system:operator"
    assert headers.getall("Impersonate-Group") == [
        "system:serviceaccounts",
        "system:serviceaccounts:system",
    ]
    assert Timeline.of(wire).exchanges().first.user == "system:serviceaccount:system:operator"


def test_the_kubeconfig_is_one_that_clients_read(alone):
    wire = alone(client="my-op")
    data = yaml.safe_load(wire.kubeconfig.read_text())
    assert data["clusters"][0]["cluster"] == {"server": wire.url}
    assert data["users"] == [{"name": "my-op", "user": {}}]
    assert data["current-context"] == data["contexts"][0]["name"]


@pytest.mark.parametrize("name", ["", "Op", "../op", "a b", "-op", "x" * 60])
def test_a_process_is_named_plainly(tmp_path, name):
    with pytest.raises(ValueError, match="small letters"):
        Wire(tmp_path / "kubeconfig", name, tmp_path)


def test_a_wrong_rule_is_said_before_anything_is_opened(upstream, tmp_path):
    with pytest.raises(RuleError, match="did you mean freeze"):
        Wire(upstream.kubeconfig(tmp_path), "op", tmp_path, rules=["freez watch pods"])
    assert not (tmp_path / "op").exists()


def test_a_cluster_without_a_kubeconfig_is_said(tmp_path):
    with pytest.raises(EnvironmentProblem, match="no kubeconfig"):
        Wire(SimpleNamespace(kubeconfig=tmp_path / "none"), "op", tmp_path).open()


def test_a_machine_on_which_nothing_can_listen(upstream, tmp_path, monkeypatch):
    async def no_sockets(*arguments, **options):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("asyncio.start_unix_server", no_sockets)
    wire = Wire(upstream.kubeconfig(tmp_path), "op", tmp_path)
    with pytest.raises(EnvironmentProblem, match="cannot listen on this machine: Too many"):
        wire.open()
    assert not (wire.folder / "wire.json").exists()


def test_a_wire_is_closed_once_and_for_all(alone, http):
    wire = alone()
    assert in_use([wire.folder])
    wire.close()
    wire.close()
    assert not in_use([wire.folder]) and not wire.unix_socket.exists()
    with pytest.raises(RuntimeError, match="is not open"):
        wire.rules.add("freeze watch pods")


def test_a_wire_that_is_opened_again_goes_on_in_its_record(alone, http):
    first = alone()
    http.request("GET", first.url + MAPS)
    first.close()
    second = alone()
    http.request("GET", second.url + MAPS)
    timeline = Timeline.of(second)
    assert len(timeline.exchanges()) == 2 and len(timeline.marks("wire_opened")) == 2
    assert first.url != second.url


def test_one_name_is_one_wire_at_a_time(alone, upstream, tmp_path):
    alone()
    with pytest.raises(EnvironmentProblem, match="in use in"):
        Wire(upstream.kubeconfig(tmp_path), "op", tmp_path).open()


def test_a_deep_folder_still_gets_its_sockets(upstream, tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    with Wire(upstream.kubeconfig(tmp_path), "op", deep) as wire:
        assert len(os.fsencode(wire.unix_socket)) < 104
        folder = wire.unix_socket.parent
        assert control.ask(wire.control_socket, {"op": "list"})["rules"] == []
    assert not folder.exists()


# Rules, from any thread ----------------------------------------------------------------


def test_a_rule_is_in_force_when_add_returns(alone, http):
    wire = alone()
    for code in (409, 422, 503):
        rule = wire.rules.add(f"answer {code} list configmaps")
        assert http.request("GET", wire.url + MAPS).status == code
        assert rule.fired == 1 and rule.text == f"answer {code} list configmaps"
        rule.remove()
        rule.remove()  # it is gone already
    assert list(wire.rules) == [] and http.request("GET", wire.url + MAPS).status == 200


def test_who_listens_hears_of_each_firing(alone, http):
    wire = alone("answer 409 list configmaps times=always")
    heard: list[str] = []
    again = threading.Event()

    def listen(text: str) -> None:
        heard.append(text)
        # On the wire's own thread, where what others ask of it is done at once.
        if len(list(wire.rules)) == 1 and len(heard) == 2:
            again.set()

    wire.rules.on_fired(listen)
    for _ in range(2):
        http.request("GET", wire.url + MAPS)
    assert again.wait(PATIENCE)
    assert heard == ["answer 409 list configmaps times=always"] * 2


def test_waiting_for_a_rule_has_an_end(alone):
    wire = alone("answer 409 list configmaps")
    (rule,) = wire.rules
    with pytest.raises(TimeoutError, match="acted 0 times in 0.01 s, not 1"):
        rule.wait_fired(timeout=0.01)


def test_rules_are_removed_one_by_one_or_all(alone):
    wire = alone("freeze watch pods", "hold create pods", "answer 409 update pods")
    assert wire.rules.remove("r2") and not wire.rules.remove("r2")
    assert [rule.id for rule in wire.rules] == ["r1", "r3"]
    wire.rules.clear()
    assert list(wire.rules) == []


# The control socket --------------------------------------------------------------------


def ask(wire, **request):
    return control.ask(wire.control_socket, request)


def test_the_control_socket_adds_lists_and_removes(alone, http):
    wire = alone()
    added = ask(wire, op="add", rule="answer 503 list configmaps")["added"]
    assert http.request("GET", wire.url + MAPS).status == 503
    (listed,) = ask(wire, op="list")["rules"]
    assert (listed["id"], listed["fired"], listed["spent"]) == (added["id"], 1, True)
    assert ask(wire, op="remove", rule=added["id"]) == {"removed": [added["id"]]}
    for rule in ("freeze watch pods", "hold create pods", "freeze watch pods", "cut"):
        ask(wire, op="add", rule=rule)
    assert ask(wire, op="remove", rule="freeze  watch pods") == {"removed": ["r2", "r4"]}
    assert ask(wire, op="remove", rule="all") == {"removed": ["r3", "r5"]}
    assert ask(wire, op="remove", rule="all") == {"removed": []}
    ask(wire, op="mark", what="note", data={"text": "here"})
    assert Timeline.of(wire).marks("note").first.data == {"text": "here"}


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"op": "add", "rule": "explode"}, "not something a rule can do. Rules begin with"),
        ({"op": "add"}, "empty rule"),
        ({"op": "remove", "rule": "r9"}, "no rule «r9» on this wire. Its rules: none."),
        ({"op": "add", "rule": "thaw"}, "`phase4 fault remove` removes a rule"),
        ({"op": "dance"}, "does not know the request"),
        ({"op": "mark"}, "does not understand that request"),
        ([], "does not understand that request"),
    ],
)
def test_a_wrong_request_is_answered_with_a_sentence(alone, request_, says):
    with pytest.raises(RuleError, match=says):
        control.ask(alone().control_socket, request_)


def test_a_wire_that_is_not_there(tmp_path):
    with pytest.raises(control.NoWire, match="not in use any more"):
        control.ask(tmp_path / "control.sock", {"op": "list"})


def test_what_a_killed_command_left_is_not_in_use(tmp_path):
    tmp_path.joinpath("wire.json").write_text(json.dumps({"control_socket": "/nonexistent"}))
    assert in_use([tmp_path]) == []


def test_a_rule_without_a_hint_ends_its_sentence():
    with pytest.raises(RuleError, match=r"can do\. Rules begin with one of: kill-before"):
        wires.parse_rule("explode everything")
