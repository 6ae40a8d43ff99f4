"""No busy loop: a server that refuses everything is asked again after pauses that double.

client-go is held to the same, so that nobody takes our pauses for more than its.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import pytest

from .clients import ClientGo, Ours
from .http_server import ApiServer, Faults, Request, status

#: How long each client is listened to from its first request on (s).
SECONDS = 6
#: The least that a client waits before it begins anew, for the first time, the second …
PAUSES = (0.8, 1.6, 3.2, 6.4)
#: Requests that a client may send before it waits: a watch-list, a list, and its second try.
MOST = 3

REFUSALS = {
    "403": status(403, "Forbidden"),
    "410": status(410, "Expired"),
    "500": status(500, "InternalError"),
}
CASES = [
    (client, how, code)
    for client in ("client-go", "ours")
    for how in ("watch-list", "list")
    for code in REFUSALS
    # Refused for the newest state too, client-go asks on and on: differences.md.
    if (client, how, code) != ("client-go", "watch-list", "410")
]


@pytest.fixture(scope="module")
def heard(oracle_binary) -> dict[tuple[str, str, str], list[Request]]:
    """What every client asked for. They are listened to at once: they do nothing but wait."""
    makers: dict[str, Callable] = {
        "client-go": lambda url, **options: ClientGo(oracle_binary, url, **options),
        "ours": Ours,
    }

    def listen(case: tuple[str, str, str]) -> list[Request]:
        name, how, code = case
        with ApiServer(Faults(refuse=lambda request: REFUSALS[code])) as server:
            client = makers[name](server.url, watch_list=how == "watch-list")
            server.wait_for_requests("watch_list" if how == "watch-list" else "list", 1, 60)
            # The one wait for time in these tests: it is what is measured.
            threading.Event().wait(SECONDS)
            client.close()
            return list(server.requests)

    with ThreadPoolExecutor(len(CASES)) as pool:
        return dict(zip(CASES, pool.map(listen, CASES), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_server_that_refuses_everything(heard, case):
    times = [request.at for request in heard[case]]
    # A busy machine makes a client later, never sooner: these are the earliest times.
    for begins, at in zip(accumulate(PAUSES), times[MOST::MOST], strict=False):
        assert at - times[0] >= begins, [round(time - times[0], 2) for time in times]
    assert len(times) <= MOST * len(PAUSES)
