"""Judges a written answer by what it says for certain; the learner judges the rest.

Three outcomes, none of which rests on a word that has to be there:

- :class:`Known`: all of the answer is made of clauses that are known to be true, and
  together they say every point. One word that no clause accounts for, and it is not known.
- :class:`Claimed`: a clause of the answer is a claim that is known to be wrong, and
  nothing beside it could deny, doubt or report it.
- :class:`Open`: anything else, which is most of what people write. The learner is
  shown the points of a complete answer and says which of them the sentence has.

:class:`Unreadable` is what nobody can judge: no sentence, another language, the
question itself.

A pattern is words in the order of the sentence: ``[a|b]`` may be there, ``(a|b)``
must, ``{name}`` stands for a pattern of the question's own ``words``, ``*`` at the end of
a word for any ending. Case, hyphens, quotation marks and markup do not count.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from grader.evidence import markdown
from grader.evidence.citations import parse_place

#: Characters of an answer to a question that asks for a sentence or three.
LONGEST = 2000
#: Words below which nothing has been said.
SHORTEST = 3
#: Words above which an answer is not taken apart into clauses.
_WORDS = 120

#: What may join two true clauses without making them say something else.
_JOINS = re.compile(
    r"(?:\.|and|also|so|because|but|while|as|since|then|thus|therefore|hence|that is|which means"
    r"|though|however|moreover) "
)
#: A sign that may change what the words beside it say: ``!=``, an arrow, quotation marks.
_SIGNS = re.compile(r"[^\w\s.,;:!()'’`*/\-–—]|!(?!\s|$)|(?<!\w)/|/(?!\w)|(?<!\w)-(?!\s)")
#: In a sentence with one of these, a clause may be denied, doubted, supposed or reported.
_DOUBTS = re.compile(
    r"\b(?:not?|never|neither|nor|none|nobody|nothing|cannot|cant|wont|\w+nt|without|instead|rather"
    r"|wrong\w*|false\w*|myth|mistake\w*|mistaken\w*|incorrect\w*|untrue|misconception\w*|misread\w*"
    r"|error|bug|trap|naive\w*|tempting|contrary|opposite|unlike|versus|vs"
    r"|think\w*|thought|believ\w*|assum\w*|suppos\w*|expect\w*|imagin\w*|pretend\w*|seem\w*|guess\w*"
    r"|claim\w*|sa(?:y|ys|id|ying)|tell\w*|told|call\w*|read|heard|hear|wrote|draw\w*|describ\w*"
    r"|would|could|should|might|may|maybe|perhaps|were|had|must"
    r"|if|unless|until|when|whenever|whether|although|though|even|otherwise|else|except|only|just|hardly"
    r"|before|former\w*|old\w*|earlier|once|used|ago|back then|longer|some|many|most|often|usually"
    r"|few|people|one|textbook\w*|diagram\w*|talk\w*|alternative\w*|suggest\w*|hypothetical\w*"
    r"|example|question|wonder\w*|i|we|you)\b"
)
#: Anywhere in an answer, one of these may take back what another sentence says.
_DENIALS = re.compile(
    r"\b(?:wrong\w*|false\w*|myth|mistake\w*|mistaken\w*|incorrect\w*|untrue|misconception\w*"
    r"|naive\w*|contrary|actually|in fact|in truth|in reality|not (?:so|true|the case|right)"
    r"|isnt (?:so|true|the case|right)|quote\w*|strike)\b"
)

#: Frequent words of other languages that are no English words.
_FOREIGN = frozenset(
    "der das und ist nicht mit den dem ein eine einen wird werden sind auch sich auf für von aus zu"
    " weil aber wenn nur noch bei über wie kann oder durch nach schon dass es wenn"
    " le la les des est une dans pour que qui pas sur par avec il elle sont ce cette mais aux du ne"
    " el los las del una es por para con que pero como más su se al lo está porque cuando"
    " il lo gli della di che è perché deve della delle per con non sono nel dal questo anche si alla"
    " o os um uma não em para com mais como mas ao pelo na são"
    " het een van niet dat zijn voor met ook maar wordt naar bij uit nog door"
    " nie jest się że na do co jak przez od po tak och att det som en på är av till inte".split()
) - frozenset(
    "a as at do in is it no on or so to an am be by he me my us we up if of die was per con non met"
    " van door com os o co est den des du e y".split()
)
_ENGLISH = frozenset(
    "a an and are as at be because but by can do does for from has have if in is it its not of on or"
    " so than that the then there this to was what when where which while who will with".split()
)


@dataclass(frozen=True)
class Point:
    """Something that a complete answer says. ``text`` is a sentence that a learner can tick."""

    id: str
    text: str


@dataclass(frozen=True)
class Clause:
    """A pattern for words that are true as they stand, and the points that they say."""

    pattern: str
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class WrongClaim:
    """A claim that contradicts a fact: its name, its patterns, the fact, and where that stands."""

    diagnosis: str
    name: str
    patterns: tuple[str, ...]
    fact: str
    cited: str = ""
    #: Patterns that anywhere in the answer make it uncertain what is claimed.
    unless: tuple[str, ...] = ()


@dataclass(frozen=True)
class Known:
    """The answer is known to be right."""


@dataclass(frozen=True)
class Claimed:
    """The answer makes a wrong claim, in this sentence."""

    claim: WrongClaim
    sentence: str


@dataclass(frozen=True)
class Open:
    """Only a reader can judge it."""


@dataclass(frozen=True)
class Unreadable:
    """There is nothing to judge. ``why`` ends the sentence «Under the heading …»."""

    why: str
    next: str
    diagnosis: str


Judgement = Known | Claimed | Open | Unreadable


@dataclass(frozen=True)
class Rubric:
    """What is known of the answers to one question."""

    points: tuple[Point, ...]
    right: tuple[Clause, ...] = ()
    wrong: tuple[WrongClaim, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)

    def judge(self, text: str, question: str = "") -> Judgement:
        """What is known of the text. ``question`` is what was asked: repeating it is no answer."""
        if (problem := unreadable(text, question)) is not None:
            return problem
        whole = folded(text)
        for claim in self.wrong:
            if any(self._compiled(pattern).search(whole) for pattern in claim.unless):
                continue
            for sentence in sentences(text):
                made = self._made(claim, sentence)
                if made and not _DENIALS.search(whole.replace(made, "", 1)):
                    return Claimed(claim, sentence)
        return Known() if self._all_known(text) else Open()

    def _made(self, claim: WrongClaim, sentence: str) -> str:
        """The words with which the sentence makes the claim for certain; empty where it does not."""
        if _SIGNS.search(sentence):  # asked, somebody else's words, crossed out
            return ""
        pieces = folded(sentence, commas=True)
        for pattern in claim.patterns:
            for match in self._compiled(pattern).finditer(pieces):
                before, after = pieces[: match.start()], pieces[match.end() :]
                if not _begins(before) or not _ends(after):
                    continue
                # What the claim's own pattern has of denials is part of the claim.
                if not _DOUBTS.search(f"{before} , {after}"):
                    return match[0]
        return ""

    def _all_known(self, text: str) -> bool:
        """Whether the text can be taken apart into known clauses that say every point."""
        if _SIGNS.search(text):
            return False
        parts = folded(text, ends=True)
        if len(parts.split()) > _WORDS:
            return False
        wanted = frozenset(point.id for point in self.points)
        # Where a clause can begin, with the points said up to there.
        reached: dict[int, set[frozenset[str]]] = {0: {frozenset()}}
        clauses = [(self._compiled(clause.pattern), clause.says) for clause in self.right]
        for start in (match.start() for match in re.finditer(r"\S+ ", parts)):
            if start not in reached:
                continue
            said = reached[start]
            if (join := _JOINS.match(parts, start)) is not None:
                reached.setdefault(join.end(), set()).update(said)
            for compiled, says in clauses:
                for end in _ends_of(compiled, parts, start):
                    reached.setdefault(end, set()).update(one | set(says) for one in said)
        return wanted in reached.get(len(parts), ())

    def _compiled(self, pattern: str) -> re.Pattern[str]:
        return _compiled(pattern, tuple(sorted(self.words.items())))


def unreadable(text: str, question: str = "") -> Unreadable | None:
    """Why nobody can judge the text, or None."""
    if len(text) > LONGEST:
        return Unreadable(
            f"there are {len(text):,} characters; an answer here has {LONGEST:,} at most",
            "Write only the few sentences that were asked for.",
            "answer-too-long",
        )
    for character in text:
        if unicodedata.category(character) == "Cc" and character not in "\n\t":
            return _control(character)
        if character in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069":
            return _control(character)
    letters = [character for character in text if character.isalpha()]
    latin = sum("LATIN" in unicodedata.name(character, "") for character in letters)
    words = folded(text).split()
    foreign = sum(word in _FOREIGN for word in words)
    if latin < len(letters) * 0.6 or foreign > max(2, sum(word in _ENGLISH for word in words)):
        return Unreadable(
            "the answer is in another language",
            "Answer in English; it need not be good English.",
            "answer-in-another-language",
        )
    if _repeats(words, question):
        return Unreadable(
            "it repeats the question and does not answer it",
            "Write what you would say to somebody who asks you this.",
            "question-repeated",
        )
    if len(words) < SHORTEST:
        count = f"there are {len(words)} words" if len(words) != 1 else "there is one word"
        return Unreadable(f"{count}, which is no sentence", "Write a sentence.", "no-sentence")
    if len(set(words)) < max(3, len(words) // 4):
        return Unreadable("the same words are repeated", "Write a sentence.", "no-sentence")
    return None


def _control(character: str) -> Unreadable:
    return Unreadable(
        f"there is a character that cannot be shown, U+{ord(character):04X}",
        "Delete it, or type the sentence again.",
        "control-character",
    )


def _repeats(words: list[str], question: str) -> bool:
    asked = folded(question).split()
    if not asked or not words:
        return False
    same = difflib.SequenceMatcher(None, asked, words, autojunk=False)
    blocks = sum(block.size for block in same.get_matching_blocks() if block.size > 2)
    return blocks >= 0.9 * len(words) and len(words) >= min(SHORTEST, len(asked))


def prose(text: str) -> str:
    """The text without fenced code, tables and citations: what is left are the learner's sentences."""
    lines = text.split("\n")
    for token in markdown.parser().parse(text):
        if token.map and token.type in ("fence", "code_block", "html_block", "table_open"):
            lines[token.map[0] : token.map[1]] = [""] * (token.map[1] - token.map[0])
    text = re.sub(r"~~.*?~~", " ", "\n".join(lines))
    kept, at, quoted = [], 0, False
    for start, end, content in markdown.raw_code_spans(text):
        is_place = parse_place(content) is not None
        kept += [text[at:start], " " if is_place or quoted else content]
        at, quoted = end, is_place
    return "".join([*kept, text[at:]]).strip()


def sentences(text: str) -> list[str]:
    """The text's sentences; a list item or a paragraph ends one."""
    pieces = re.split(r"(?<=[.!?;])\s+|\n\s*\n|\n\s*(?:[-*+]|\d+[.)])\s+", text)
    return [" ".join(piece.split()) for piece in pieces if piece.strip()]


def folded(text: str, *, commas: bool = False, ends: bool = False) -> str:
    """The text's words in lower case, a space after each.

    ``commas`` keeps what sets a clause apart as ``,``; ``ends`` keeps a sentence's end as ``.``.
    """
    text = re.sub(r"['’`*_]", "", text.casefold()) if text.isascii() else _plain(text)
    if ends:
        text = re.sub(r"[.!;](?=\s|$)|\n\s*\n|\n\s*(?:[-*+]|\d+[.)])\s", " \0 ", text)
    if commas:
        text = re.sub(r"[,:()]|[.!;](?=\s|$)|\s[-–—]+\s|—|[«»\"“”]", " \1 ", text)
    found = re.findall(r"[^\W_]+|[\0\1]", text)
    words = "".join(f"{word} " for word in found)
    return words.replace("\0", ".").replace("\1", ",")


def _plain(text: str) -> str:
    """Text with its typographic variants normalised: ligatures, full-width letters, soft hyphens."""
    text = unicodedata.normalize("NFKC", text).replace("\u00ad", "").replace("\u200b", "")
    return re.sub(r"['’`*_]", "", text.casefold())


def _begins(before: str) -> bool:
    """Whether a clause can begin after these words of its sentence."""
    words = before.split()
    return not words or words[-1] in {",", "and", "so", "because", "but", "since", "while", "as"}


def _ends(after: str) -> bool:
    """Whether a clause can end before these words of its sentence."""
    words = after.split()
    return not words or words[0] in {",", "and", "so", "because", "but", "since", "while", "thus"}


def _ends_of(compiled: re.Pattern[str], text: str, start: int) -> Iterable[int]:
    """Every place at which the pattern can end, from ``start``."""
    longest = compiled.match(text, start)
    if longest is None:
        return
    for match in re.finditer(" ", text[start:]):
        end = start + match.end()
        if compiled.fullmatch(text, start, end):
            yield end


@functools.cache
def _compiled(pattern: str, words: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    return re.compile(f"(?:{_expression(pattern, dict(words))})")


def _expression(pattern: str, words: Mapping[str, str], depth: int = 0) -> str:
    """A pattern as a regular expression over folded text. Raises ValueError for a bad one."""
    if depth > 8:
        raise ValueError(f"{pattern!r} has itself in it")
    made: list[str] = []
    for token in re.findall(r"\{\w+\}|[\[\]()|]|[^\W_]+\*?|\S", pattern.casefold()):
        if token == "[" or token == "(":
            made.append("(?:")
        elif token == "]":
            made.append(")?")
        elif token in ")|":
            made.append(token)
        elif token.startswith("{"):
            if token[1:-1] not in words:
                raise ValueError(f"{pattern!r}: there are no words {token}")
            made.append(f"(?:{_expression(words[token[1:-1]], words, depth + 1)})")
        elif token.rstrip("*").isalnum():
            ending = r"[^\W_]*" if token.endswith("*") else ""
            made.append(rf"(?<![^ ]){re.escape(token.rstrip('*'))}{ending} ")
        else:
            raise ValueError(f"{pattern!r}: {token!r} is no part of a pattern")
    return "".join(made)


def digest(text: str) -> str:
    """Tells one sentence from another; how it is broken into lines does not count."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()


def check(rubric: Rubric) -> Sequence[str]:
    """What is wrong with a rubric itself, as sentences: patterns that cannot be, points never said."""
    found = []
    ids = [point.id for point in rubric.points]
    for pattern in [c.pattern for c in rubric.right] + [
        p for w in rubric.wrong for p in (*w.patterns, *w.unless)
    ]:
        try:
            rubric._compiled(pattern)
        except (ValueError, re.error) as error:
            found.append(str(error))
    for clause in rubric.right:
        found += [f"{clause.pattern!r} says {i!r}, no point" for i in clause.says if i not in ids]
    if not 2 <= len(ids) <= 3 or len(set(ids)) != len(ids):
        found.append("an answer has two or three points, each with its own id")
    return found
