"""A statement is taken out whole, and what is no statement is said to be none."""

from __future__ import annotations

import ast
import shutil
import subprocess

import pytest

from grader.labs.taken_out import NotTakenOut, taken_out

PYTHON = """\
def work(queue, key):
    '''Words.'''
    try:
        outcome = reconcile(key)
    except Exception as error: queue.add(key); log(error)
    else:
        queue.forget(
            key,
        )
    again[key] = 1
    flag = True
    if flag:
        raise Failed(key)
    return queue.put_back(
        key)
"""
GO = """\
package a

func (c *C) work(key string) (err error) {
\ttime.AfterFunc(d, func() {
\t\tc.queue.Add(key) // not "this (
\t})
\tc.queue.AddAfter(
\t\tkey, /* or
\t\tthat */
\t\td,
\t)
\tc.retry <- key
\tok, err := c.tried(key, f(1, "a)"))
\tif err != nil {
\t\tpanic(`x(
`)
\t}
\tdefer c.queue.Done(key)
\treturn c.putBack(key)
}
"""


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        (4, "reconcile(key)"),
        (5, "queue.add(key); log(error)"),
        (7, "forget"),
        (8, "forget"),
        (9, "forget"),
        (10, "again[key] = 1"),
        (14, "put_back"),
        (15, "put_back"),
    ],
)
def test_a_python_statement_is_taken_out_from_any_of_its_lines(line, gone):
    (text,) = taken_out("a.py", PYTHON, line).texts
    ast.parse(text)
    assert gone in PYTHON and gone not in text
    rest = [each for each in ("reconcile", "forget", "again", "put_back") if each not in gone]
    assert all(each in text for each in rest)


@pytest.mark.parametrize("line", [4, 8, 14])
def test_what_gives_or_raises_something_can_be_carried_out_without_it(line):
    (kept,) = taken_out("a.py", PYTHON, line).effect_kept
    ast.parse(kept)
    assert "reconcile(key)" in kept and "put_back" in kept


@pytest.mark.parametrize(
    ("line", "why"),
    [(1, "decides"), (2, "string"), (3, "decides"), (6, "no"), (11, "variable"), (13, "raises")],
)
def test_what_does_nothing_by_itself_is_not_taken_out_of_python(line, why):
    with pytest.raises(NotTakenOut, match=why if why != "no" else "decides|no statement"):
        taken_out("a.py", PYTHON, line)


@pytest.mark.parametrize(
    ("line", "statement"),
    [
        (4, 'time.AfterFunc(d, func() {\n\t\tc.queue.Add(key) // not "this (\n\t})'),
        (5, 'c.queue.Add(key) // not "this ('),
        (7, "c.queue.AddAfter("),
        (9, "c.queue.AddAfter("),
        (11, "c.queue.AddAfter("),
        (12, "c.retry <- key"),
        (18, "defer c.queue.Done(key)"),
    ],
)
def test_a_go_statement_is_never_carried_out(line, statement):
    (text,) = taken_out("a.go", GO, line).texts
    before = text.index("if false {")
    assert text[before + 10 :].lstrip().startswith(statement)


def test_a_go_value_is_replaced_by_a_zero_of_its_type():
    text = taken_out("a.go", GO, 13).texts[0]
    assert 'ok, err := phase4Nothing(c.tried)(key, f(1, "a)"))' in text
    assert '_, _ = c.tried(key, f(1, "a)"))' in taken_out("a.go", GO, 13).effect_kept[0]
    assert "[A0, A1, R0, R1 any]" in text
    assert "return phase4Nothing(c.putBack)(key)" in taken_out("a.go", GO, 19).texts[0]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go on this machine")
@pytest.mark.parametrize(
    ("call", "results"),
    [
        ("one(1)", "error"),
        ("two(1, `a`)", "(int, error)"),
        ("fmt.Errorf(`%w %d`, err, 1)", "error"),
        ("many(1, 2, 3)", "(int, int, int)"),
    ],
)
def test_a_go_program_builds_without_a_value(tmp_path, call, results):
    text = (
        'package main\n\nimport "fmt"\n\nvar err = fmt.Errorf(`e`)\n\n'
        "func one(a int) error { return err }\n"
        "func two(a int, b string) (int, error) { return a, err }\n"
        "func many(a ...int) (int, int, int) { return 1, 2, 3 }\n"
        f"func work() {results} {{\n\treturn {call}\n}}\n\nfunc main() {{ work(); one(1) }}\n"
    )
    (tmp_path / "go.mod").write_text("module a\n\ngo 1.24\n")
    line = text.split("\n").index(f"\treturn {call}") + 1
    without = taken_out("main.go", text, line)

    def builds(changed):
        (tmp_path / "main.go").write_text(changed)
        command = ["go", "vet", "."]
        return subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0

    assert any(builds(changed) for changed in without.texts)
    assert any(builds(changed) for changed in without.effect_kept)


@pytest.mark.parametrize("line", [1, 2, 3, 14, 15, 17, 20, 99])
def test_what_does_nothing_by_itself_is_not_taken_out_of_go(line):
    with pytest.raises(NotTakenOut):
        taken_out("a.go", GO, line)


def test_no_other_file_is_a_program():
    with pytest.raises(NotTakenOut):
        taken_out("answers.md", "# A\n", 1)
