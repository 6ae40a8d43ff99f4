"""The one line of a log that says why a component ended."""

from __future__ import annotations

import json

import pytest

from grader.cluster import logs

STACK = "main.main\n\tgo.etcd.io/etcd/main.go:31\nruntime.main\n\truntime/proc.go:290 failed"


def zap(level: str, message: str, **fields: str) -> str:
    return json.dumps({"level": level, "msg": message, **fields, "stacktrace": STACK})


PANIC = "panic: failed to open\n\ngoroutine 1 [running]:\nmain.failed(0x1, {0x2})\n\tx.go:1 +0x5\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "none"),
        ("one\ntwo\n", "two"),
        ("Error: unknown flag\nand its usage\n", "Error: unknown flag"),
        (zap("fatal", "too low", limit="128"), "too low"),
        (
            zap("panic", "failed to open", error="no memory") + "\n" + PANIC,
            "failed to open: no memory",
        ),
        (zap("warn", "a") + "\n" + zap("error", "b", error="c") + "\n" + zap("info", "d"), "b: c"),
        (
            '{"level":"ERROR","msg":"Execute exit","err":"bad argument"}',
            "Execute exit: bad argument",
        ),
        (PANIC, "panic: failed to open"),
        (
            'I1201 02:52:27.3 7 a.go:1] "Starting"\nE1201 02:52:27.4 7 run.go:72] "command failed" '
            'err="x"\nI1201 02:52:27.5 7 a.go:2] "Errors follow"\n',
            '"command failed" err="x"',
        ),
        ("F1201 02:52:27.4   7 a.go:1] first\nE1201 02:52:27.4   7 a.go:1] after\n", "first"),
        ('{"not": "of a log"', '{"not": "of a log"'),
        ("[1, 2]", "[1, 2]"),
    ],
)
def test_last_words(tmp_path, text, words):
    (tmp_path / "log").write_text(text)
    assert logs.last_words(tmp_path / "log") == words


def test_only_this_run_is_quoted(tmp_path):
    path = tmp_path / "log"
    with path.open("ab") as log:
        logs.begin(log, "etcd")
        log.write(b"Error: of the run before\n")
        logs.begin(log, "etcd")
    assert logs.last_words(path) == "none"
    with path.open("ab") as log:
        log.write(b"of this run\n")
    assert logs.last_words(path) == "of this run"
    with path.open("ab") as log:
        log.write(b"much\n" * 100_000)
    assert logs.last_words(path) == "much"


def test_no_log(tmp_path):
    assert logs.last_words(tmp_path / "absent") == "none"
