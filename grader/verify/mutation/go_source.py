"""Every small change of a Go file: what ``gosource/main.go`` finds in its syntax tree."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from grader.cluster import go_settings
from grader.verify.mutation.edits import Edit, numbered

_PROGRAM = Path(__file__).parent / "gosource" / "main.go"


def edits(root: Path, files: Sequence[str]) -> list[Edit]:
    """The changes of these files below ``root``. Some do not build: whoever builds them sees."""
    done = subprocess.run(
        ["go", "run", str(_PROGRAM), str(root), *files],
        capture_output=True,
        text=True,
        check=True,
        env=go_settings.environment(),
    )
    return numbered(Edit(**json.loads(line)) for line in done.stdout.splitlines())
