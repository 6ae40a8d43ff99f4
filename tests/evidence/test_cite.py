"""``phase4 cite`` and ``phase4 dev pins``: from a place to its citation, and what a pin moves."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from grader.evidence import citations, pinned, pins, quoting
from grader.evidence.pinned import Index, PinnedModule
from grader.evidence.quoting import CiteError

from .small import INDEX, QUEUE_GO, file

ADD = "c.workqueue.Add(objectRef)"
PLACE = "k8s.io/sample-controller@v0.36.2/controller.go:336"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A module cache with one file of sample-controller, whose line 336 is as upstream's."""
    folder = tmp_path / "cache" / "k8s.io" / "sample-controller@v0.36.2"
    folder.mkdir(parents=True)
    lines = [f"// {n}" for n in range(1, 422)]
    lines[335] = "\t" + ADD
    (folder / "controller.go").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "cache"))
    return folder


@pytest.mark.parametrize(
    "place",
    ["sample-controller/controller.go:336", "k8s.io/sample-controller/controller.go:336", PLACE],
)
def test_every_way_to_name_an_upstream_line(cache, tmp_path, place):
    quoted = quoting.cite(place, here=tmp_path)
    assert str(quoted.citation) == f"`{PLACE}` `{ADD}`"
    assert quoted.inside == ("Controller.enqueueFoo",) and quoted.note == ""


def test_the_path_as_it_lies_in_the_module_cache(cache, tmp_path):
    quoted = quoting.cite(f"{cache / 'controller.go'}:336", here=tmp_path)
    assert quoted.citation.place == PLACE


def test_what_is_printed_is_found_and_exact(cache, tmp_path):
    text = str(quoting.cite(PLACE, here=tmp_path).citation)
    (found,) = citations.find(text)
    assert citations.check(found).exact


def test_a_changed_module_cache_is_noticed(cache, tmp_path):
    assert "differs" in quoting.cite(PLACE.replace("336", "335"), here=tmp_path).note


def test_a_source_that_is_not_here_says_how_to_get_it_and_takes_a_quote(tmp_path, monkeypatch):
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "none"))
    with pytest.raises(CiteError) as missing:
        quoting.cite(PLACE, here=tmp_path)
    assert "go mod download k8s.io/sample-controller@v0.36.2" in str(missing.value)
    assert "Controller.enqueueFoo" in str(missing.value) and missing.value.exit_code == 5
    assert quoting.cite(PLACE, here=tmp_path, quote=f"  {ADD} ").citation.quote == ADD
    with pytest.raises(CiteError, match="line 336") as moved:
        quoting.cite(PLACE.replace("336", "335"), here=tmp_path, quote=ADD)
    assert moved.value.exit_code == 1
    with pytest.raises(CiteError, match="blob/24e7d8f/.*#L3"):
        quoting.cite(
            "kubernetes/community/contributors/devel/sig-api-machinery/controllers.md:3",
            here=tmp_path,
        )


def test_a_file_of_ones_own_is_cited_from_the_labs_folder(tmp_path):
    (tmp_path / "phase4.toml").write_text("")
    lab = tmp_path / "4.3.4"
    (lab / "pkg").mkdir(parents=True)
    (lab / "pkg" / "operator.py").write_text("def sync():\n    queue.add(`x`)\n")
    quoted = quoting.cite("operator.py:2", here=lab / "pkg")
    assert str(quoted.citation) == "`pkg/operator.py:2` ``queue.add(`x`)``"
    assert quoting.cite("4.3.4/pkg/operator.py:2", here=tmp_path).citation.path == "pkg/operator.py"


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("README.md", "PATH:LINE"),
        ("a.go:0", "PATH:LINE"),
        ("nope.go:3", "no file nope.go"),
        ("controller.go:3", "several paths"),
        ("sample-controller/controler.go:3", "Did you mean controller.go"),
        ("sample-controller/controller.go:999", "421 lines"),
    ],
)
def test_what_cannot_be_cited_is_told_why(cache, tmp_path, place, says):
    with pytest.raises(CiteError) as error:
        quoting.cite(place, here=tmp_path)
    assert says in str(error.value)


def test_the_command_prints_a_line_to_paste_and_json(cli, cache):
    result = cli("cite", PLACE)
    assert result.exit_code == 0 and result.stdout == f"`{PLACE}` `{ADD}`\n"
    data = json.loads(cli("cite", "--json", PLACE).stdout)
    assert data["quote"] == ADD and data["inside"] == ["Controller.enqueueFoo"]


# --- pins ---------------------------------------------------------------------------------------

PRINTF = "`example.com/queue@v1.2.3/pkg/queue.go:20`"


@pytest.fixture
def course(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(
        f"# A\n\n{PRINTF} ``fmt.Printf(`done %s`, item)``\n\n"
        "`example.com/queue@v1.2.3/pkg/queue.go:8` `if q.has(item) {`\n"
    )
    (tmp_path / "grader" / "mistakes").mkdir(parents=True)
    (tmp_path / "grader" / "mistakes" / "m.toml").write_text(f"x = '''{PRINTF} `wrong`'''\n")
    return tmp_path


def test_citations_are_found_in_pages_and_not_where_they_are_wrong_on_purpose(course):
    found = pins.uses(course)
    assert [(u.file, u.line, u.citation.line, u.citation.quote) for u in found] == [
        ("docs/a.md", 3, 20, "fmt.Printf(`done %s`, item)"),
        ("docs/a.md", 5, 8, "if q.has(item) {"),
    ]
    assert pins.broken(found, INDEX) == []


def test_a_bumped_pin_lists_what_moved_and_what_died(course):
    text = "// one line more\n" + QUEUE_GO.replace("q.has(item)", "q.contains(item)")
    new = PinnedModule("example.com/queue", "v1.3.0", {"pkg/queue.go": file("pkg/queue.go", text)})
    changes = pins.moved(pins.uses(course), INDEX, [new])
    assert [(c.use.citation.line, c.verdict, c.finding.moved_to[:1]) for c in changes] == [
        (20, "moved", (21,)),
        (8, "died", ()),
    ]


def test_a_file_that_is_gone_kills_its_citations_and_its_place_in_the_index(course):
    changes = pins.moved(pins.uses(course), INDEX, [PinnedModule("example.com/queue", "v2", {})])
    assert [c.verdict for c in changes] == ["died"] * 3
    assert changes[0].use.file == "grader/evidence/sources.toml"


def test_an_unchanged_pin_moves_nothing(course):
    same = INDEX.modules["example.com/queue"]
    assert pins.moved(pins.uses(course), INDEX, [replace(same, version="v1.2.4")]) == []


def test_a_citation_that_is_wrong_now_is_broken(course):
    (course / "docs" / "b.md").write_text(
        "`example.com/queue@v1.2.3/pkg/queue.go:7` `no such text`\n"
    )
    (change,) = pins.broken(pins.uses(course), INDEX)
    assert change.to_json()["verdict"] == "died" and change.use.file == "docs/b.md"


def test_the_courses_own_citations_hold(cli):
    result = cli("dev", "pins")
    assert result.exit_code == 0, result.stdout
    assert isinstance(pinned.load(), Index)
