"""Wires in use, found from outside by the ``wire.json`` that each keeps while it is open."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grader.wire import control


def in_use(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """What ``wire.json`` says of each wire under ``folders`` that answers, the oldest first.

    Fields: ``client``, ``pid``, ``url``, ``unix_socket``, ``control_socket``,
    ``record`` (paths), ``opened`` (seconds since the epoch).
    """
    found = []
    for folder in folders:
        for path in Path(folder).glob("**/wire.json"):
            try:
                about = json.loads(path.read_text())
                control.ask(Path(about["control_socket"]), {"op": "list"})
            except (OSError, ValueError, KeyError, control.NoWire):
                continue  # left behind by a command that was killed
            found.append(about)
    return sorted(found, key=lambda about: about["opened"])
