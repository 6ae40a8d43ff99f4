"""Stubs come out of marked regions, and nothing of an answer comes with them."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from grader import cut
from grader.cut import CutError, render

PYTHON = """\
def pop(keys):
    # phase4:solution
    # The oldest first.
    return keys.pop(0)
    # phase4:stub
    # raise NotImplementedError(
    #     "hand out the oldest key"
    # )

    # phase4:end


# phase4:solution
SECRET = 1
# phase4:end
"""


def test_both_sides_of_a_file():
    path = PurePath("x.py")
    assert render(PYTHON, path, "stub") == (
        "def pop(keys):\n    raise NotImplementedError(\n"
        '        "hand out the oldest key"\n    )\n\n\n\n'
    )
    solution = render(PYTHON, path, "solution")
    assert "return keys.pop(0)" in solution and "SECRET" in solution
    assert "phase4" not in solution and "NotImplemented" not in solution


@pytest.mark.parametrize(
    ("name", "text", "stub"),
    [
        ("a.go", "// phase4:solution\nx()\n// phase4:stub\n// y()\n// phase4:end\n", "y()\n"),
        ("a.mmd", "%% phase4:solution\nA-->B\n%% phase4:stub\n%%   A\n%% phase4:end\n", "  A\n"),
        (
            "a.md",
            "<!-- phase4:solution -->\nx\n<!-- phase4:stub -->\n<!-- | a | b | -->\n"
            "<!-- phase4:end -->\n",
            "| a | b |\n",
        ),
        ("a.yaml", "#phase4:solution\nx: 1\n#phase4:stub\n#x: TODO\n#phase4:end\n", "x: TODO\n"),
        ("a.json", '{"phase4:solution": 1}\n', '{"phase4:solution": 1}\n'),
        ("go.mod", "module m\n// phase4:solution\nrequire x v1\n// phase4:end\n", "module m\n"),
    ],
)
def test_kinds_of_files(name, text, stub):
    assert render(text, PurePath(name), "stub") == stub


def test_files_of_the_answer_alone():
    for text in ("# phase4:omit\nx\n", "#!/bin/sh\n# phase4:omit\nx\n"):
        assert render(text, PurePath("x.sh"), "stub") is None
        assert render(text, PurePath("x.sh"), "solution").endswith("x\n")
        assert "phase4" not in render(text, PurePath("x.sh"), "solution")


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("x\n# phase4:solution\ny\n", ":2", "no phase4:end"),
        ("# phase4:stub\n", ":1", "cannot stand"),
        ("# phase4:end\n", ":1", "cannot stand"),
        ("# phase4:solution\n# phase4:solution\n", ":2", "cannot stand"),
        ("# phase4:solution\n# phase4:stub\n# phase4:stub\n", ":3", "cannot stand"),
        ("# phase4:solution\n# phase4:stub\nnot a comment\n# phase4:end\n", ":3", "be a comment"),
        ("# phase4:solutoin\n", ":1", "not one of"),
        ("x\ny\n# phase4:omit\n", ":3", "first line"),
    ],
)
def test_markers_that_do_not_fit(text, place, why):
    with pytest.raises(CutError) as caught:
        render(text, PurePath("4.1.1/x.py"), "stub")
    assert f"4.1.1/x.py{place}" in str(caught.value) and why in str(caught.value)


SHARED = """\
# phase4:solution 4.2.1
queue = "written"
# phase4:stub
# queue = None
# phase4:end
"""


def test_a_region_may_say_whose_lab_it_is():
    assert render(SHARED, PurePath("artifacts/python/q.py"), "stub") == "queue = None\n"
    assert render(SHARED, PurePath("artifacts/python/q.py"), "solution") == 'queue = "written"\n'
    with pytest.raises(CutError, match="q.py:3"):
        render(SHARED.replace("phase4:stub", "phase4:stub 4.2.1"), PurePath("4.2.1/q.py"), "stub")


def test_a_file_without_comments_may_belong_to_the_answer_alone(tree, tmp_path):
    solutions, exercises = tree
    (solutions / "4.1.4/common/recording.jsonl").write_text("{}\n")
    cut.write(solutions, exercises)
    assert (exercises / "4.1.4/common/recording.jsonl").exists()
    (solutions / "4.1.4/answer-only").write_text("recording.jsonl\n")
    assert [str(change) for change in cut.write(solutions, exercises)] == [
        "4.1.4/common/recording.jsonl: not from a solution"
    ]
    folder = cut.handed_in("4.1.4", "python", tmp_path / "w", solutions=solutions)
    assert (folder / "recording.jsonl").exists()


def test_an_artifact_is_laid_at_the_root_and_a_lab_stubs_its_own_part_alone(tree, tmp_path):
    solutions, _ = tree
    answer = cut.handed_in("4.1.4", "python", tmp_path / "w", solutions=solutions)
    assert (answer.parent / "machinery/queue.py").read_text() == 'queue = "written"\n'
    assert not (answer.parent / "operator_handwired").exists()
    for mine, text in ((True, "queue = None\n"), (False, 'queue = "written"\n')):
        begun = cut.starter(
            "4.1.4",
            "python",
            tmp_path / str(mine),
            writes=lambda path, mine=mine: mine,
            solutions=solutions,
        )
        assert (begun.parent / "machinery/queue.py").read_text() == text
        assert (begun.parent / "machinery/made.yaml").exists() is not mine


def test_a_file_whose_source_is_elsewhere_is_there(tree, tmp_path):
    solutions, exercises = tree
    (solutions.parent / "fake.py").write_text("x = 1\n")
    (solutions / "4.1.4/given.toml").write_text('"common/server.py" = "fake.py"\n')
    cut.write(solutions, exercises)
    assert (exercises / "4.1.4/common/server.py").read_text() == "x = 1\n"
    folder = cut.handed_in("4.1.4", "python", tmp_path / "w", solutions=solutions)
    assert (folder / "server.py").read_text() == "x = 1\n"


@pytest.fixture
def tree(tmp_path: Path) -> tuple[Path, Path]:
    solutions = tmp_path / "solutions"
    files = {
        "artifacts/go/go.mod": "module phase4/workspace\n",
        "artifacts/go/operator_handwired/main.go": "package main\n",
        "artifacts/python/machinery/queue.py": SHARED,
        "artifacts/python/machinery/made.yaml": "made: it\n",
        "artifacts/answer-only": "python/machinery/made.yaml\n",
        "4.1.4/common/answers.md": "# A\n<!-- phase4:solution -->\nyes\n<!-- phase4:end -->\n",
        "4.1.4/python/stages.py": PYTHON,
        "4.1.4/python/only_here.py": "# phase4:omit\n",
        "4.1.4/go/main.go": "package main\n",
        "4.1.4/variants/other/stages.py": "OTHER = 1\n",
        "4.1.4/variants/gopher/variant.toml": 'track = "go"\n',
        "4.1.4/variants/gopher/main.go": "package main // other\n",
        "4.1.4/python/__pycache__/stages.pyc": "no",
    }
    for name, text in files.items():
        path = solutions / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (solutions / "4.1.4/python/stages.py").chmod(0o755)
    return solutions, tmp_path / "exercises"


def test_the_exercises_are_made_and_stay(tree):
    solutions, exercises = tree
    changed = {str(change) for change in cut.write(solutions, exercises)}
    assert changed == {
        "artifacts/go/go.mod: missing",
        "artifacts/go/operator_handwired/main.go: missing",
        "artifacts/python/machinery/queue.py: missing",
        "4.1.4/common/answers.md: missing",
        "4.1.4/python/stages.py: missing",
        "4.1.4/go/main.go: missing",
    }
    assert (exercises / "4.1.4/common/answers.md").read_text() == "# A\n"
    assert (exercises / "4.1.4/python/stages.py").stat().st_mode & 0o111
    assert cut.differences(solutions, exercises) == []
    assert cut.write(solutions, exercises) == []


def test_a_difference_is_found_and_mended(tree):
    solutions, exercises = tree
    cut.write(solutions, exercises)
    (exercises / "artifacts/go/go.mod").unlink()
    (exercises / "4.1.4/go/main.go").write_text("by hand")
    (exercises / "4.1.5/common").mkdir(parents=True)
    (exercises / "4.1.5/common/old.md").write_text("old")
    assert {str(change) for change in cut.differences(solutions, exercises)} == {
        "artifacts/go/go.mod: missing",
        "4.1.4/go/main.go: different",
        "4.1.5/common/old.md: not from a solution",
    }
    cut.write(solutions, exercises)
    assert cut.differences(solutions, exercises) == []
    assert not (exercises / "4.1.5").exists()


def test_an_answer_as_it_is_handed_in(tree, tmp_path):
    solutions, _ = tree
    folder = cut.handed_in("4.1.4", "python", tmp_path / "w", solutions=solutions)
    assert folder == tmp_path / "w" / "4.1.4"
    assert sorted(path.name for path in folder.iterdir()) == [
        "answers.md", "only_here.py", "stages.py",
    ]  # fmt: skip
    assert (folder / "answers.md").read_text() == "# A\nyes\n"
    assert not (tmp_path / "w" / "go.mod").exists()
    cut.handed_in("4.1.4", "go", tmp_path / "g", solutions=solutions)
    assert (tmp_path / "g" / "go.mod").exists()


def test_variants_and_tracks(tree, tmp_path):
    solutions, _ = tree
    assert "4.1.4" in cut.labs(solutions)
    assert cut.tracks("4.1.4", solutions) == ["python", "go"]
    assert cut.variants("4.1.4", solutions) == {"gopher": "go", "other": ""}
    folder = cut.handed_in("4.1.4", "go", tmp_path / "w", variant="gopher", solutions=solutions)
    assert sorted(path.name for path in folder.iterdir()) == ["answers.md", "main.go"]
    assert "other" in (folder / "main.go").read_text()
    starter = cut.starter("4.1.4", "python", tmp_path / "s", solutions=solutions)
    assert sorted(path.name for path in starter.iterdir()) == ["answers.md", "stages.py"]
    assert "NotImplementedError" in (starter / "stages.py").read_text()


def test_the_track_of_an_answer_may_be_in_the_artifacts_alone():
    assert not (cut.tree.SOLUTIONS / "4.1.4" / "python").exists()
    assert cut.tracks("4.1.4") == ["python", "go"]


def test_artifacts_are_laid_out_as_answers_and_stubs(tmp_path):
    cut.lay_artifacts("python", tmp_path, stubs=lambda path: path.startswith("foo_controller/"))
    assert 'emit("' not in (tmp_path / "foo_controller" / "controller.py").read_text()
    assert "not written yet" not in (tmp_path / "machinery" / "workqueue.py").read_text()


def test_the_courses_own_exercises_are_up_to_date():
    assert [str(change) for change in cut.differences()] == []
