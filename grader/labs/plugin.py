"""The pytest plugin that turns what a grader does into verdicts, and fails closed.

A check that returns None is PASS. One that raises an
:class:`~grader.verdict.Outcome` is that outcome, whether it raised it itself or
one of its fixtures did. Everything else — any other exception, a skip, a value
returned, a time limit passed, a cluster that went away meanwhile — is UNKNOWN:
its traceback goes to the run's log, and the learner reads that it was not their
work that failed.

What was concluded travels in pytest-json-report's per-test metadata, one entry
a phase, each a string of JSON: metadata that cannot be serialised would be
dropped as a whole, and a phase without an entry is what the reader takes for
«never got there» (see :mod:`grader.labs.grading`).
"""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import _pytest
import pluggy
import pytest

from grader.cluster.errors import EnvironmentProblem
from grader.cluster.refusals import refusal
from grader.labs.grading_request import Request
from grader.verdict import Outcome, Unknown, Verdict

#: Where pytest's own frames come from: of no use in a log.
_MACHINERY = tuple(os.path.dirname(module.__file__) + os.sep for module in (_pytest, pluggy))


class CheckTimedOut(BaseException):
    """A phase of a check took longer than it may. Not an Exception: a grader must not catch it."""


class Measurements:
    """What ``observe`` is: puts measured values and pictures into the report.

    ``observe("gaps", [0.1, 0.2])`` notes a value under the check that is
    running. A value is JSON (no NaN); a picture is
    ``{"svg": "<svg …>", "alt": "…"}``. Anything else raises TypeError or
    ValueError at once, in the grader, where it can be found.
    """

    def __init__(self) -> None:
        self.current: list[dict[str, Any]] = []

    def __call__(self, name: str, value: Any) -> None:
        json.dumps(value, allow_nan=False)
        self.current.append({"name": str(name), "value": value})


class Plugin:
    """One session: one lab, one submission."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.observe = Measurements()
        #: Added to by fixtures: functions that say what is wrong with what a check
        #: looked at (a cluster that died, a record with a hole), or "". Asked after
        #: every check that uses the cluster: one that passed because nothing was
        #: written has seen nothing if nothing could have been written.
        self.troubles: list[Callable[[], str]] = []
        self._trouble = ""

    def pytest_configure(self, config: pytest.Config) -> None:
        config.phase4 = self  # type: ignore[attr-defined]
        os.chdir(self.request.run_dir)

    # -- collecting ---------------------------------------------------------

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Every function collected is a check of this lab, and each id is used once.

        Those that nobody asks for are left out.
        """
        seen: set[str] = set()
        for item in items:
            declared = _declared(item)
            if declared is None:
                raise pytest.UsageError(f"{item.nodeid} has no @check(...)")
            if not declared["id"].startswith(f"{self.request.lab}/"):
                raise pytest.UsageError(f"{declared['id']} is not a check of {self.request.lab}")
            if declared["id"] in seen:
                raise pytest.UsageError(f"the check id {declared['id']} is used twice")
            seen.add(declared["id"])
        items[:] = [item for item in items if self.request.asks_for(_declared(item)["id"])]  # type: ignore[index]

    # -- running ------------------------------------------------------------

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self.observe.current = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        self._tell({"check": _declared(item)["id"], "state": "running"})  # type: ignore[index]
        if self._trouble and _uses_cluster(item):
            raise self._in_trouble(f"{self._trouble}, during an earlier check.")
        with self._limited(f"the fixtures of {item.nodeid}"):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Call the check. It says PASS by returning None: ``return False`` is a slip of ours."""
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        returned = pyfuncitem.obj(**arguments)
        if returned is not None:
            raise TypeError(f"{pyfuncitem.nodeid} returned {returned!r} instead of raising")
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        with self._limited(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        with self._limited(f"the clean-up of {item.nodeid}"):
            return (yield)

    @contextmanager
    def untimed(self, what: str) -> Iterator[None]:
        """Stop the clock of the phase for something with a limit of its own, and say what it is."""
        self._tell({"say": what})
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, left)

    @contextmanager
    def _limited(self, what: str) -> Iterator[None]:
        def out_of_time(number: int, frame: object) -> None:
            raise CheckTimedOut(f"{what} took longer than {self.request.check_seconds:g} s")

        before = signal.signal(signal.SIGALRM, out_of_time)
        signal.setitimer(signal.ITIMER_REAL, self.request.check_seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    # -- concluding ---------------------------------------------------------

    def pytest_json_runtest_metadata(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> dict[str, str]:
        """One entry for each phase, and the check's own id, all strings."""
        declared = _declared(item)
        error = call.excinfo.value if call.excinfo is not None else None
        entry: dict[str, Any] = {"verdict": Verdict.PASS.value, "message": None}
        if (outcome := self._outcome(item, error)) is not None:
            entry = {"verdict": outcome.verdict.value, "message": outcome.message.to_json()}
        metadata = {"id": declared["id"] if declared else "", f"phase {call.when}": _dump(entry)}
        metadata["observations"] = _dump(self.observe.current)
        return metadata

    def _outcome(self, item: pytest.Item, error: BaseException | None) -> Outcome | None:
        """The verdict that an exception means, None for PASS."""
        if not isinstance(error, Unknown) and _uses_cluster(item):
            # A grader that looks at a dead cluster sees a program that did
            # nothing: what it concludes then is not about the submission.
            if trouble := self._found_trouble():
                if error is not None:
                    self._log(item, error)
                return self._in_trouble(f"{trouble}. That says nothing about your work.")
        if error is None:
            return None
        if isinstance(error, Outcome):
            return error
        self._log(item, error)
        if problem := str(error) if isinstance(error, EnvironmentProblem) else refusal(error):
            return Unknown(
                expected="This machine can do what the check needs.",
                seen=f"{problem} That says nothing about your work.",
                next="`phase4 doctor` says what is missing and how to get it.",
                diagnosis="environment",
            )
        if isinstance(error, CheckTimedOut):
            return Unknown(
                expected="The grader reaches a verdict in time.",
                seen=f"It was still running after {self.request.check_seconds:g} s and was stopped. "
                "That says nothing about your work.",
                next=_report_it(self.request),
                diagnosis="grader-timed-out",
            )
        return grader_failed(type(error).__name__, self.request)

    def _found_trouble(self) -> str:
        for ask in self.troubles:
            self._trouble = self._trouble or ask()
        return self._trouble

    def _in_trouble(self, seen: str) -> Unknown:
        return Unknown(
            expected="The control plane runs while your work is graded.",
            seen=seen,
            next="Run the same command again: it restarts whatever died.",
            diagnosis="cluster-died",
        )

    def _log(self, item: pytest.Item, error: BaseException) -> None:
        report = traceback.TracebackException.from_exception(error)
        report.stack = traceback.StackSummary.from_list(
            frame for frame in report.stack if not frame.filename.startswith(_MACHINERY)
        )
        with self.request.log.open("a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"--- {item.nodeid}\n")
            log.writelines(report.format())

    def _tell(self, news: dict[str, str]) -> None:
        """A line for whoever waits for us, if anybody does."""
        if self.request.progress_fd < 0:
            return
        try:
            os.write(self.request.progress_fd, (json.dumps(news) + "\n").encode())
        except OSError:
            pass


def grader_failed(why: str, request: Request) -> Unknown:
    """The sentence for a fault of ours."""
    return Unknown(
        expected="The grader reaches a verdict.",
        seen=f"The grader itself failed ({why}). That says nothing about your work.",
        next=_report_it(request),
        diagnosis="grader-failed",
    )


def _report_it(request: Request) -> str:
    """What to do about a fault of ours: the file to send along is named where there is one."""
    there = (
        path for path in (request.log, request.output) if path.is_file() and path.stat().st_size
    )
    log = next(there, None)
    return "Run it again; if it repeats, report it" + (f" with {log}." if log else ".")


def _declared(item: pytest.Item) -> dict[str, Any] | None:
    return getattr(getattr(item, "function", None), "phase4_check", None)


def _uses_cluster(item: pytest.Item) -> bool:
    return "cluster" in getattr(item, "fixturenames", ())


def _dump(value: Any) -> str:
    return json.dumps(value, default=repr)
