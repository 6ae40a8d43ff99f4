"""No busy loop: a server that refuses everything hears from us no more than from client-go."""

from __future__ import annotations

import threading

import pytest

from .clients import ClientGo, Ours
from .http_server import ApiServer, Faults, status

SECONDS = 6


@pytest.mark.slow
@pytest.mark.parametrize(
    "refusal",
    [status(403, "Forbidden"), status(410, "Expired"), status(500, "InternalError")],
    ids=lambda refusal: str(refusal["code"]),
)
@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])
def test_a_server_that_refuses_everything(oracle_binary, refusal, watch_list):
    counts = {}

    def count(name, make):
        with ApiServer(Faults(refuse=lambda request: refusal)) as server:
            client = make(server.url, watch_list=watch_list)
            # The one wait for time in these tests: it is what is measured.
            threading.Event().wait(SECONDS)
            client.close()
            counts[name] = len(server.requests)

    threads = [
        threading.Thread(
            target=count, args=("client-go", lambda *a, **k: ClientGo(oracle_binary, *a, **k))
        ),
        threading.Thread(target=count, args=("ours", Ours)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Each pause is random by a factor of two, so one round more or less means nothing.
    a_round = 3
    assert 0 < counts["ours"] <= counts["client-go"] + a_round, counts
    # 0.8 + 1.6 + 3.2: four rounds at the very most, of up to three requests.
    assert counts["ours"] <= 12, counts
