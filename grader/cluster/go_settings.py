"""The settings of every Go build: the course's own, with the user's network and caches.

What a person has set for their own work (``GOFLAGS=-mod=vendor``, ``GOOS``, a
``go.work`` in a parent folder, ``go env -w``) must not decide whether an answer
builds here. Where modules come from and where they are kept is for the user to
say, in the environment or with ``go env -w``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

#: The user's to say: the network, the caches, how much of the machine Go may take.
KEPT = frozenset(
    "GOAUTH GOINSECURE GONOPROXY GONOSUMDB GONOSUMCHECK GOPRIVATE GOPROXY GOSUMDB GOVCS "
    "GOCACHE GOCACHEPROG GOMODCACHE GOPATH GOTOOLCHAIN GOGC GOMAXPROCS GOMEMLIMIT".split()
)

#: Any other variable that Go or its C tool chain reads.
_GOS = re.compile(r"GO[A-Z0-9]+|GO_EXTLINK_ENABLED|CGO_\w+|AR|CC|CXX|FC|GCCGO|PKG_CONFIG")

_OURS = {"CGO_ENABLED": "0", "GOENV": "off", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a Go build: one set of flags, one build cache.

    ``base`` is what else is in it (this process's environment when left out).
    """
    outside = os.environ if base is None else base
    rest = {name: value for name, value in outside.items() if not _GOS.fullmatch(name)}
    kept = {name: value for name, value in _written().items() if name in KEPT}
    kept |= {name: os.environ[name] for name in KEPT if os.environ.get(name)}
    if toolchain := kept.get("GOTOOLCHAIN", ""):
        # Whether another tool chain may be looked for is the user's to say; which one is not.
        where = toolchain.rpartition("+")[2]
        kept["GOTOOLCHAIN"] = where if where in ("local", "path") else "auto"
    return {**rest, **kept, **_OURS}


def _written() -> dict[str, str]:
    """What the user has set with ``go env -w``; empty where nothing can be read."""
    named = os.environ.get("GOENV", "")
    if named == "off":
        return {}
    home = Path(os.path.expanduser("~"))
    if sys.platform == "darwin":
        config = home / "Library" / "Application Support"
    else:
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    try:
        text = Path(named or config / "go" / "env").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = (line.strip().partition("=") for line in text.splitlines())
    return {name: value for name, equals, value in lines if equals}
