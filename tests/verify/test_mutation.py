"""Mutants: every change is a small one, has a name of its own, and makes a program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.verdict import Verdict
from grader.verify.mutation import go_source, python_source, score
from grader.verify.mutation.edits import Edit
from grader.verify.mutation.score import Ledger, Outcome

PYTHON = '''"""A module."""

import os


def heard(old, new):
    """Of a change."""
    if old["image"] == new["image"] and not os.environ:
        return
    log.info("told")
    try:
        queue.add(new["name"], delay=5)
    except KeyError:
        queue.again()
        raise
    status["ready"] = {"a": 1, "b": True}
'''

GO = """package main

func heard(old, new *Pod) error {
	if old.Image == new.Image && !quiet {
		return nil
	}
	klog.Info("told")
	if err := queue.Add(new.Name, 5); err != nil {
		return err
	}
	status = map[string]int{"a": 1, "b": 2}
	return nil
}
"""


def changes(edits: list[Edit]) -> set[tuple[str, str, str]]:
    return {(edit.kind, edit.before, edit.after) for edit in edits}


def test_the_changes_of_a_python_file(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(PYTHON)
    found = python_source.edits(tmp_path, "m.py")
    seen = changes(found)
    test = 'old["image"] == new["image"] and not os.environ'
    assert {
        ("always", test, f"(({test}) or True)"),
        ("never", test, f"(({test}) and False)"),
        ("operand", test, "(not os.environ)"),
        ("operand", test, '(old["image"] == new["image"])'),
        ("compare", 'old["image"] == new["image"]', 'old["image"] != new["image"]'),
        ("old-new", "old", "new"),
        ("old-new", "new", "old"),
        ("drop", "return", "pass"),
        ("drop", 'queue.add(new["name"], delay=5)', "pass"),
        ("entry", "delay=5", ""),
        ("constant", "5", "0"),
        ("swallow", "queue.again()\n        raise", "pass"),
        ("drop", "raise", "pass"),
        ("entry", '"a": 1,', ""),
        ("constant", "True", "False"),
    } <= seen
    assert not any("told" in before or "import" in before for _, before, _ in seen)
    assert len({edit.id for edit in found}) == len(found)


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go here")
def test_the_changes_of_a_go_file(tmp_path: Path) -> None:
    (tmp_path / "m.go").write_text(GO)
    found = go_source.edits(tmp_path, ["m.go"])
    seen = changes(found)
    assert {
        ("always", "err != nil", "((err != nil) || true)"),
        ("never", "err != nil", "((err != nil) && false)"),
        ("operand", "old.Image == new.Image && !quiet", "(!quiet)"),
        ("compare", "old.Image == new.Image", "old.Image != new.Image"),
        ("old-new", "old", "new"),
        ("swallow", "err", "nil"),
        ("entry", '"a": 1,', ""),
        ("constant", "5", "(5 + 1)"),
    } <= seen
    assert not any("told" in before for _, before, _ in seen)
    assert len({edit.id for edit in found}) == len(found)


def test_an_id_stays_when_lines_move_and_names_the_right_one_of_two_alike(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def f():\n    g(1)\n    h()\n    g(1)\n")
    before = python_source.edits(tmp_path, "m.py")
    (tmp_path / "m.py").write_text("# moved\n\n\ndef f():\n    g(1)\n    h()\n    g(1)\n")
    after = python_source.edits(tmp_path, "m.py")
    assert [edit.id for edit in before] == [edit.id for edit in after]
    second = [edit for edit in after if edit.kind == "drop" and edit.before == "g(1)"][1]
    second.apply(tmp_path)
    assert (tmp_path / "m.py").read_text().endswith("    g(1)\n    h()\n    pass\n")
    with pytest.raises(ValueError, match="does not have"):
        second.apply(tmp_path)


def outcome(edit: Edit, verdict: Verdict, by: str = "") -> Outcome:
    return Outcome(edit.id, verdict.value, by, "name", 1.0, edit.shown)


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def f():\n    g()\n    h()\n    i()\n")
    edits = python_source.edits(tmp_path, "m.py")
    ledger = Ledger(tmp_path / "l.jsonl")
    ledger.add(outcome(edits[0], Verdict.FAIL, "functional/create"))
    ledger.add(outcome(edits[1], Verdict.UNKNOWN))
    with ledger.path.open("a") as file:
        file.write('{"id": "half a li')
    again = Ledger(ledger.path)
    assert again.open(edits) == edits[1:]
    assert again.likeliest(edits[2]) == ["functional/create"]


def test_a_mutant_that_lives_counts_unless_there_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.py").write_text("def f():\n    g()\n    h()\n    i()\n")
    edits = python_source.edits(tmp_path, "m.py")
    ledger = Ledger(tmp_path / "l.jsonl")
    for edit, verdict in zip(edits, (Verdict.FAIL, Verdict.PASS, Verdict.PASS), strict=True):
        ledger.add(outcome(edit, verdict, "x/y" if verdict is Verdict.FAIL else ""))
    monkeypatch.setattr(score, "reasons", lambda: {edits[1].id: "It is the same."})
    result = score.score("m", edits, ledger)
    assert (result.mutants, result.killed, result.excused) == (3, 1, 1)
    (line,) = result.open
    assert "i()" in line


def test_each_reason_names_a_mutant_that_there_is(tmp_path: Path) -> None:
    """An id of a change that is gone says nothing: it goes with it."""
    from grader.verify.mutation.targets import targets

    known = set()
    for target in targets():
        if target.track == "go" and shutil.which("go") is None:
            return
        known |= {edit.id for edit in target.edits(target.lay_out(tmp_path / target.name))}
    assert score.reasons().keys() <= known
