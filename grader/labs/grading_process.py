"""The process in which a grader runs: ``python -I grading_process.py request.json``.

It is a process of its own so that a grader that crashes, hangs or exits takes
nobody with it, and so that nothing of the caller's environment (``PYTHONPATH``,
``PYTEST_ADDOPTS``, a ``conftest.py``, an installed pytest plugin) has a say.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

_LABS = Path(__file__).resolve().parent

#: Plugins of pytest's own that no grader uses: a part of its start.
_UNUSED = "cacheprovider doctest junitxml pastebin unittest".split()

#: Seconds for the clean-up of a grader whose caller has gone away.
_GRACE = 15.0


def main(argv: list[str]) -> int:
    """Run one request; returns pytest's exit code. The verdicts are in its report."""
    # Started by a caller that ignores Ctrl-C (nohup, a job in the background), a
    # process would ignore it as well, and never hear that it is to clean up.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, str(_LABS.parent.parent))
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "PYTHON"))]:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

    import pytest

    from grader.labs import fixtures, plugin
    from grader.labs.grading_request import Request

    request = Request.load(Path(argv[0]))
    # A descriptor of our own: pytest puts /dev/null in the place of the first one.
    arguments = (os.dup(0), request.marker)
    threading.Thread(target=_end_with_the_caller, args=arguments, daemon=True).start()
    # To pytest a `[` or `::` in an argument begins a test's name: the file is named
    # from its own folder, whatever that is called. The plugin goes back.
    os.chdir(request.grader.parent)
    return int(
        pytest.main(
            [
                f"./{request.grader.name}",
                "--rootdir=.",
                f"--config-file={_LABS / 'pytest.ini'}",
                "--noconftest",
                "--assert=plain",
                "--tb=short",
                "--color=no",
                *(word for name in _UNUSED for word in ("-p", f"no:{name}")),
                "-p",
                "pytest_jsonreport.plugin",
                # More than one value may follow, so another option has to end it.
                "--json-report-omit",
                *("collectors", "log", "traceback", "streams", "warnings", "keywords"),
                "--json-report",
                f"--json-report-file={request.report}",
            ],
            plugins=[plugin.Plugin(request), fixtures],
        )
    )


def _end_with_the_caller(descriptor: int, marker: str) -> None:
    """Wait for the end of what was standard input, which the caller holds open, and end as by Ctrl-C.

    However the caller ended, the grader's fixtures then clean up after
    themselves; where they do not in time, the programs are ended from here.
    """
    while os.read(descriptor, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_GRACE)
    from grader.cluster.process import end_marked
    from grader.labs.grading_request import MARKER

    end_marked(MARKER, marker)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
