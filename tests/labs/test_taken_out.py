"""A statement is taken out whole, and what is no statement is said to be none."""

from __future__ import annotations

import ast

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


@pytest.mark.parametrize("line", [4, 14])
def test_what_has_a_value_can_be_carried_out_without_it(line):
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
    (text,) = taken_out("a.go", GO, 13).texts
    assert 'ok, err := phase4Nothing(c.tried)(key, f(1, "a)"))' not in text
    assert "ok, err := phase4Nothing(c.tried)" in text
    assert "[A0, A1, R0, R1 any]" in text
    assert "return phase4Nothing(c.putBack)(key)" in taken_out("a.go", GO, 19).texts[0]


@pytest.mark.parametrize("line", [1, 2, 3, 14, 15, 17, 20, 99])
def test_what_does_nothing_by_itself_is_not_taken_out_of_go(line):
    with pytest.raises(NotTakenOut):
        taken_out("a.go", GO, line)


def test_no_other_file_is_a_program():
    with pytest.raises(NotTakenOut):
        taken_out("answers.md", "# A\n", 1)
