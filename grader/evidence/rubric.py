"""Written answers, judged by the concepts in them.

This is honest work of a modest kind: a rubric looks for words. It can say which
concept it did not find, it accepts any of the phrases listed for one, and it
knows the wrong claims that it was given. It cannot tell a wise sentence from a
well-informed parrot, so written checks carry few points, and their message says
what was looked for, so that a right answer in other words can be put right.

A phrase is words; ``*`` at a word's end stands for any ending (``re-read*``),
``…`` between two words for up to six words. Case and punctuation do not count,
and a hyphen is a space. An alternative that is a tuple needs all of its phrases
in one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from grader.evidence import markdown
from grader.evidence.answers import Section
from grader.evidence.citations import parse_place
from grader.verdict import Fail

Alternative = str | tuple[str, ...]

_NEGATION = re.compile(
    r"\b(?:not?|never|neither|nor|cannot|without|instead of|rather than|\w+n t|wrong|false|myth)\b"
)
_FUNCTION_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "because",
        "but",
        "by",
        "can",
        "do",
        "does",
        "for",
        "from",
        "has",
        "have",
        "if",
        "in",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "so",
        "than",
        "that",
        "the",
        "then",
        "there",
        "this",
        "to",
        "was",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "will",
        "with",
    ]
)


@dataclass(frozen=True)
class Concept:
    """Something that a right answer says: any one of the alternatives will do.

    ``name`` is how a message calls it: «the queue holds keys». ``diagnosis`` is
    the stable name of lacking it.
    """

    name: str
    phrases: tuple[Alternative, ...]
    diagnosis: str = "concept-missing"


@dataclass(frozen=True)
class WrongClaim:
    """Something that no right answer says, unless it denies it in the same sentence.

    ``correction`` is a sentence that says how it really is.
    """

    name: str
    phrases: tuple[Alternative, ...]
    correction: str
    diagnosis: str = "wrong-claim"


@dataclass(frozen=True)
class Rubric:
    """What one written answer must and must not say. ``least`` is the least number of words."""

    concepts: tuple[Concept, ...]
    wrong_claims: tuple[WrongClaim, ...] = ()
    least: int = 8

    def missing(self, text: str) -> list[Concept]:
        """The concepts that no sentence of the text has."""
        parts = [_fold(sentence) for sentence in sentences(text)]
        return [c for c in self.concepts if all(_rest(p, c.phrases) is None for p in parts)]

    def claimed(self, text: str) -> list[tuple[WrongClaim, str]]:
        """The wrong claims that the text makes, each with the sentence that makes it."""
        found = []
        for claim in self.wrong_claims:
            for sentence in sentences(text):
                # A denial in the claim's own words («does not re-read») is part of the claim.
                rest = _rest(_fold(sentence), claim.phrases)
                if rest is not None and not _NEGATION.search(rest):
                    found.append((claim, sentence))
        return found

    def require(self, section: Section, *, expected: str, why: str = "", next: str = "") -> None:
        """Fail where the section's own text makes a wrong claim, is no sentence, or lacks a concept."""
        text = prose(section.text)
        here = f"Under «{section.title}» (line {section.line})"
        for claim, sentence in self.claimed(text):
            raise Fail(
                expected,
                f"{here} it says that {claim.name}.",
                why=why,
                next=claim.correction,
                diagnosis=claim.diagnosis,
                evidence=(sentence,),
            )
        if problem := no_sentence(text, self.least):
            raise Fail(
                expected,
                f"{here} {problem}.",
                why=why,
                next=next or "Write it as a sentence.",
                diagnosis="no-sentence",
                evidence=tuple(text.splitlines()[:3]),
            )
        lacking = self.missing(text)
        if lacking:
            names = "; ".join(concept.name for concept in lacking)
            raise Fail(
                expected,
                f"{here} this was not found: {names}.",
                why=why,
                next=next or f"Say it; words that are looked for are {_examples(lacking[0])}.",
                diagnosis=lacking[0].diagnosis,
                evidence=tuple(text.splitlines()[:3]),
            )


def prose(text: str) -> str:
    """The text without fenced code, tables and citations: what is left are the learner's sentences."""
    lines = text.split("\n")
    for token in markdown.parser().parse(text):
        if token.map and token.type in ("fence", "code_block", "html_block", "table_open"):
            lines[token.map[0] : token.map[1]] = [""] * (token.map[1] - token.map[0])
    text = "\n".join(lines)
    kept, at, quoted = [], 0, False
    for start, end, content in markdown.raw_code_spans(text):
        is_place = parse_place(content) is not None
        kept += [text[at:start], " " if is_place or quoted else content]
        at, quoted = end, is_place
    return "".join([*kept, text[at:]]).strip()


def sentences(text: str) -> list[str]:
    """The text's sentences; a list item or a paragraph ends one."""
    pieces = re.split(r"(?<=[.!?;])\s+|\n\s*\n|\n\s*(?:[-*+]|\d+[.)])\s+", text)
    return [piece.strip() for piece in pieces if piece.strip()]


def no_sentence(text: str, least: int) -> str:
    """Why the text is no answer in sentences, as the end of «Under … »; empty where it is one."""
    words = _fold(text).split()
    if len(words) < least:
        return f"there are {len(words)} words; at least {least} are needed to say it"
    if len(set(words)) < least // 2:
        return "the same words are repeated"
    glue = sum(word in _FUNCTION_WORDS for word in words)
    if glue < max(1, len(words) // 10):
        return "there is a list of words, not a sentence"
    return ""


def _fold(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


def _rest(folded: str, alternatives: Sequence[Alternative]) -> str | None:
    """What is left of the folded sentence around the first alternative that it says; None if none."""
    for each in alternatives:
        rest = folded
        for phrase in (each,) if isinstance(each, str) else each:
            match = _pattern(phrase).search(folded)
            if match is None:
                break
            rest = rest.replace(match[0], " ", 1)
        else:
            return rest
    return None


def _pattern(phrase: str) -> re.Pattern[str]:
    """A phrase as a pattern over folded text. A hyphenated word also matches written as one."""
    words = []
    for word in re.findall(r"[^\W_]+(?:-[^\W_]+)*\*?|…", phrase.casefold()):
        if word == "…":
            words.append(r"(?:\w+ ){0,6}?")
            continue
        open_end = word.endswith("*")
        parts = [re.escape(part) for part in word.rstrip("*").split("-")]
        words.append(" ?".join(parts) + (r"\w*" if open_end else "") + r"(?: |$)")
    return re.compile(r"(?:^|(?<= ))" + "".join(words))


def _examples(concept: Concept) -> str:
    shown = [
        " with ".join(f"«{p}»" for p in ((a,) if isinstance(a, str) else a))
        for a in concept.phrases[:3]
    ]
    return ", ".join(shown).replace("*", "…")
