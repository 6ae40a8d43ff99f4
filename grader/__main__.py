"""``python -m grader``, and what the launcher runs (as a folder, so that no PYTHONPATH
of ours leaks into a learner's programs)."""

import sys

if not __package__:
    from pathlib import Path

    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from grader.cli.app import main

main()
