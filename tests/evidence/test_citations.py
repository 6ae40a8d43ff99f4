"""Citations: found in Markdown, and checked by what they quote."""

from __future__ import annotations

import os

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from grader.evidence import citations
from grader.evidence.citations import Citation, check, code_span, find
from grader.evidence.digest import digest, lines_of, normalise
from grader.verdict import Fail, NotGraded

from .small import COMMIT, INDEX, PROSE_MD, QUEUE_GO

LINES = QUEUE_GO.split("\n")


def cited(line, quote, path="pkg/queue.go", module="example.com/queue", version="v1.2.3"):
    return Citation(module, version, path, line, quote)


def test_a_quoted_line_is_exact_whatever_its_whitespace():
    finding = check(cited(8, "if   q.has(item) {"), INDEX)
    assert finding.exact and finding.diagnosis == ""
    assert finding.symbols == ("Queue.Add",)


def test_a_moved_line_says_where_to():
    finding = check(cited(7, "if q.has(item) {"), INDEX)
    assert finding.kind == "moved" and finding.moved_to == (8,)
    assert "line 8" in finding.seen and "pkg/queue.go:8" in finding.next


def test_a_line_that_is_said_twice_lists_both_with_their_functions():
    finding = check(cited(1, "defer q.mutex.Unlock()"), INDEX)
    assert finding.kind == "moved" and finding.moved_to == (7, 19)
    assert "7 (in Queue.Add)" in finding.next and "19 (in Queue.Done)" in finding.next


def test_a_misquote_names_the_line_and_that_nothing_else_says_it():
    finding = check(cited(8, "if q.contains(item) {"), INDEX)
    assert finding.kind == "misquoted" and finding.moved_to == ()
    assert "Line 8" in finding.seen and "no other line" in finding.seen


@pytest.mark.parametrize("short", ["if q.has(item)", "q.has(item) {"])
def test_a_shortened_quote_is_told_what_it_lacks(short):
    finding = check(cited(8, short), INDEX)
    assert finding.kind == "misquoted" and "close to what you quote" in finding.seen


@pytest.mark.parametrize(
    ("line", "quote", "what"),
    [(3, "", "stands alone"), (10, "}", "only brackets"), (4, "// Add adds.", "a comment")],
)
def test_lines_that_show_nothing(line, quote, what):
    finding = check(cited(line, quote), INDEX)
    assert not finding.exact and what in finding.seen


def test_a_comment_may_count_where_the_grader_says_so():
    assert check(cited(4, "// Add adds."), INDEX, comments_count=True).exact


def test_beyond_the_end():
    finding = check(cited(99, "if q.has(item) {"), INDEX)
    assert finding.kind == "line-out-of-range"
    assert "has 21 lines" in finding.seen and "line 8" in finding.next


def test_the_wrong_version_names_the_pinned_one():
    finding = check(cited(8, "if q.has(item) {", version="v1.2.4"), INDEX)
    assert finding.kind == "no-such-version" and "v1.2.3" in finding.seen


def test_near_misses_are_suggested():
    assert "pkg/queue.go" in check(cited(8, "x", path="queue.go"), INDEX).next
    assert "pkg/queue.go" in check(cited(8, "x", path="pkg/queu.go"), INDEX).next
    assert (
        "example.com/queue@v1.2.3" in check(cited(8, "x", module="example.org/queue"), INDEX).next
    )
    far = check(cited(8, "x", module="zzz.example/other"), INDEX)
    assert far.kind == "no-such-module" and "Did you mean" not in far.next


def test_a_commit_may_be_written_short_but_not_shorter_than_seven():
    for version, kind in (
        (COMMIT, "exact"),
        (COMMIT[:7], "exact"),
        (COMMIT[:6], "no-such-version"),
    ):
        c = cited(
            3, "Use keys, not objects.", "guide/prose.md", "github.com/example/prose", version
        )
        assert check(c, INDEX).kind == kind


def test_markdown_headings_are_evidence_and_their_sections_are_places():
    c = cited(5, "## Again", "guide/prose.md", "github.com/example/prose", COMMIT[:7])
    finding = check(c, INDEX)
    assert finding.exact and finding.symbols == ("Again", "Controllers")


# --- finding them -------------------------------------------------------------------------

PLACE = "example.com/queue@v1.2.3/pkg/queue.go:20"


@pytest.mark.parametrize(
    "text",
    [
        f"`{PLACE}` ``fmt.Printf(`done %s`, item)``",
        f"It is `{PLACE}`: ``fmt.Printf(`done %s`, item)``.",
        f"- `{PLACE}`\n  ``fmt.Printf(`done %s`, item)``",
        f"| where | what |\n|---|---|\n| `{PLACE}` | ``fmt.Printf(`done %s`, item)`` |",
        f"`{PLACE}`\n\n``fmt.Printf(`done %s`, item)``",
        f"- `{PLACE}`:\n- ``fmt.Printf(`done %s`, item)``",
        f"`{PLACE}`\n\n```go\n\tfmt.Printf(`done %s`, item)\n```",
        f"> `{PLACE}` ``` fmt.Printf(`done %s`, item) ```",
    ],
)
def test_a_quote_with_backticks_is_found_in_every_form(text):
    (found,) = find(text)
    assert check(found, INDEX).exact, found


def test_a_bar_in_a_table_is_written_with_a_backslash():
    (found,) = find("| a |\n|---|\n| `m.com/x@v1/a.go:1` `a \\|\\| b` |\n")
    assert found.quote == "a || b"


def test_line_numbers_are_those_of_the_text():
    text = "# A\n\nwords\nand `x`\n`m.com/x@v1/a.go:1` `one\ntwo` and\n`m.com/x@v1/a.go:2` `b`\n"
    text += "\n```\n`m.com/x@v1/a.go:3` `in code`\n```\n\n- a\n- `m.com/x@v1/a.go:4`\n"
    assert [(c.line, c.at, c.quote) for c in find(text)] == [
        (1, 5, "one two"),
        (2, 7, "b"),
        (4, 14, None),
    ]


def test_a_citation_does_not_take_the_next_ones_place_or_another_paragraphs_code():
    found = find(f"`{PLACE}` and `{PLACE}` `q`\n\n`{PLACE}`\n\nSee `other`.")
    assert [c.quote for c in found] == [None, "q", None]
    assert check(found[0], INDEX).kind == "no-quote"


@pytest.mark.parametrize(
    ("span", "says"),
    [
        ("k8s.io/x@v1/a.go:10-20", "range"),
        ("k8s.io/x@v1/a.go", "names no line"),
        ("https://github.com/a/b/blob/main/c.go#L12", "link"),
    ],
)
def test_what_is_nearly_a_citation_is_told_so(span, says):
    (found,) = find(f"see `{span}` `x`")
    finding = check(found, INDEX)
    assert finding.kind == "malformed" and says in finding.seen


def test_other_code_is_no_citation():
    assert find("`foo.Bar` `a:b` `http://localhost:80` `10:30` `kubectl get pods -n a`") == []


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab `'\"\\|*_<>&$[](){}#", min_size=1, max_size=20))
def test_any_line_survives_markdown(quote):
    assume(normalise(quote))
    (found,) = [c for c in find(f"`{PLACE}` {code_span(normalise(quote))}") if c.line == 20]
    assert normalise(found.quote or "") == normalise(quote)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_mutated_quote_is_never_exact(data):
    line = data.draw(st.sampled_from([n for n, each in enumerate(LINES, 1) if each.strip()]))
    text = normalise(LINES[line - 1])
    at = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.characters(codec="ascii", categories=["L", "N", "P"]))
    mutated = text[:at] + char + text[at + data.draw(st.integers(0, 1)) :]
    assume(normalise(mutated) != text)
    assert not check(cited(line, mutated), INDEX, comments_count=True).exact


@settings(max_examples=60, deadline=None)
@given(st.integers(-3, 40), st.integers(1, 21))
def test_a_true_line_under_a_wrong_number_is_exact_only_where_that_line_says_the_same(at, of):
    text = LINES[of - 1]
    finding = check(cited(at, text), INDEX, comments_count=True)
    same = 1 <= at <= 21 and normalise(LINES[at - 1]) == normalise(text)
    assert not finding.exact or same
    if finding.kind == "moved":
        assert of in finding.moved_to and at not in finding.moved_to


# --- the learner's own file -----------------------------------------------------------------


@pytest.fixture
def handed_in(tmp_path):
    folder = tmp_path / "lab"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "operator.py").write_text("def sync(key):\n    queue.add(key)\n")
    return folder


def own_citation(path, line=2, quote="queue.add(key)"):
    return Citation("", "", path, line, quote)


def test_an_own_line_is_checked_against_what_was_handed_in(handed_in):
    finding = check(own_citation("pkg/operator.py"), INDEX, handed_in=handed_in)
    assert finding.exact and finding.symbols == ("sync",)
    assert check(own_citation("pkg/operator.py", 1), INDEX, handed_in=handed_in).moved_to == (2,)


@pytest.mark.parametrize(
    "path", ["../secret.py", "/etc/passwd.py", "link.py", "dir.py", "pkg\\a.py"]
)
def test_only_plain_files_inside_the_folder_are_read(handed_in, path):
    (handed_in.parent / "secret.py").write_text("queue.add(key)\nqueue.add(key)\n")
    os.symlink(handed_in.parent / "secret.py", handed_in / "link.py")
    (handed_in / "dir.py").mkdir()
    assert check(own_citation(path), INDEX, handed_in=handed_in).kind == "no-such-file"


def test_unreadable_kinds_of_files_get_a_sentence(handed_in):
    (handed_in / "big.py").write_bytes(b"x" * 3_000_000)
    (handed_in / "bin.py").write_bytes(b"\xff\xfe\x00")
    assert "larger" in check(own_citation("big.py"), INDEX, handed_in=handed_in).seen
    assert "UTF-8" in check(own_citation("bin.py"), INDEX, handed_in=handed_in).seen


@pytest.mark.parametrize("path", ["pkg/queue.go", "queue.go", "queue/pkg/queue.go"])
def test_an_upstream_file_needs_no_version_where_it_is_the_only_one_so_named(handed_in, path):
    finding = check(own_citation(path, 8, "if q.has(item) {"), INDEX)
    assert finding.exact and finding.citation.module == "example.com/queue"
    assert check(own_citation(path, 8), INDEX, handed_in=handed_in).citation.module


def test_a_file_of_ones_own_goes_before_an_upstream_one(handed_in):
    (handed_in / "queue.go").write_text("own line\n")
    finding = check(own_citation("queue.go", 1, "own line"), INDEX, handed_in=handed_in)
    assert finding.exact and finding.citation.is_own


def test_a_file_name_of_several_modules_is_told_which_there_are():
    finding = check(own_citation("controller.go", 336))
    assert finding.kind == "no-such-file"
    assert "`k8s.io/sample-controller/controller.go:336`" in finding.next


def test_the_line_of_a_citation_counts_from_the_first_line_of_its_file():
    (found,) = find(f"\n`{PLACE}` `x`", first=40)
    assert found.at == 41


def test_required_citations():
    with pytest.raises(NotGraded) as missing:
        citations.required("words", "answers.md")
    assert missing.value.message.diagnosis == "citation-missing"
    with pytest.raises(Fail):
        citations.required(f"`{PLACE}` `x`", "answers.md", count=2)
    assert len(citations.required(f"`{PLACE}` `x`", "answers.md")) == 1


def test_require_exact_shows_the_citation_and_its_line():
    (found,) = find(f"\n\n`{PLACE}` `x`")
    with pytest.raises(Fail) as failed:
        check(found, INDEX).require_exact("It holds.")
    message = failed.value.message
    assert message.diagnosis == "citation-misquoted" and "line 3" in message.evidence[0]


def test_digests_are_those_of_the_carried_files():
    assert digest("") == "e3b0c44298fc1c14"
    assert digest("\t a  b ") == digest("a b")
    assert lines_of("a\r\nb\x0cc\n") == ["a", "b\x0cc"]
    assert len(lines_of(PROSE_MD)) == 7
