"""The manifest holds the whole curriculum, and its cross-references close."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from docs_hooks import lists

COURSE = Path(__file__).parents[2] / "grader" / "course.toml"
EVIDENCE = ["live", "build", "written", "claim"]


@pytest.fixture(scope="module")
def course() -> dict:
    return tomllib.loads(COURSE.read_text(encoding="utf-8"))


def ids(rows: list[dict], key: str = "id") -> list[str]:
    return [row[key] for row in rows]


def test_readme_says_what_is_graded_in_the_words_of_the_site() -> None:
    readme = (COURSE.parents[1] / "README.md").read_text(encoding="utf-8")
    assert lists.graded() in " ".join(readme.split())


def test_the_counts_are_the_curriculums(course: dict) -> None:
    counts = {
        name: len(course[name])
        for name in ("objective", "module", "reading", "lab", "drill", "talk", "checklist", "gate")
    }
    assert counts == {
        "objective": 8, "module": 6, "reading": 14, "lab": 34,
        "drill": 4, "talk": 3, "checklist": 15, "gate": 3,
    }  # fmt: skip
    per_module = Counter(lab["module"] for lab in course["lab"])
    assert per_module == {
        "4.1": 5, "4.2": 8, "4.3": 6, "4.4": 7, "4.5": 3, "4.6": 3,
        "ecosystem": 1, "capstone": 1,
    }  # fmt: skip
    assert Counter(item["module"] for item in course["reading"]) == {
        "4.1": 3, "4.2": 5, "4.4": 4, "4.5": 2,
    }  # fmt: skip
    assert Counter(line["group"] for line in course["checklist"]) == {
        "live": 3, "build": 3, "written": 6, "claim": 3,
    }  # fmt: skip


def test_the_days_fill_four_weeks_and_a_little(course: dict) -> None:
    # Four working weeks are the plan; the curriculum's own day counts add up to
    # more with «a week» read as seven days. Neither may quietly grow.
    assert ids(course["module"], "days") == [4, 7, 7, 7, 3, 4]
    assert course["course"]["weeks"] == 4


def test_labs_are_numbered_in_order(course: dict) -> None:
    want = [
        f"{module}.{n}"
        for module, count in (
            ("4.1", 5), ("4.2", 8), ("4.3", 6), ("4.4", 7), ("4.5", 3), ("4.6", 3),
        )
        for n in range(1, count + 1)
    ]  # fmt: skip
    assert ids(course["lab"]) == [*want, "flux", "capstone"]


@pytest.mark.parametrize("table", ["module", "reading", "lab", "drill", "talk", "checklist"])
def test_ids_are_unique(course: dict, table: str) -> None:
    assert [i for i, n in Counter(ids(course[table])).items() if n > 1] == []


def test_slugs_are_unique(course: dict) -> None:
    slugs = ids(course["lab"], "slug") + ids(course["drill"], "slug")
    assert len(set(slugs)) == len(slugs)


def test_every_reference_resolves(course: dict) -> None:
    labs = {lab["id"]: lab for lab in course["lab"]}
    reading, lines = set(ids(course["reading"])), {line["id"]: line for line in course["checklist"]}
    for lab in labs.values():
        assert set(lab["reading"]) <= reading, lab["id"]
        assert set(lab["checklist"]) == {
            i for i, line in lines.items() if lab["id"] in line["labs"]
        }, f"{lab['id']}: the checklist's lines and the lab name different lines"
        assert lab.get("drill") in {None, *ids(course["drill"])}
        assert set(lab["tracks"]) in (set(), {"python", "go"})
        assert set(lab["needs"]) <= {"cluster"}
        assert lab["evidence"] and set(lab["evidence"]) <= set(EVIDENCE)
    for drill in course["drill"]:
        assert labs[drill["lab"]]["drill"] == drill["id"]
    for condition in course["gate"]:
        assert condition["labs"] == [
            lab["id"] for lab in course["lab"] if lab.get("gate") == condition["number"]
        ]
    for line in course["checklist"]:
        assert line["labs"] and set(line["labs"]) <= set(labs)


def test_nothing_of_the_curriculum_is_left_without_a_lab(course: dict) -> None:
    labs = course["lab"]
    assert {n for lab in labs for n in lab["objectives"]} == set(range(1, 9))
    assert all(lab["objectives"] for lab in labs)
    assert {r for lab in labs for r in lab["reading"]} == set(ids(course["reading"]))


def test_every_reading_item_asks_something_and_says_what_changed(course: dict) -> None:
    for item in course["reading"]:
        assert "?" in item["question"] or item["question"].endswith("."), item["id"]
        assert item["changed"].endswith("."), item["id"]
        assert "\n" not in item["changed"], f"{item['id']}: one sentence, one line"
        assert "@" in item["source"], f"{item['id']}: the source needs its version"


def test_a_built_lab_has_the_evidence_that_its_checks_give(course: dict) -> None:
    from grader import course as loaded

    for lab in course["lab"]:
        if lab["built"]:
            given = {check.evidence for check in loaded.checks(lab["id"])}
            assert given == set(lab["evidence"]), lab["id"]
