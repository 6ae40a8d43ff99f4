"""One version of each Go module in the whole repository.

A package that is built with another version of anything below it shares
nothing in the build cache: a learner's first Go lab would then take minutes
instead of seconds, and so would the tests.
"""

from __future__ import annotations

import re
import subprocess

from grader.course import ROOT

CONTROL_PLANE = "grader/cluster/modules/go.mod"
_REQUIRED = re.compile(r"^\s*(?:require\s+)?([\w.~/-]+\.[\w.~/-]+)\s+(v\S+)", re.MULTILINE)
#: What code generators alone need newer, for a binary that is no part of a build.
_GENERATORS = {"github.com/google/gnostic-models", "go.yaml.in/yaml/v3"}


def _required(path: str) -> dict[str, str]:
    return dict(_REQUIRED.findall((ROOT / path).read_text(encoding="utf-8")))


def test_modules_agree_with_the_control_plane() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*go.mod"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert CONTROL_PLANE in listed
    pinned = _required(CONTROL_PLANE)
    assert pinned["k8s.io/kubernetes"] == "v1.37.2"
    differing = [
        f"{path}: {module} {version}, the control plane has {pinned[module]}"
        for path in listed
        for module, version in _required(path).items()
        if module in pinned
        and pinned[module] not in (version, "v0.0.0")
        and module not in _GENERATORS
    ]
    assert not differing, "\n".join(differing)
