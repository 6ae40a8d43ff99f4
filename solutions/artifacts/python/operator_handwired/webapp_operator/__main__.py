"""Flags, signals and health endpoints of the operator: ``python -m webapp_operator``."""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import socket
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from machinery.api import ApiError, Unreachable
from machinery.client import Client, client_for
from machinery.stop import Stop, Stopped

from .controller import Controller
from .election import Durations, Election
from .types import API_VERSION, GROUP, VERSION

log = logging.getLogger("webapp_operator")

#: Seconds that a SIGTERM may wait for work in hand. A stop may take five in all; the
#: election needs one of them to release the lease.
STOP_WITHIN = 3.0
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """A duration as Go's flags have it (``15s``, ``1m30s``, ``200ms``), in seconds."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if text == "0":
        return 0.0
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write it as 15s or 1m30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def flag(text: str) -> bool:
    return text.lower() in ("true", "1", "t")


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="webapp_operator", description=__doc__)
    add = parser.add_argument
    add("--kubeconfig", default=os.environ.get("KUBECONFIG"), help="in-cluster if there is none")
    add("--leader-elect", nargs="?", const=True, default=False, type=flag)
    add("--lease-duration", type=seconds, default=15.0)
    add("--renew-deadline", type=seconds, default=10.0)
    add("--retry-period", type=seconds, default=2.0)
    add("--workers", type=int, default=2)
    add("--resync", type=seconds, default=600.0)
    add("--resume", type=Path, metavar="DIR", help="edge mode: go on after the last event seen")
    add("--health-probe-bind-address", default="0", help="0 is off")
    add("--metrics-bind-address", default="0", help="0 is off")
    return parser.parse_args(argv)


def stop_at_signal() -> Stop:
    """What SIGTERM and Ctrl-C set. To be called before any other thread starts.

    A thread waits for them: a handler would run in the midst of whatever the main
    thread does, with whatever locks it holds.
    """
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    stopping = Stop()

    def wait() -> None:
        signal.sigwait(signals)
        stopping.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    return stopping


def wait_for_crd(client: Client, stopping: Stop) -> bool:
    """Wait until the API server serves WebApps; False if told to stop meanwhile.

    An operator that exits here would be restarted in a loop, and say less.
    """
    pause, said = 0.2, ""
    while not stopping.is_set():
        try:
            # Given up on when told to stop: a server may hang.
            served = stopping.call(lambda: client.request("GET", f"/apis/{GROUP}/{VERSION}"))
            if any(resource["name"] == "webapps" for resource in served["resources"]):
                return True
            reason = "waiting for the CRD webapps.phase4.example.com"
        except Stopped:
            return False
        except (ApiError, Unreachable) as error:
            reason = f"waiting for {API_VERSION} to be served (is the CRD applied?): {error}"
        if reason != said:
            log.info("%s", reason)
            said = reason
        stopping.wait(pause)
        pause = min(pause * 2, 10.0)
    return False


class _Health(BaseHTTPRequestHandler):
    ready = threading.Event()
    controller: Controller | None = None

    def do_GET(self) -> None:
        if self.path == "/metrics":
            controller = type(self).controller
            depth = 0 if controller is None else len(controller.queue)
            self._answer(200, f"# TYPE workqueue_depth gauge\nworkqueue_depth {depth}\n")
        elif self.path == "/healthz" or (self.path == "/readyz" and self.ready.is_set()):
            self._answer(200, "ok\n")
        elif self.path == "/readyz":
            self._answer(503, "the CRD is missing, or the API server does not answer\n")
        else:
            self._answer(404, "there are /healthz, /readyz and /metrics\n")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """A probe every few seconds is not worth a line."""


def serve(address: str) -> None:
    if address in ("", "0"):
        return
    host, _, port = address.rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), _Health)
    threading.Thread(target=server.serve_forever, name=f"http {address}", daemon=True).start()


def main() -> int:
    options = arguments()
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    stopping = stop_at_signal()
    try:
        durations = Durations(options.lease_duration, options.renew_deadline, options.retry_period)
        client = client_for(options.kubeconfig, "webapp-operator")
    except (ValueError, OSError) as error:
        log.error("%s", error)
        return 2
    for address in {options.health_probe_bind_address, options.metrics_bind_address}:
        serve(address)
    if not wait_for_crd(client, stopping):
        return 0
    _Health.ready.set()

    def work() -> bool:
        controller = _Health.controller = Controller(
            client, resync=options.resync, resume=options.resume
        )
        # Bounds what a stop may wait for; the process ends either way.
        worker = threading.Thread(
            target=controller.run, args=(options.workers, stopping), name="controller", daemon=True
        )
        worker.start()
        stopping.wait()
        worker.join(STOP_WITHIN)
        return not worker.is_alive()

    if not options.leader_elect:
        work()
        return 0
    lease_client = client_for(
        options.kubeconfig, "webapp-operator/leader-election", options.renew_deadline / 2
    )
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    Election(lease_client, identity, durations).run(work, stopping, lost=_exit_at_once)
    return 0


def _exit_at_once() -> None:
    """The lease is lost: whatever is in hand must not be written any more."""
    logging.shutdown()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
