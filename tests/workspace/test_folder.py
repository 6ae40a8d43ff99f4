"""The learner's folder: made, taken up, reset, moved to another track; nothing overwritten."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from grader import course, workspace
from grader.course import Lab
from grader.workspace import files, folder, stubs
from grader.workspace.folder import BadRequest, WorkspaceError


@pytest.fixture
def exercises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stubs of one lab with two tracks (4.1.4) and of one without a program (4.1.2)."""
    root = tmp_path / "exercises"
    for name, text in {
        "4.1.4/common/answers.md": "TODO\n",
        "4.1.4/python/stages.py": "# python\n",
        "4.1.4/python/program.toml": 'run = ["python3", "stages.py"]\n',
        "4.1.4/go/main.go": "package main\n",
        "4.1.4/go/program.toml": 'run = ["./stages"]\n',
        "4.1.2/common/answers.md": "TODO\n",
        "artifacts/go/go.mod": "module phase4/workspace\n",
        "artifacts/python/machinery/workqueue.py": "# python queue\n",
    }.items():
        files.write(root / name, text)
    # What is shared is looked up when it is used, by default arguments: patch both.
    monkeypatch.setattr(stubs, "EXERCISES", root)
    monkeypatch.setattr(stubs.of, "__defaults__", (root,))
    monkeypatch.setattr(stubs.only_of_track, "__defaults__", (root,))
    monkeypatch.setattr(stubs.artifacts, "__defaults__", (root,))
    return root


@pytest.fixture
def lab() -> Lab:
    return course.load().lab("4.1.4")


def test_init_lays_the_chosen_track(exercises: Path, tmp_path: Path) -> None:
    made, laid = workspace.init(tmp_path / "w", "go")
    assert [one.id for one in laid] == ["4.1.2", "4.1.4"]
    assert (made.root / "4.1.4" / "main.go").exists()
    assert not (made.root / "4.1.4" / "stages.py").exists()
    assert (made.root / "go.mod").exists()
    assert workspace.open_folder(made.root) == made


def test_python_needs_no_go_module(exercises: Path, tmp_path: Path) -> None:
    made, _ = workspace.init(tmp_path / "w", "python")
    assert not (made.root / "go.mod").exists()


def test_init_again_changes_nothing_of_the_learners(exercises: Path, tmp_path: Path) -> None:
    made, _ = workspace.init(tmp_path / "w", "python")
    mine = made.root / "4.1.4" / "stages.py"
    mine.write_text("mine\n", encoding="utf-8")
    (made.root / "4.1.2" / "answers.md").unlink()
    again, laid = workspace.init(tmp_path / "w", None)
    assert (laid, again.track, mine.read_text(encoding="utf-8")) == ([], "python", "mine\n")
    assert not (made.root / "4.1.2" / "answers.md").exists()


def test_an_upgrade_adds_new_labs_only(exercises: Path, tmp_path: Path) -> None:
    made, _ = workspace.init(tmp_path / "w", "python")
    marker = made.root / "phase4.toml"
    version = course.load().version
    marker.write_text(marker.read_text().replace(f'version = "{version}"', 'version = "0"'))
    with pytest.raises(WorkspaceError, match=rf"version 0 .*version {version}.*phase4 init"):
        workspace.open_folder(made.root)
    files.write(exercises / "4.1.5" / "common" / "answers.md", "TODO\n")
    _, laid = workspace.init(made.root, None)
    assert [one.id for one in laid] == ["4.1.5"]
    workspace.open_folder(made.root)


def test_another_course_gets_a_sentence(tmp_path: Path) -> None:
    files.write(tmp_path / "phase4.toml", 'course = "phase-3"\nversion = "1"\ntrack = "go"\n')
    for attempt in (
        lambda: workspace.open_folder(tmp_path),
        lambda: workspace.init(tmp_path, "go"),
    ):
        with pytest.raises(WorkspaceError, match="belongs to the course 'phase-3'"):
            attempt()


@pytest.mark.parametrize(
    "content", [b"\xff", b"course =", b"", b'course = "phase-4"\nversion = "1"\n']
)
def test_a_damaged_marker_gets_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "phase4.toml").write_bytes(content)
    with pytest.raises(WorkspaceError):
        workspace.open_folder(tmp_path)


def test_no_workspace_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="phase4 init"):
        workspace.open_folder(tmp_path / "nowhere")


def test_a_file_in_the_way_and_the_course_itself_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w").write_text("")
    with pytest.raises(WorkspaceError, match="is a file"):
        workspace.init(tmp_path / "w", "go")
    with pytest.raises(BadRequest, match="the course itself"):
        workspace.init(course.ROOT, "go")
    with pytest.raises(BadRequest, match="no track 'rust'"):
        workspace.init(tmp_path / "v", "rust")


def test_reset_keeps_a_backup(exercises: Path, tmp_path: Path, lab: Lab) -> None:
    made, _ = workspace.init(tmp_path / "w", "python")
    mine = made.folder(lab) / "stages.py"
    mine.write_text("mine\n", encoding="utf-8")
    first, second = made.reset(lab), made.reset(lab)
    assert first and second and first != second
    assert (first / "stages.py").read_text(encoding="utf-8") == "mine\n"
    assert mine.read_text(encoding="utf-8") == "# python\n"


def test_reset_of_a_lab_without_stubs_is_refused(exercises: Path, tmp_path: Path) -> None:
    made, _ = workspace.init(tmp_path / "w", "python")
    kept = made.root / "4.1.1" / "mine.py"
    files.write(kept, "mine")
    with pytest.raises(BadRequest):
        made.reset(course.load().lab("4.1.1"))
    assert kept.exists()


def test_a_track_that_is_come_back_to_has_what_was_written(
    exercises: Path, tmp_path: Path, lab: Lab
) -> None:
    made, _ = workspace.init(tmp_path / "w", "go")
    program = made.folder(lab) / "main.go"
    program.write_text("mine\n", encoding="utf-8")
    before = (made.folder(lab) / "program.toml").read_text(encoding="utf-8")
    made.change_track(lab, "python")
    made.change_track(lab, "go")
    assert program.read_text(encoding="utf-8") == "mine\n"
    assert (made.folder(lab) / "program.toml").read_text(encoding="utf-8") == before


def test_another_track_keeps_answers_and_a_backup(
    exercises: Path, tmp_path: Path, lab: Lab
) -> None:
    made, _ = workspace.init(tmp_path / "w", "python")
    answers = made.folder(lab) / "answers.md"
    answers.write_text("mine\n", encoding="utf-8")
    (made.folder(lab) / "program.toml").write_text("# mine\n", encoding="utf-8")
    backup = made.change_track(lab, "go")
    assert backup and (backup / "program.toml").read_text(encoding="utf-8") == "# mine\n"
    assert sorted(path.name for path in made.folder(lab).iterdir()) == [
        "answers.md",
        "main.go",
        "program.toml",
    ]
    assert answers.read_text(encoding="utf-8") == "mine\n"
    assert (made.root / "go.mod").exists()
    again = workspace.open_folder(made.root)
    assert (again.track, again.track_of(lab)) == ("python", "go")
    with pytest.raises(BadRequest, match="no go track"):
        made.change_track(course.load().lab("4.1.2"), "go")


def test_where_a_workspace_is_looked_for(
    exercises: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PHASE4_WORKSPACE", raising=False)
    monkeypatch.setattr(folder, "DEFAULT", tmp_path / "default")
    for name in ("default", "here", "named"):
        workspace.init(tmp_path / name, "go")
    monkeypatch.chdir(tmp_path)
    assert workspace.find().root.name == "default"
    monkeypatch.chdir(tmp_path / "here" / "4.1.4")
    assert workspace.find().root.name == "here"
    monkeypatch.setenv("PHASE4_WORKSPACE", str(tmp_path / "named"))
    assert workspace.find().root.name == "named"


def test_runs_of_the_same_second_get_folders_of_their_own(exercises: Path, tmp_path: Path) -> None:
    made, _ = workspace.init(tmp_path / "w", "go")
    assert len({made.new_run("4.1.2") for _ in range(5)}) == 5


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    files.write(tmp_path / "f", "old")
    with pytest.raises(UnicodeEncodeError):
        files.write(tmp_path / "f", "new \ud800")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_text() == "old"


def _hold(root: Path, held, release) -> None:
    with workspace.open_folder(root).exclusive("check 4.1.1", print):
        held.set()
        release.wait(20)


def test_a_second_check_waits_and_says_for_whom(exercises: Path, tmp_path: Path) -> None:
    made, _ = workspace.init(tmp_path / "w", "go")
    spawn = multiprocessing.get_context("spawn")
    held, release = spawn.Event(), spawn.Event()
    other = spawn.Process(target=_hold, args=(made.root, held, release))
    other.start()
    try:
        assert held.wait(20)
        told: list[str] = []

        def waiting(sentence: str) -> None:
            told.append(sentence)
            release.set()

        with made.exclusive("check 4.1.2", waiting):
            pass
    finally:
        release.set()
        other.join(20)
    assert len(told) == 1 and "`phase4 check 4.1.1`" in told[0]
