"""Four assertions about an operator. ``assertions.py NAME`` ends with 0 for green, 1 for red."""

from __future__ import annotations

import sys
import time

from server import Red, Server


def stale(server: Server) -> None:
    """The operator's second status gets through as well as its first."""
    # phase4:solution
    server.create("stale", replicas=1)
    server.until("stale", lambda s: s.get("replicas") == 1, "after creating it")
    server.change("stale", replicas=3)
    server.until("stale", lambda s: s.get("replicas") == 3, "after scaling to 3")
    server.change("stale", replicas=2)
    server.until("stale", lambda s: s.get("replicas") == 2, "after scaling to 2")
    # phase4:stub
    # raise NotImplementedError
    # phase4:end


def status(server: Server) -> None:
    """There is a status, and it speaks of the WebApp's generation."""
    # phase4:solution
    generation = server.create("status", replicas=1)["metadata"]["generation"]
    server.until("status", lambda s: s.get("observedGeneration") == generation, "a while later")
    # phase4:stub
    # raise NotImplementedError
    # phase4:end


def schema(server: Server) -> None:
    """The operator's condition is stored, and it is content with the Pod as the server has it."""
    # phase4:solution
    server.create("schema", replicas=1)
    server.until(
        "schema",
        lambda s: [c for c in s.get("conditions") or () if c["type"] == "Ready"],
        "a condition Ready is missing",
    )
    server.until("schema", lambda s: s.get("readyReplicas") == 1, "one Pod is wanted")
    # phase4:stub
    # raise NotImplementedError
    # phase4:end


def visible(server: Server) -> None:
    """For two replicas, two Pods are made, ever."""
    # phase4:solution
    seen = server.pods_ever()
    server.create("visible", replicas=2)
    server.until("visible", lambda s: s.get("readyReplicas", 0) >= 2, "two Pods are wanted")
    quiet, before = 0, len(seen)
    while quiet < 10:
        time.sleep(0.2)
        quiet, before = (quiet + 1, before) if len(seen) == before else (0, len(seen))
    if len(seen) != 2:
        raise Red(f"{len(seen)} Pods were made for 2 replicas")
    # phase4:stub
    # raise NotImplementedError
    # phase4:end


if __name__ == "__main__":
    try:
        {"stale": stale, "status": status, "schema": schema, "visible": visible}[sys.argv[1]](
            Server()
        )
    except Red as red:
        print(f"red: {red}", flush=True)
        sys.exit(1)
    except NotImplementedError:
        print("this assertion is not written yet", file=sys.stderr)
        sys.exit(2)
    print("green", flush=True)
