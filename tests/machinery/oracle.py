"""The oracle as a process that answers traces, built once for each test run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def given_oracle() -> Path | None:
    """The binary that ``$PHASE4_ORACLE`` names, if it does."""
    given = os.environ.get("PHASE4_ORACLE")
    return Path(given) if given else None


def build(folder: Path) -> Path:
    """Build the oracle into ``folder`` with Go's cache; its path. Skips the test without a Go."""
    if shutil.which("go") is None:
        pytest.skip("no Go here, and the oracle is built with it")
    binary = folder / "oracle"
    result = subprocess.run(
        # Without the debugger's tables it links in half the time.
        ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(binary), "."],
        cwd=ROOT / "oracle",
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        pytest.fail(f"the oracle does not build:\n{result.stderr}")
    return binary


class Oracle:
    """client-go's answers. One process; one trace after another."""

    def __init__(self, binary: Path) -> None:
        self._binary = binary
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [str(self._binary)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, trace: dict[str, Any]) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps(trace) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            _, errors = self._process.communicate()
            self._start()
            raise RuntimeError(f"the oracle died on {json.dumps(trace)}:\n{errors}")
        return json.loads(line)

    def close(self) -> None:
        self._process.communicate()
