"""What the wire promises besides faults: nothing is lost, late, or held up."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import urllib3

from grader.wire import Wire, control
from grader.wire.in_use import in_use
from grader.wire.rules import RuleError
from grader.witness import Timeline
from tests.wire.conftest import PATIENCE, configmap

pytestmark = pytest.mark.live


def test_a_request_is_on_record_before_the_process_has_its_answer(wire, http):
    path = wire.record
    for n in range(20):
        http.request("GET", f"{wire.url}/api/v1/namespaces/default?n={n}")
        last = json.loads(path.read_bytes().splitlines()[-1])
        assert last["query"] == {"n": str(n)}


def test_an_event_is_on_record_before_the_process_has_it(wire, http, api, namespace):
    answer = http.request(
        "GET",
        f"{wire.url}/api/v1/namespaces/{namespace}/configmaps?watch=true",
        preload_content=False,
    )
    for n in range(10):
        api.create({"apiVersion": "v1", "kind": "ConfigMap", **configmap(f"c{n}")}, namespace)
        while True:
            name = json.loads(answer.readline())["object"]["metadata"]["name"]
            assert f'"name":"{name}"'.encode() in wire.record.read_bytes()
            if name == f"c{n}":
                break
    answer.close()


def test_watch_headers_come_at_once(wire, http, namespace):
    """A watch with nothing to tell answers its headers, as the API server does."""
    answer = http.request(
        "GET",
        f"{wire.url}/api/v1/namespaces/{namespace}/secrets?watch=true",
        preload_content=False,
    )
    # Nothing is ever told in it: had they waited for that, the request would have timed out.
    assert answer.status == 200
    answer.close()


def test_connections_are_kept_alive(wire):
    connection = urllib3.HTTPConnectionPool("127.0.0.1", wire.port, maxsize=1)
    for _ in range(5):
        connection.request("GET", f"{wire.url}/version")
    assert connection.num_connections == 1 and connection.num_requests == 5


def test_the_unix_socket_is_the_same_wire(wire):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(wire.unix_socket))
        connection.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 200") and b"gitVersion" in answer
    assert Timeline.of(wire).exchanges(where=lambda e: e.path == "/version")


def test_a_large_list_arrives_whole_and_is_on_record(wire, http, api, namespace, timeline):
    for n in range(40):
        api.create(
            {"apiVersion": "v1", "kind": "ConfigMap", **configmap(f"c{n}", big="x" * 40_000)},
            namespace,
        )
    target = f"/api/v1/namespaces/{namespace}/configmaps"
    direct = api.raw("GET", target)
    answer = http.request("GET", wire.url + target)
    assert len(answer.data) > 1_500_000
    assert {i["metadata"]["name"] for i in json.loads(answer.data)["items"]} == {
        i["metadata"]["name"] for i in direct["items"]
    }
    assert len(timeline.reads(verb="list").first.answer["items"]) == len(direct["items"])


def test_a_large_request_is_forwarded_and_judged_by_the_api_server(wire, http, namespace):
    target = f"{wire.url}/api/v1/namespaces/{namespace}/configmaps"
    fits = http.request("POST", target, json=configmap("fits", big="x" * 900_000))
    assert fits.status == 201
    large = http.request("POST", target, json=configmap("large", big="x" * 4_000_000))
    assert large.status == 413


def test_expect_continue(wire, namespace):
    body, path = json.dumps(configmap("a")).encode(), urlsplit(wire.url).path
    with socket.create_connection(("127.0.0.1", wire.port)) as connection:
        connection.settimeout(PATIENCE)
        connection.sendall(
            f"POST {path}/api/v1/namespaces/{namespace}/configmaps HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{wire.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "Expect: 100-continue\r\n\r\n".encode()
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        connection.sendall(body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 201")


@pytest.mark.parametrize(
    "sent",
    [
        b"garbage\r\n\r\n",
        b"GET http://127.0.0.1:1/api HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /api/v1/../../version HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /api/v1/pods HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nabc",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_nonsense_hurts_nobody(wire, http, sent):
    with socket.create_connection(("127.0.0.1", wire.port)) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(PATIENCE)
        try:
            connection.recv(65536)
        except OSError:
            pass
    assert http.request("GET", f"{wire.url}/version").status == 200


def test_a_client_that_goes_away_is_an_ordinary_event(wire, http, namespace, timeline):
    for _ in range(3):
        answer = http.request(
            "GET",
            f"{wire.url}/api/v1/namespaces/{namespace}/configmaps?watch=true",
            preload_content=False,
        )
        answer.connection.sock.shutdown(socket.SHUT_RDWR)
        answer.close()
    ends = timeline.until(
        lambda t: len(t.watch_ends()) == 3 and t.watch_ends(), PATIENCE, "three ends"
    )
    assert {end.by for end in ends} == {"client"}


def test_a_write_whose_process_went_away_is_on_record_all_the_same(wire, namespace, timeline):
    body, path = json.dumps(configmap("orphan")).encode(), urlsplit(wire.url).path
    with socket.create_connection(("127.0.0.1", wire.port)) as connection:
        connection.sendall(
            f"POST {path}/api/v1/namespaces/{namespace}/configmaps HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{wire.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
    write = timeline.until(lambda t: t.writes().first, PATIENCE, "the write")
    # Forwarded or not: it is not left open which.
    assert write.applied is write.forwarded


def test_an_api_server_that_is_away(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    from grader.wire.wire import kubeconfig as text

    kubeconfig.write_text(text(f"http://127.0.0.1:{port}", "x"))
    with Wire(kubeconfig, "op", tmp_path) as wire:
        with pytest.raises(urllib3.exceptions.ProtocolError):
            urllib3.PoolManager(retries=False).request("POST", f"{wire.url}/api/v1/pods", body=b"")
        lost = Timeline.of(wire).exchanges().first
        assert lost.status is None and lost.forwarded is False
        assert "cannot be reached" in lost.error


def test_many_at_once(wire, namespace, timeline):
    """Exactly what the clients counted is on record, each request once."""
    told: list[int] = []

    def work(n: int) -> None:
        pool = urllib3.PoolManager(retries=False)
        for i in range(25):
            answer = pool.request(
                "POST",
                f"{wire.url}/api/v1/namespaces/{namespace}/configmaps",
                json=configmap(f"w{i}"),
            )
            told.append(answer.status)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    writes = timeline.writes()
    assert len(writes) == len(told) == 200
    assert len(timeline.writes(applied=True)) == told.count(201) == 25
    assert len({e.audit_id for e in writes}) == 200


# The control socket -----------------------------------------------------------------------


def test_faults_from_another_process(wire, http, tmp_path):
    (about,) = [a for a in in_use([tmp_path]) if a["client"] == wire.client]
    socket_path = Path(about["control_socket"])
    added = control.ask(socket_path, {"op": "add", "rule": "answer 503 get namespaces"})
    assert http.request("GET", f"{wire.url}/api/v1/namespaces/default").status == 503
    (rule,) = control.ask(socket_path, {"op": "list"})["rules"]
    assert rule["id"] == added["added"]["id"] and rule["fired"] == 1 and rule["spent"]
    control.ask(socket_path, {"op": "remove", "rule": rule["id"]})
    assert control.ask(socket_path, {"op": "list"})["rules"] == []
    with pytest.raises(RuleError, match="no rule «r9»"):
        control.ask(socket_path, {"op": "remove", "rule": "r9"})
    with pytest.raises(RuleError, match="did you mean"):
        control.ask(socket_path, {"op": "add", "rule": "frieze watch pods"})
    assert (socket_path.stat().st_mode & 0o077) == 0


def test_a_closed_wire_is_not_in_use(new_wire, tmp_path):
    wire = new_wire()
    socket_path = wire.control_socket
    wire.close()
    assert in_use([tmp_path]) == []
    with pytest.raises(control.NoWire, match="run has ended"):
        control.ask(socket_path, {"op": "list"})


def test_a_wire_whose_process_was_killed_leaves_nothing_in_the_way(cluster, tmp_path, http):
    program = (
        "import pathlib, sys, time\nfrom grader.wire import Wire\n"
        "wire = Wire(pathlib.Path(sys.argv[1]), 'op', pathlib.Path(sys.argv[2])).open()\n"
        "print('open', flush=True)\ntime.sleep(600)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(cluster.kubeconfig), str(tmp_path)],
        stdout=subprocess.PIPE,
    )
    child.stdout.readline()
    assert len(in_use([tmp_path])) == 1
    child.kill()
    child.wait()
    child.stdout.close()
    assert in_use([tmp_path]) == []
    with Wire(cluster, "op", tmp_path) as wire:
        assert http.request("GET", f"{wire.url}/version").status == 200
        assert len(in_use([tmp_path])) == 1
        assert len(Timeline(tmp_path).marks("wire_opened")) == 2


def test_two_wires_of_one_name_do_not_share_a_folder(wire, cluster, tmp_path):
    from grader.cluster.errors import EnvironmentProblem

    with pytest.raises(EnvironmentProblem, match="in use in"):
        Wire(cluster, wire.client, tmp_path).open()
    assert control.ask(wire.control_socket, {"op": "list"})["rules"] == []


def test_an_api_server_that_is_restarted(wire, cluster, http, namespace, timeline):
    """The watch breaks, as it would without a wire; new requests find the new server."""
    watch = http.request(
        "GET",
        f"{wire.url}/api/v1/namespaces/{namespace}/configmaps?watch=true",
        preload_content=False,
    )
    target = f"{wire.url}/api/v1/namespaces/{namespace}/configmaps"
    assert http.request("POST", target, json=configmap("before")).status == 201
    cluster.restart("kube-apiserver")
    with pytest.raises((urllib3.exceptions.HTTPError, OSError)):
        while watch.readline():
            pass
        raise OSError("the server said goodbye in order")
    assert http.request("POST", target, json=configmap("after")).status == 201
    assert timeline.watch_ends().last.by == "server"


def test_a_deep_folder_still_gets_its_sockets(cluster, tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    with Wire(cluster, "op", deep) as wire:
        assert len(os.fsencode(wire.unix_socket)) < 104
        assert control.ask(wire.control_socket, {"op": "list"})["rules"] == []
        folder = wire.unix_socket.parent
    assert not folder.exists()


def test_a_record_with_a_hole_is_said_to_have_one(wire, http, full_disk):
    assert wire.failure is None
    with full_disk():
        http.request("GET", f"{wire.url}/version")
    assert wire.failure.errno == errno.EFBIG


def test_the_kubeconfig_holds_no_credential_of_the_cluster(wire):
    text = wire.kubeconfig.read_text()
    assert wire.url in text
    assert not any(word in text for word in ("token", "client-key", "certificate", "password"))


def test_a_process_is_named_plainly(cluster, tmp_path):
    with pytest.raises(ValueError, match="small letters"):
        Wire(cluster, "../Op", tmp_path)
