"""answers.md: what was answered, what was left, and which line says so."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.evidence import answers
from grader.evidence.answers import is_placeholder, parse
from grader.verdict import Fail, NotGraded

TEXT = """\
# Lab

## Predictions

| edit | I predict | why |
|------|-----------|-----|
| managed field | **stomped** | x |
| `foreign label` | survives | |
| status | TODO | |

- gap: 800 ms
- __Count__: ~1,300 reconciles
* cap : 1000s
twice: 1

## 2. Why it pays

> Which line, and why?

<!-- one sentence -->

Because the worker reads again.

## Untouched

TODO

## In code

```text
gap: 3
## no heading
```
"""


def outcome(call, *args, **kwargs):
    with pytest.raises((Fail, NotGraded)) as raised:
        call(*args, **kwargs)
    return raised.value


def test_predictions_from_tables_and_lines():
    a = parse(TEXT)
    entry = a.prediction("Managed-Field")
    assert (entry.value, entry.line) == ("stomped", 7)
    assert a.prediction("foreign label").value == "survives"
    assert a.prediction("gap").number() == pytest.approx(0.8)
    assert a.prediction("count").number() == 1300
    assert a.prediction("cap").number() == 1000
    assert a.prediction("status").placeholder
    assert a.prediction("nothing") is None


def test_code_blocks_hold_no_headings_and_no_predictions():
    a = parse(TEXT)
    assert a.section("no heading") is None
    assert a.prediction("gap", "In code") is None


def test_sections_by_heading_without_number_or_case():
    section = parse(TEXT).section("why it PAYS")
    assert section.line == 16 and section.text == "Because the worker reads again."
    assert parse(TEXT).section("Untouched").placeholder


def test_missing_placeholder_and_renamed_are_three_messages():
    a = parse(TEXT)
    assert "no such heading" in outcome(a.require_section, "Other").message.seen
    assert "line 24" in outcome(a.require_section, "Untouched").message.seen
    renamed = outcome(a.require_section, "Why does it pay")
    assert isinstance(renamed, NotGraded) and "Line 16 has «2. Why it pays»" in renamed.message.seen


def test_required_predictions():
    a = parse(TEXT)
    choices = ["stomped", "survives"]
    assert a.require_prediction("managed field", choices=choices).value == "stomped"
    untouched = outcome(a.require_prediction, "status", choices=choices)
    assert isinstance(untouched, NotGraded) and "Line 9" in untouched.message.seen
    assert outcome(a.require_prediction, "none").message.diagnosis == "prediction-missing"
    wrong = outcome(a.require_prediction, "gap", choices=choices)
    assert isinstance(wrong, Fail) and "Line 11" in wrong.message.seen
    assert "digits" in outcome(a.require_prediction, "managed field", number=True).message.next


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("Survives.", "survives"),
        ("it survives", "survives"),
        ("it does not survive", None),
        ("it never survives", None),
        ("stomped or survives", None),
    ],
)
def test_a_choice_may_stand_in_a_sentence_that_does_not_deny_it(value, read):
    a = parse(f"x: {value}")
    if read:
        assert a.require_prediction("x", choices=["stomped", "survives"]).value == read
    else:
        outcome(a.require_prediction, "x", choices=["stomped", "survives"])


def test_a_prediction_given_twice_and_differently_is_a_fault():
    twice = outcome(parse("a: 1\n\na: 2\n").require_prediction, "a")
    assert twice.message.diagnosis == "prediction-twice"
    assert "line 1" in twice.message.seen and "line 3" in twice.message.seen
    assert parse("a: TODO\n\na: 2\n").require_prediction("a").value == "2"


def test_the_stubs_lines_are_not_the_learners():
    stub = "## Why\n\nThink of the queue.\n\nTODO\n"
    assert parse(stub, stub=stub).section("Why").placeholder
    mine = parse(stub.replace("TODO", "It holds keys."), stub=stub)
    assert mine.section("Why").text == "It holds keys."


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "TODO",
        "todo:",
        "…",
        "...",
        "?",
        "??",
        "_",
        "-",
        "<your answer>",
        "(your answer here)",
    ]
    + ["<!-- write here -->", "n/a", "[your prediction]", "____"],
)
def test_placeholders(text):
    assert is_placeholder(text)


@pytest.mark.parametrize("text", ["0", "no", "none", "TODO list", "-1", "a", "Todo is done: x"])
def test_answers_are_no_placeholders(text):
    assert not is_placeholder(text)


def test_an_unclosed_code_block_is_named_where_answers_are_missing():
    a = parse("# A\n\n```\nx\n\n## Why\n\nwords\n")
    assert a.problems[0][0] == 3
    assert "line 3 is never closed" in outcome(a.require_section, "Why").message.seen
    assert parse("```\nx\n```\n").problems == ()
    assert parse("a <!-- b\n").problems[0][0] == 1


def test_windows_line_ends_and_a_byte_order_mark():
    a = parse("\ufeff# A\r\n\r\nx: 1\r\n")
    assert a.prediction("x").value == "1" and a.section("A").line == 1


def test_tables_by_their_headers():
    table = parse(TEXT).table("Predictions")
    assert table.column("i predict") == 1 and table.column("zz") is None
    assert table.records()[0] == {"edit": "managed field", "i predict": "stomped", "why": "x"}


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read(text):
    a = parse(text)
    assert a.sections[0].line == 1


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,6}( [a-z]{1,6})?", fullmatch=True),
        st.from_regex(r"[a-z0-9.]{0,5}[a-z0-9]", fullmatch=True),
        max_size=5,
    ),
    st.booleans(),
)
def test_what_is_written_is_read_back(pairs, as_table):
    pairs = {k: v for k, v in pairs.items() if not is_placeholder(v)}
    if as_table:
        body = "| k | v |\n|---|---|\n" + "".join(f"| {k} | {v} |\n" for k, v in pairs.items())
    else:
        body = "".join(f"- {k}: {v}\n" for k, v in pairs.items())
    a = parse(f"## P\n\n{body}")
    assert {k: a.prediction(k, "P").value for k in pairs} == pairs
    assert answers.FILE == a.name
