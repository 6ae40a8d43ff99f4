"""The contract's file names what there is, leaves nothing out, and has no empty place."""

from __future__ import annotations

import re

import pytest

from docs_hooks import operators
from grader.conformance import measure
from grader.conformance.invariants import AT_REST, WATCHED
from grader.conformance.parts import scenarios
from grader.conformance.sentences import KINDS, judged_by, sentences, watched_by

SCENARIOS = {one.id for one in scenarios()}
INVARIANTS = {one.id for one in WATCHED} | set(AT_REST)
WRONG = {one.name: one for one in measure.wrong_operators()}
JUDGED = [one for one in sentences() if not one.open]


def test_ids_are_of_their_kind_and_numbered_without_a_gap():
    for letter in KINDS:
        numbers = [int(one.id[1:]) for one in sentences() if one.id.startswith(letter)]
        assert numbers == list(range(1, len(numbers) + 1)), letter
    assert {one.id[0] for one in sentences()} == set(KINDS)


@pytest.mark.parametrize("sentence", JUDGED, ids=lambda one: one.id)
def test_each_sentence_is_judged_watched_and_shown(sentence):
    assert sentence.scenarios and sentence.watched and sentence.wrong
    assert set(sentence.scenarios) <= SCENARIOS
    assert set(sentence.watched) <= INVARIANTS
    assert set(sentence.wrong) <= set(WRONG)


@pytest.mark.parametrize("sentence", JUDGED, ids=lambda one: one.id)
def test_each_wrong_operator_of_a_sentence_is_caught_by_one_of_its_scenarios(sentence):
    for name in sentence.wrong:
        assert measure.scenario_of(WRONG[name]) in sentence.scenarios, name


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_each_scenario_serves_a_sentence(scenario):
    assert judged_by(scenario)


def test_each_invariant_watches_for_a_sentence_and_each_wrong_operator_shows_one():
    assert [id for id in INVARIANTS if not watched_by(id)] == []
    shown = {name for one in sentences() for name in one.wrong}
    assert set(WRONG) - shown == set()


def test_what_is_left_open_is_judged_by_nothing():
    for one in sentences():
        assert one.open != bool(one.scenarios or one.watched or one.wrong), one.id


def test_the_table_on_the_page_has_each_sentence_and_no_empty_cell():
    rows = [line for line in operators.contract().splitlines() if re.match(r"\| \*\*\w+\*\*", line)]
    assert [row.split("**")[1] for row in rows] == [one.id for one in sentences()]
    for row in rows:
        assert all(cell.strip() for cell in row.strip("|").split(" | ")), row
