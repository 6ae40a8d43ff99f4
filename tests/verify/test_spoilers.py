"""A starter that gives away the answer of a lab to come is found, and nothing else is."""

from __future__ import annotations

import textwrap
from pathlib import Path, PurePath

import pytest

from grader.verify.spoilers import (
    Starter,
    answers_in,
    answers_of,
    significant,
    spoilers,
    starters_of,
)

ORDER = ["1.1", "1.2", "1.3"]

SOURCE = """\
class Queue:
    def add(self, key):
        # phase4:solution 1.2
        with self.lock:
            if key in self.dirty:
                return
            self.dirty.add(key)
            self.ready.append(key)
        # phase4:stub
        # raise NotImplementedError("add is not written yet")
        # phase4:end
"""
PATH = PurePath("parts/queue.py")
GIVEN = """\
def put(self, key):
    '''Not the same function, and laid out otherwise.'''

    with  self.lock:
      if key in self.dirty:
          return   # so it is
      # a comment
      if key in self.dirty:
          return
      self.dirty.add(key)
      self.ready.append(key)
"""


def found(text: str, lab: str = "1.1", source: str = SOURCE, name: str = "a.py", **options) -> list:
    answers = list(answers_in(source, PATH.with_suffix(PurePath(name).suffix), ""))
    starter = Starter(PurePath(name), lab, text)
    return [str(one) for one in spoilers([starter], answers, ORDER, **options)]


def test_the_answer_of_a_later_lab_is_found_however_it_is_laid_out():
    want = ["a.py:8: 3 lines of 1.2's answer (parts/queue.py:3)"]
    assert found(GIVEN) == want


def test_a_longer_run_is_reported_once_and_whole():
    answer = SOURCE.replace("self.ready.append(key)", "self.ready.append(key)\n        self.wake()")
    text = GIVEN + "      self.wake()\n"
    assert found(text, source=answer) == ["a.py:8: 4 lines of 1.2's answer (parts/queue.py:3)"]


def test_two_runs_of_one_answer_are_two():
    assert len(found(GIVEN + "      apart()\n" + GIVEN)) == 2


@pytest.mark.parametrize(("lab", "count"), [("", 1), ("1.1", 1), ("1.2", 1), ("1.3", 0)])
def test_what_a_lab_before_asked_for_may_be_given(lab, count):
    assert len(found(GIVEN, lab)) == count


def test_a_region_of_several_labs_is_an_answer_until_the_last_of_them():
    source = SOURCE.replace("phase4:solution 1.2", "phase4:solution 1.1,1.3")
    assert found(GIVEN, "1.3", source) == [
        "a.py:8: 3 lines of 1.1 and 1.3's answer (parts/queue.py:3)"
    ]


def test_fewer_lines_are_no_spoiler():
    assert found(GIVEN, run=4) == []
    assert found(GIVEN.replace("self.ready.append(key)", "self.later.append(key)")) == []


def test_what_the_regions_own_stub_gives_is_no_answer():
    stub = "\n".join(f"        # {line.strip()}" for line in GIVEN.splitlines()[7:])
    source = SOURCE.replace('        # raise NotImplementedError("add is not written yet")', stub)
    assert "raise" not in source
    assert found(GIVEN, source=source) == []


def test_lines_that_any_program_has_do_not_count():
    text = """
    // first
    import (
        "context"
        other "fmt"
    )
    if err != nil {
        return nil, err
    }
    } else {
    queue.Add(key)
    """
    assert significant(textwrap.dedent(text), PurePath("a.go")) == [(11, "queue.Add(key)")]
    text = '''
    """One
    import line
    """
    from a import b
    r"""Another"""
    else:
        return self
    keys.pop()
    '''
    assert significant(textwrap.dedent(text), PurePath("a.py")) == [(9, "keys.pop()")]


def test_prose_is_compared_too():
    source = "<!-- phase4:solution 1.3 -->\nOne thing.\n\nTwo things.\nThree things.\n"
    source += "<!-- phase4:stub -->\n<!-- TODO -->\n<!-- phase4:end -->\n"
    text = "# Page\n\nOne thing.\nTwo things.\n\nThree  things.\n"
    assert found(text, source=source, name="a.md") == [
        "a.md:3: 3 lines of 1.3's answer (parts/queue.md:1)"
    ]


def test_a_file_that_is_the_answers_alone_is_one_region():
    (answer,) = answers_in("# phase4:omit\na.b()\nc.d()\ne.f()\n", PurePath("x.py"), "1.2")
    starter = Starter(PurePath("y.py"), "1.1", "a.b()\nc.d()\ne.f()\n")
    (one,) = spoilers([starter], [answer], ORDER)
    assert (one.lab, one.line, one.answer.place) == ("1.1", 1, "x.py:1")


@pytest.mark.parametrize(("lab", "said"), [("", "names no lab"), ("9.9", "has no lab 9.9")])
def test_a_region_without_a_lab_of_the_course_is_said(lab, said):
    answers = answers_in(SOURCE.replace(" 1.2", ""), PATH, lab)
    with pytest.raises(ValueError, match=f"parts/queue.py:3: .*{said}"):
        spoilers([], answers, ORDER)


def test_folders_are_read_through_links_and_each_answer_once(tmp_path: Path):
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    part = write("parts/queue.py", SOURCE)
    own = SOURCE.replace("phase4:solution 1.2", "phase4:solution")
    write("solutions/1.3/common/own.py", own.replace("dirty", "mine"))
    write("solutions/1.3/variants/other/own.py", own.replace("dirty", "others"))
    (tmp_path / "solutions/1.2").mkdir()
    (tmp_path / "solutions/1.2/queue.py").symlink_to(part)
    answers = answers_of([tmp_path / "solutions", tmp_path / "parts"], tmp_path, ORDER)
    assert [(one.place, one.labs) for one in answers] == [
        ("solutions/1.3/common/own.py:3", ("1.3",)),
        ("parts/queue.py:3", ("1.2",)),
    ]
    write("exercises/machinery/given.py", GIVEN)
    write("exercises/1.3/given.py", GIVEN)
    (tmp_path / "exercises/1.1").symlink_to(tmp_path / "exercises/machinery")
    (tmp_path / "exercises/picture.png").write_bytes(b"\x89PNG\xff")
    starters = starters_of(tmp_path / "exercises", ORDER)
    assert {(str(one.path), one.lab) for one in spoilers(starters, answers, ORDER)} == {
        ("machinery/given.py", ""),
        ("1.1/given.py", "1.1"),
    }
