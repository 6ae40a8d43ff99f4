"""``python -m grader``, and what the launcher runs (as a folder, so that no PYTHONPATH
of ours leaks into a learner's programs)."""

import os
import sys

# Where the environment forbids compiled files (many containers do), every start
# would compile rich and typer again, which is most of its time. These are in our
# own folder.
sys.dont_write_bytecode = False

if not __package__:
    from pathlib import Path

    sys.path[0] = str(Path(__file__).resolve().parent.parent)

try:
    from grader.cli.app import main
except ImportError as error:
    from grader.bootstrap import packages_missing

    packages_missing(error)
os.environ.pop("PHASE4_BROKEN", None)

main()
