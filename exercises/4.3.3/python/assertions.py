"""Four assertions about an operator. ``assertions.py NAME`` ends with 0 for green, 1 for red."""

from __future__ import annotations

import sys
import time

from server import Red, Server


def stale(server: Server) -> None:
    """The operator's second status gets through as well as its first."""
    raise NotImplementedError


def status(server: Server) -> None:
    """There is a status, and it speaks of the WebApp's generation."""
    raise NotImplementedError


def schema(server: Server) -> None:
    """The operator's condition is stored, and it is content with the Pod as the server has it."""
    raise NotImplementedError


def visible(server: Server) -> None:
    """For two replicas, two Pods are made, ever."""
    raise NotImplementedError


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
