"""Every fault, happening to a real client against a real API server."""

from __future__ import annotations

import threading
import time

import pytest
from kubernetes import watch as k8s_watch
from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from grader.wire import RuleError
from grader.witness import Timeline
from tests.wire.conftest import PATIENCE, ROOT_CA, configmap, python_client

pytestmark = pytest.mark.live


def exists(api, namespace: str, name: str) -> bool:
    return api.find("configmaps", name, namespace) is not None


class Watching:
    """The Python client's watch of a namespace's configmaps, in a thread; events as (type, name)."""

    def __init__(self, core, namespace: str, **options) -> None:
        self.seen: list[tuple[str, str]] = []
        self.ended: BaseException | str | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(core, namespace, options))
        self._thread.daemon = True
        self._thread.start()

    def _run(self, core, namespace: str, options: dict) -> None:
        ended: BaseException | str = "ended"
        try:
            # A single request: the client's own Watch would reconnect.
            response = core.list_namespaced_config_map(
                namespace, watch=True, _preload_content=False, **options
            )
            for event in k8s_watch.watch.iter_resp_lines(response):
                if event:
                    self._note(event)
        except BaseException as e:
            ended = e
        with self._changed:
            self.ended = ended
            self._changed.notify_all()

    def _note(self, line: str) -> None:
        import json

        event = json.loads(line)
        name = event["object"].get("metadata", {}).get("name") or str(event["object"].get("code"))
        with self._changed:
            self.seen.append((event["type"], name))
            self._changed.notify_all()

    def wait(self, *events: tuple[str, str], timeout: float = PATIENCE) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: set(events) <= set(self.seen), timeout), (
                f"{events} not in {self.seen}"
            )

    def wait_end(self, timeout: float = PATIENCE) -> BaseException | str:
        with self._changed:
            assert self._changed.wait_for(lambda: self.ended is not None, timeout)
            return self.ended


def open_watch(core, wire, namespace: str) -> Watching:
    """A watch that is open, and through which all has come that was there before."""
    there = core.list_namespaced_config_map(namespace).items
    watching = Watching(core, namespace)
    watching.wait(*[("ADDED", one.metadata.name) for one in there])
    return watching


# Answers in the API server's place -------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (409, "Conflict"),
        (410, "Expired"),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
    ],
)
def test_answer(code, reason, wire, core, api, namespace, timeline):
    rule = wire.rules.add(f"answer {code} create configmaps")
    with pytest.raises(ApiException) as caught:
        core.create_namespaced_config_map(namespace, configmap("a"))
    assert caught.value.status == code
    assert f'"reason":"{reason}"' in caught.value.body
    assert not exists(api, namespace, "a")
    refused = timeline.writes().first
    assert (refused.status, refused.forwarded, refused.applied) == (code, False, False)
    assert refused.faults == [rule.id] and refused.name == "a"
    assert timeline.marks("rule_fired", rule=rule.id).first.data["audit_id"] == refused.audit_id
    # Once only: the next one goes through.
    core.create_namespaced_config_map(namespace, configmap("a"))
    assert exists(api, namespace, "a") and timeline.writes().last.applied


def test_answer_with_retry_after(wire, core, namespace):
    wire.rules.add("answer 429 retry-after=7 create configmaps")
    with pytest.raises(ApiException) as caught:
        core.create_namespaced_config_map(namespace, configmap("a"))
    assert caught.value.headers["Retry-After"] == "7"
    assert '"retryAfterSeconds":7' in caught.value.body


def test_answer_the_nth_of_one_name(wire, core, namespace, timeline):
    wire.rules.add("answer 409 update configmaps name=b nth=2")
    for name in ("a", "b"):
        core.create_namespaced_config_map(namespace, configmap(name))
    statuses = []
    for name in ("a", "b", "a", "b", "b"):
        try:
            core.replace_namespaced_config_map(name, namespace, configmap(name, x="1"))
            statuses.append(200)
        except ApiException as e:
            statuses.append(e.status)
    assert statuses == [200, 200, 200, 409, 200]


def test_answer_a_list_of_one_version(wire, core, namespace):
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    wire.rules.add(f"answer 410 list configmaps version={version} times=always")
    core.list_namespaced_config_map(namespace)
    core.list_namespaced_config_map(namespace, resource_version="0")
    for _ in range(2):
        with pytest.raises(ApiException) as caught:
            core.list_namespaced_config_map(namespace, resource_version=version)
        assert caught.value.status == 410


def test_kubectl_shows_the_answer(wire, kubectl, start, namespace):
    wire.rules.add("answer 500 list configmaps message=disk_on_fire")
    child = start([kubectl, "get", "configmaps", "-n", namespace], wire)
    assert child.wait() == 1 and "disk on fire" in child.stderr


def test_timeout_that_did_not_happen(wire, core, api, namespace, timeline):
    wire.rules.add("timeout create configmaps")
    with pytest.raises(ApiException) as caught:
        core.create_namespaced_config_map(namespace, configmap("a"))
    assert caught.value.status == 504 and '"reason":"Timeout"' in caught.value.body
    assert not exists(api, namespace, "a") and timeline.writes().first.applied is False


def test_timeout_that_did_happen(wire, core, api, namespace, timeline):
    wire.rules.add("timeout create configmaps applied=yes")
    with pytest.raises(ApiException) as caught:
        core.create_namespaced_config_map(namespace, configmap("a"))
    assert caught.value.status == 504 and exists(api, namespace, "a")
    write = timeline.writes().first
    assert (write.status, write.server_status, write.applied) == (504, 201, True)
    assert write.answer["metadata"]["name"] == "a"


def test_drop_answer(wire, core, api, namespace, timeline):
    wire.rules.add("drop-answer create configmaps")
    with pytest.raises(HTTPError):
        core.create_namespaced_config_map(namespace, configmap("a"))
    assert exists(api, namespace, "a")
    write = timeline.writes().first
    assert (write.status, write.server_status, write.applied) == (None, 201, True)
    assert "dropped" in write.error and write.answer["metadata"]["uid"]


def test_drop_answer_waits_for_a_write_that_was_applied(wire, core, api, namespace):
    core.create_namespaced_config_map(namespace, configmap("a"))
    rule = wire.rules.add("drop-answer create configmaps")
    with pytest.raises(ApiException):  # AlreadyExists, which is heard
        core.create_namespaced_config_map(namespace, configmap("a"))
    assert rule.fired == 0
    with pytest.raises(HTTPError):
        core.create_namespaced_config_map(namespace, configmap("b"))
    assert rule.fired == 1 and exists(api, namespace, "b")


def test_cut_a_request(wire, core, api, namespace, timeline):
    wire.rules.add("cut create configmaps")
    with pytest.raises(HTTPError):
        core.create_namespaced_config_map(namespace, configmap("a"))
    assert not exists(api, namespace, "a")
    assert timeline.writes().first.forwarded is False


def test_a_partition(wire, core, namespace, timeline):
    watching = open_watch(core, wire, namespace)
    partition = wire.rules.add("cut times=always")
    assert isinstance(watching.wait_end(), HTTPError)
    for _ in range(2):
        with pytest.raises(HTTPError):
            core.list_namespaced_config_map(namespace)
    with pytest.raises(HTTPError):
        core.list_namespaced_config_map(namespace, watch=True, _preload_content=False)
    partition.remove()
    core.list_namespaced_config_map(namespace)
    assert timeline.watch_ends().first.by == "rule"


# Kills --------------------------------------------------------------------------------


def test_kill_before(wire, kubectl, start, api, namespace, timeline):
    rule = wire.rules.add("kill-before create configmaps")
    child = start([kubectl, "create", "configmap", "a", "-n", namespace], wire)
    assert child.wait() == -9
    rule.wait_fired(timeout=PATIENCE)
    killed = timeline.until(lambda t: t.marks("process_killed").first, PATIENCE, "the kill")
    assert killed.data["when"] == "before" and killed.data["rule"] == rule.id
    # It is given up, and written down, once the process is gone.
    write = timeline.until(lambda t: t.writes().first, PATIENCE, "the write")
    assert (write.status, write.forwarded, write.applied) == (None, False, False)
    assert write.audit_id == killed.data["audit_id"]
    assert not exists(api, namespace, "a")


def test_kill_after(wire, kubectl, start, api, namespace, timeline):
    wire.rules.add("kill-after create configmaps")
    child = start([kubectl, "create", "configmap", "a", "-n", namespace], wire)
    assert child.wait() == -9
    write = timeline.until(lambda t: t.writes().first, PATIENCE, "the write")
    assert (write.status, write.server_status, write.applied) == (None, 201, True)
    assert timeline.marks("process_killed").first.data["when"] == "after"
    assert exists(api, namespace, "a")


def test_nothing_of_a_killed_process_is_forwarded(wire, start, api, namespace, timeline):
    """Many writers at once in one process: after the kill nobody's write goes through."""
    program = (
        "import os, sys, threading, urllib3, yaml\n"
        "url = yaml.safe_load(open(os.environ['KUBECONFIG']))['clusters'][0]['cluster']['server']\n"
        "def write(n):\n"
        "    pool = urllib3.PoolManager(retries=False)\n"
        "    for i in range(200):\n"
        "        pool.request('POST', f'{url}/api/v1/namespaces/{sys.argv[1]}/configmaps',\n"
        "            json={'metadata': {'name': f'w{n}-{i}'}})\n"
        "for n in range(8): threading.Thread(target=write, args=(n,)).start()\n"
    )
    wire.rules.add("kill-before create configmaps nth=40")
    child = start([__import__("sys").executable, "-c", program, namespace], wire)
    assert child.wait() == -9
    killed = timeline.until(lambda t: t.marks("process_killed").first, PATIENCE, "the kill")
    # What was forwarded before the kill may be answered after it; nothing begins after it.
    timeline.quiet_for(0.3, timeout=PATIENCE)

    def kept() -> set[str]:
        items = api.list("configmaps", namespace=namespace)["items"]
        return {item["metadata"]["name"] for item in items} - {ROOT_CA}

    timeline.until(lambda t: kept() == set(t.writes(applied=True).names), PATIENCE, "every answer")
    assert not timeline.after(killed).writes(where=lambda e: e.forwarded)
    assert len(timeline.writes(applied=True)) < 60


def test_a_restarted_process_is_served_again(wire, kubectl, start, api, namespace):
    wire.rules.add("kill-before create configmaps")
    argv = [kubectl, "create", "configmap", "a", "-n", namespace]
    assert start(argv, wire).wait() == -9
    assert start(argv, wire).wait() == 0
    assert exists(api, namespace, "a")


def test_without_a_process_to_kill_the_connection_is_cut(wire, core, api, namespace, timeline):
    wire.rules.add("kill-before create configmaps")
    with pytest.raises(HTTPError):
        core.create_namespaced_config_map(namespace, configmap("a"))
    assert timeline.marks("kill_impossible") and not exists(api, namespace, "a")


# Keeping back ---------------------------------------------------------------------------


def test_hold_a_list(wire, core, api, namespace, timeline):
    hold = wire.rules.add("hold list configmaps")
    answers: list = []
    asking = threading.Thread(
        target=lambda: answers.append(core.list_namespaced_config_map(namespace))
    )
    asking.start()
    hold.wait_fired(timeout=PATIENCE)
    api.create({"apiVersion": "v1", "kind": "ConfigMap", **configmap("late")}, namespace)
    assert not answers and not timeline.reads(verb="list")
    hold.remove()
    asking.join(PATIENCE)
    # It was held back unforwarded, so it tells of what was made meanwhile.
    assert "late" in {item.metadata.name for item in answers[0].items}


def test_hold_takes_in_the_lists_of_client_go(wire, go_clients, start, namespace, timeline):
    wire.rules.add("hold list configmaps")
    child = start([str(go_clients / "informer"), "-namespace", namespace], wire)
    timeline.until(lambda t: t.marks("rule_fired").first, PATIENCE, "the list to be held")
    assert timeline.marks("rule_fired").first.data["verb"] == "watch"
    assert not any(line.get("what") == "synced" for line in child.lines)
    wire.rules.clear()
    child.wait_line(what="synced")


def test_whoever_goes_away_while_held_is_never_forwarded(wire, kubectl, start, api, namespace):
    hold = wire.rules.add("hold create configmaps")
    child = start([kubectl, "create", "configmap", "a", "-n", namespace], wire)
    hold.wait_fired(timeout=PATIENCE)
    child.kill()
    timeline = Timeline.of(wire)
    write = timeline.until(lambda t: t.writes().first, PATIENCE, "the write to be given up")
    assert write.forwarded is False and "went away" in write.error
    hold.remove()
    assert not exists(api, namespace, "a")


def test_delay_a_request(wire, core, namespace, timeline):
    wire.rules.add("delay 300ms create configmaps")
    began = time.monotonic()
    core.create_namespaced_config_map(namespace, configmap("a"))
    assert time.monotonic() - began >= 0.3
    assert timeline.writes().first.applied


def test_delay_an_answer(wire, core, api, namespace):
    wire.rules.add("delay 600s create configmaps part=answer")

    def create() -> None:
        with pytest.raises(HTTPError):  # the wire is closed before the time has passed
            core.create_namespaced_config_map(namespace, configmap("a"))

    thread = threading.Thread(target=create)
    thread.start()
    # It is there long before the process hears of it.
    api.until("configmaps", "a", namespace, lambda o: o is not None, PATIENCE, what="the configmap")
    assert thread.is_alive()
    wire.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()


# Watches --------------------------------------------------------------------------------


def make(api, namespace: str, *names: str) -> None:
    for name in names:
        api.create({"apiVersion": "v1", "kind": "ConfigMap", **configmap(name)}, namespace)


def test_a_freeze_and_its_end(wire, core, api, namespace, timeline):
    watching = open_watch(core, wire, namespace)
    make(api, namespace, "a")
    watching.wait(("ADDED", "a"))
    wire.rules.add("freeze watch configmaps")
    make(api, namespace, "b", "c")
    timeline.until(lambda t: wire.queued("configmaps") == 2, PATIENCE, "two events to queue up")
    assert ("ADDED", "b") not in watching.seen
    wire.rules.clear()
    watching.wait(("ADDED", "b"), ("ADDED", "c"))
    assert [name for _, name in watching.seen][-2:] == ["b", "c"]
    held = timeline.events(resource="configmaps", name="b").first
    assert held.t_delivered > held.t_received and held.fate == "delivered"
    assert timeline.marks("rule_removed")


def test_freeze_meets_watches_that_open_later(wire, core, api, namespace):
    wire.rules.add("freeze watch configmaps")
    watching = Watching(core, namespace)
    make(api, namespace, "a")
    Timeline.of(wire).until(lambda t: wire.queued() == 2, PATIENCE, f"{ROOT_CA} and a to queue up")
    assert watching.seen == []
    wire.rules.clear()
    watching.wait(("ADDED", "a"))


def test_freeze_everything_is_a_silent_partition(wire, core, api, namespace):
    watching = open_watch(core, wire, namespace)
    frozen = wire.rules.add("freeze")
    thread = threading.Thread(
        target=lambda: core.create_namespaced_config_map(namespace, configmap("mine")), daemon=True
    )
    thread.start()
    frozen.wait_fired(timeout=PATIENCE)
    make(api, namespace, "theirs")
    Timeline.of(wire).until(lambda t: wire.queued() >= 1, PATIENCE, "an event to queue up")
    assert not exists(api, namespace, "mine") and ("ADDED", "theirs") not in watching.seen
    frozen.remove()
    watching.wait(("ADDED", "theirs"), ("ADDED", "mine"))


def test_what_is_frozen_when_the_process_dies_is_lost(
    wire, go_clients, start, api, namespace, timeline
):
    child = start([str(go_clients / "informer"), "-namespace", namespace], wire)
    child.wait_line(what="synced")
    wire.rules.add("freeze watch configmaps")
    make(api, namespace, "a")
    timeline.until(lambda t: wire.queued() >= 1, PATIENCE, "an event to queue up")
    child.kill()
    lost = timeline.until(lambda t: t.events(name="a").first, PATIENCE, "the event to be given up")
    assert lost.fate == "lost" and lost.t_delivered is None
    assert timeline.watch_ends().last.by == "client"


def test_hide_one_event(wire, core, api, namespace, timeline):
    make(api, namespace, "a", "b")
    watching = open_watch(core, wire, namespace)
    wire.rules.add("hide DELETED watch configmaps name=a")
    api.delete("configmaps", "a", namespace)
    api.delete("configmaps", "b", namespace)
    watching.wait(("DELETED", "b"))
    assert ("DELETED", "a") not in watching.seen
    hidden = timeline.events(type="DELETED", name="a").first
    assert hidden.fate == "hidden" and hidden.faults == ["r1"]
    # The client's knowledge has it still; the truth has not.
    known = timeline.known(by=wire.client)
    assert known.get("configmaps", "a", namespace) and not known.get("configmaps", "b", namespace)
    assert timeline.truth().get("configmaps", "a", namespace) is None


def test_hide_the_nth(wire, core, api, namespace):
    watching = open_watch(core, wire, namespace)
    wire.rules.add("hide ADDED watch configmaps nth=2")
    make(api, namespace, "a", "b", "c")
    watching.wait(("ADDED", "c"))
    assert [name for _, name in watching.seen] == [ROOT_CA, "a", "c"]


def test_cut_an_open_watch(wire, core, namespace, timeline):
    watching = open_watch(core, wire, namespace)
    cut = wire.rules.add("cut watch configmaps")
    assert isinstance(watching.wait_end(), HTTPError)
    assert cut.fired == 1
    assert timeline.until(lambda t: t.watch_ends().first, PATIENCE, "the end").by == "rule"
    open_watch(core, wire, namespace)  # the next one is left alone
    assert cut.fired == 1


def test_cut_the_next_watch_where_none_is_open(wire, core, namespace):
    wire.rules.add("cut watch configmaps")
    assert isinstance(Watching(core, namespace).wait_end(), HTTPError)


def test_cut_cleanly(wire, core, namespace):
    watching = open_watch(core, wire, namespace)
    wire.rules.add("cut watch configmaps cleanly=yes")
    assert watching.wait_end() == "ended"


def test_cut_in_place_of_an_event(wire, core, api, namespace, timeline):
    watching = open_watch(core, wire, namespace)
    wire.rules.add("cut ADDED watch configmaps name=b")
    make(api, namespace, "a", "b")
    assert isinstance(watching.wait_end(), HTTPError)
    assert ("ADDED", "a") in watching.seen and ("ADDED", "b") not in watching.seen
    assert timeline.events(name="b").first.fate == "lost"


def test_error_in_the_stream(wire, core, namespace, timeline):
    watching = open_watch(core, wire, namespace)
    wire.rules.add("error 410 watch configmaps")
    watching.wait(("ERROR", "410"))
    assert watching.wait_end() == "ended"
    error = timeline.events(type="ERROR").first
    assert error.object["reason"] == "Expired" and error.faults == ["r1"]


def test_an_expired_version_stays_expired(wire, core, api, namespace, timeline):
    watching = open_watch(core, wire, namespace)
    now = int(core.list_namespaced_config_map(namespace).metadata.resource_version) + 1
    wire.rules.add(f"error 410 watch configmaps before={now} times=always")
    watching.wait(("ERROR", "410"))
    for version in (str(now - 1), "1"):
        Watching(core, namespace, resource_version=version).wait(("ERROR", "410"))
    # What does not ask for it is served.
    make(api, namespace, "a")
    Watching(core, namespace, resource_version="0").wait(("ADDED", "a"))


def test_delay_events_in_order(wire, core, api, namespace, timeline):
    watching = open_watch(core, wire, namespace)
    wire.rules.add("delay 300ms watch configmaps")
    make(api, namespace, "a", "b")
    watching.wait(("ADDED", "a"), ("ADDED", "b"))
    events = [timeline.events(name=name).first for name in ("a", "b")]
    assert all(e.t_delivered - e.t_received >= 0.29 for e in events)
    assert events[0].t_delivered <= events[1].t_delivered


def test_refuse_watchlist(wire, go_clients, start, namespace, timeline):
    rule = wire.rules.add("refuse-watchlist")
    child = start([str(go_clients / "informer"), "-namespace", namespace], wire)
    child.wait_line(what="synced")
    assert rule.fired >= 1
    refused = timeline.exchanges(rule=rule.id).first
    assert refused.status == 422 and "sendInitialEvents" in refused.query
    assert timeline.reads(verb="list", resource="configmaps", status=200)


def test_refuse_watchlist_as_seen_by_the_python_client(wire, core, namespace):
    wire.rules.add("refuse-watchlist")
    with pytest.raises(ApiException) as caught:
        core.list_namespaced_config_map(
            namespace,
            watch=True,
            send_initial_events=True,
            resource_version_match="NotOlderThan",
            allow_watch_bookmarks=True,
            _preload_content=False,
        )
    assert caught.value.status == 422 and "sendInitialEvents: Forbidden" in caught.value.body


# Rules themselves -----------------------------------------------------------------------


def test_rules_act_in_order_and_delays_add_up(wire, core, namespace, timeline):
    wire.rules.add("delay 100ms create configmaps")
    wire.rules.add("delay 100ms create configmaps")
    wire.rules.add("answer 409 create configmaps")
    wire.rules.add("answer 500 create configmaps")
    began = time.monotonic()
    statuses = []
    for name in "ab":
        with pytest.raises(ApiException) as caught:
            core.create_namespaced_config_map(namespace, configmap(name))
        statuses.append(caught.value.status)
    assert statuses == [409, 500] and time.monotonic() - began >= 0.4
    assert timeline.writes().first.faults == ["r1", "r2", "r3"]


def test_rules_given_at_the_start_are_in_force_before_the_first_request(new_wire, namespace):
    wire = new_wire("answer 503 list configmaps")
    with pytest.raises(ApiException) as caught:
        python_client(wire).list_namespaced_config_map(namespace)
    assert caught.value.status == 503


def test_a_wrong_rule_is_refused_before_anything_runs(new_wire):
    with pytest.raises(RuleError):
        new_wire("anwser 503 list configmaps")


def test_a_rule_for_another_client_does_nothing(new_wire, namespace):
    wire = new_wire("answer 503 list configmaps client=somebody-else")
    python_client(wire).list_namespaced_config_map(namespace)
