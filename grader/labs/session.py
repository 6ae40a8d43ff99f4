"""The process in which a grader runs: ``python -I session.py request.json``.

It is a process of its own so that a grader that crashes, hangs or exits takes
nobody with it, and so that nothing of the caller's environment (``PYTHONPATH``,
``PYTEST_ADDOPTS``, a ``conftest.py``, an installed pytest plugin) has a say.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_LABS = Path(__file__).resolve().parent


def main(argv: list[str]) -> int:
    """Run one request; returns pytest's exit code. The verdicts are in its report."""
    sys.path.insert(0, str(_LABS.parent.parent))
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "PYTHON"))]:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

    import pytest

    from grader.labs import plugin
    from grader.labs.request import Request

    request = Request.load(Path(argv[0]))
    return int(
        pytest.main(
            [
                str(request.grader),
                f"--rootdir={request.grader.parent}",
                f"--config-file={_LABS / 'pytest.ini'}",
                "--noconftest",
                "--assert=plain",
                "--tb=short",
                "--color=no",
                "-p",
                "no:cacheprovider",
                "-p",
                "pytest_jsonreport.plugin",
                # More than one value may follow, so another option has to end it.
                "--json-report-omit",
                *("collectors", "log", "traceback", "streams", "warnings", "keywords"),
                "--json-report",
                f"--json-report-file={request.report}",
            ],
            plugins=[plugin.Plugin(request)],
        )
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
