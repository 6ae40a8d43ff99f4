"""Rules: what a wire is told to do, in words or typed.

    ACTION [VERBS] [RESOURCES] [key=value ...]

The actions and the options are in :mod:`grader.wire.faults`, from which the page on
faults and ``phase4 fault rules`` are made.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from grader.wire.faults import ALWAYS, BY_WORD, FAULTS, OPTIONS, Fault
from grader.wire.records import WRITE_VERBS
from grader.wire.requests import RequestInfo
from grader.wire.selector import ResourceSelector, SelectorError, several

READ_VERBS = frozenset({"get", "list", "watch"})
_VERBS = READ_VERBS | WRITE_VERBS
_VERB_WORDS = {"write": WRITE_VERBS, "read": READ_VERBS, "any": frozenset(), "*": frozenset()}
EVENT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})

#: The reason that the API server gives with a code; apimachinery meta/v1 StatusReason.
REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

#: The cause with which a 504 says that the version asked for is not there yet.
TOO_LARGE = "ResourceVersionTooLarge"

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?$")


class RuleError(ValueError):
    """A rule that says nothing the wire can do; the message is for a person."""

    #: A command line with one in it is wrong (grader.cli.exit_codes.USAGE).
    exit_code = 2


@dataclass(frozen=True)
class Rule:
    """A rule, typed; :func:`parse_rule` makes one of text, ``str()`` the text again.

    Empty ``verbs``, ``resources``, ``namespace``, ``name`` and ``client`` match
    everything. Seconds are floats.

    >>> Rule("answer", verbs=frozenset({"update"}),
    ...      resources=(ResourceSelector("foos"),), code=409)
    """

    action: str
    verbs: frozenset[str] = frozenset()
    resources: tuple[ResourceSelector, ...] = ()
    namespace: str = ""
    name: str = ""
    client: str = ""
    #: Resources (plurals) it has nothing to do with.
    excepted: frozenset[str] = frozenset()
    #: What a request's path begins with; discovery is selected by nothing else.
    path: str = ""
    #: The resourceVersion that a list or watch asks for.
    version: str = ""
    #: The lowest resourceVersion that is still there: only what asks for an older one.
    before: int = 0
    nth: int = 1
    #: How many matches it acts on; ALWAYS for as long as it is there.
    times: int | None = None
    chance: float = 1.0
    events: frozenset[str] = frozenset()
    code: int = 0
    reason: str = ""
    message: str = ""
    retry_after: int | None = None
    seconds: float = 0.0
    #: ``request`` or ``answer``: which of them a delay keeps back.
    part: str = "request"
    #: timeout: carried out although the process is told that time ran out.
    applied: bool = False
    #: cut: as a server ends a watch, not as a broken connection.
    cleanly: bool = False
    text: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.times is None:
            object.__setattr__(self, "times", _default_times(self.action))
        _validate(self)

    @property
    def fault(self) -> Fault:
        """What its action is."""
        return FAULTS[self.action]

    def selects(self, info: RequestInfo, client: str) -> bool:
        """Whether verb, resource, namespace and client fit; name and version are looked at apart."""
        if self.path and not info.path.startswith(self.path):
            return False
        if not info.is_resource and not self.path:
            return False
        if self.verbs and info.verb not in self.verbs:
            if not (info.watch_list and "list" in self.verbs):
                return False
        if self.resources and not any(r.matches(info) for r in self.resources):
            return False
        if info.resource in self.excepted:
            return False
        if self.namespace and info.namespace != self.namespace:
            return False
        return not self.client or self.client == client

    def asks_for(self, version: str) -> bool:
        """Whether it has to do with a request whose query has that resourceVersion."""
        if self.version and version != self.version:
            return False
        return not self.before or (version.isdigit() and 0 < int(version) < self.before)

    @property
    def on_events(self) -> bool:
        """Whether it acts on what open watches deliver."""
        return bool(self.fault.event) and (not self.verbs or "watch" in self.verbs)

    @property
    def on_requests(self) -> bool:
        """Whether it acts on requests when they arrive.

        A delay, freeze or cut of ``watch`` is meant for the events: the request
        that opens the watch is let through.
        """
        if not self.fault.request or self.events:
            return False
        if self.fault.event and self.verbs == {"watch"}:
            return self.action == "cut" and self.times == ALWAYS
        return True

    @property
    def on_answers(self) -> bool:
        """Whether it acts once the API server has applied a write."""
        return bool(self.fault.answer)

    def __str__(self) -> str:
        return self.text or _format(self)


def _default_times(action: str) -> int:
    return ALWAYS if action in FAULTS and FAULTS[action].lasts else 1


def _validate(rule: Rule) -> None:
    if rule.action not in FAULTS:
        near = difflib.get_close_matches(rule.action, FAULTS, 1)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise RuleError(
            f"«{rule.action}» is not something a rule can do{hint} "
            f"Rules begin with one of: {', '.join(FAULTS)}. `phase4 fault remove` removes a rule."
        )
    fault = rule.fault
    if fault.operand == "CODE" and not 400 <= rule.code <= 599:
        raise RuleError(
            f"«{fault.word}» needs an error's code, 400 to 599, for example: "
            f"{fault.word} {410 if fault.events_only else 409} …"
        )
    if fault.operand == "TIME" and rule.seconds <= 0:
        raise RuleError(f"«{fault.word}» needs a time, for example: delay 200ms create pods")
    if rule.events and not fault.event:
        raise RuleError(f"«{fault.word}» acts on requests, so it takes no event types.")
    if fault.events_only and rule.verbs - {"watch"}:
        raise RuleError(f"«{fault.word}» acts on watches only: write {fault.word} … watch …")
    if fault.answer and rule.verbs and not rule.verbs & WRITE_VERBS:
        raise RuleError(
            f"«{fault.word}» waits until the API server has applied a write, "
            "so its verb must be one that writes."
        )
    for option in OPTIONS:
        if option.of and fault.word not in option.of and _given(rule, option.field):
            raise RuleError(
                f"«{option.word}=» means nothing to «{fault.word}»: "
                f"it is an option of {', '.join(option.of)}."
            )
    if rule.nth < 1:
        raise RuleError("nth= counts from 1.")
    if rule.times != ALWAYS and (rule.times or 0) < 1:
        raise RuleError("times= is a number from 1 up, or always.")
    if not 0 < rule.chance <= 1:
        raise RuleError("chance= is above 0 and at most 1.")
    if rule.part not in ("request", "answer"):
        raise RuleError("part= is request or answer.")


def _given(rule: Rule, field: str) -> bool:
    """Whether a field says something else than it does where it is left out."""
    default = Rule.__dataclass_fields__[field].default
    return getattr(rule, field) != (_default_times(rule.action) if field == "times" else default)


def status_object(code: int, reason: str, message: str, retry_after: int | None = None) -> dict:
    """A ``Status`` as the API server sends it with an error."""
    status: dict = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason or REASONS.get(code, "Unknown"),
        "code": code,
    }
    if reason == TOO_LARGE:
        # apiserver storage/errors.go, NewTooLargeResourceVersionError: the reason is the cause's.
        status["reason"] = REASONS[504]
        cause = {"reason": TOO_LARGE, "message": "Too large resource version"}
        status["details"] = {"causes": [cause]}
    if retry_after is not None:
        status.setdefault("details", {})["retryAfterSeconds"] = retry_after
    return status


def parse_rules(texts: Iterable[str | Rule]) -> list[Rule]:
    """Rules of texts and rules; the first wrong one raises :class:`RuleError`."""
    return [text if isinstance(text, Rule) else parse_rule(text) for text in texts]


def parse_rule(text: str) -> Rule:
    """The rule that ``text`` says; raises :class:`RuleError` with a sentence that says how to write it.

    >>> parse_rule("answer 429 retry-after=2 create pods ns=a nth=2").retry_after
    2
    """
    words = text.split()
    if not words:
        raise RuleError("An empty rule; for example: answer 409 update foos nth=1")
    action, given = words[0], {}
    return _build(action, words[1:], given, text)


def _build(action: str, words: list[str], given: dict, text: str) -> Rule:
    plain: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            _set_option(given, key, value, word)
        else:
            plain.append(word)
    fault = FAULTS.get(action, Fault(action))
    if fault.operand == "CODE" and plain and plain[0].isdigit():
        given["code"] = int(plain.pop(0))
    if fault.operand == "TIME" and plain and plain[0][0].isdigit():
        given["seconds"] = _duration(plain.pop(0))
    if plain and plain[0].split(",")[0] in EVENT_TYPES:
        given["events"] = _words(plain.pop(0), EVENT_TYPES, "event type")
    if plain and _is_verbs(plain[0]):
        given["verbs"] = _verbs(plain.pop(0))
    elif (fault.event and fault.events_only) or given.get("events"):
        given["verbs"] = frozenset({"watch"})
    if plain:
        given["resources"] = _read(several, plain.pop(0))
    if plain:
        raise RuleError(
            f"In the rule «{text}» nothing can be made of «{' '.join(plain)}»: "
            "the order is ACTION VERBS RESOURCES key=value …"
        )
    return Rule(action, **given, text=" ".join(text.split()))


def _is_verbs(word: str) -> bool:
    if word == "*" or word in _VERB_WORDS:
        return True
    first = word.split(",")[0]
    if first in _VERBS or first in _VERB_WORDS:
        return True
    # A verb in capitals or with a typing slip should not be taken for a resource.
    if first.lower() in _VERBS or (
        not first.endswith("s") and difflib.get_close_matches(first.lower(), _VERBS, 1, 0.8)
    ):
        near = difflib.get_close_matches(first.lower(), _VERBS, 1)
        raise RuleError(f"«{first}» is not a verb; did you mean {near[0]}?")
    return False


def _verbs(word: str) -> frozenset[str]:
    verbs: set[str] = set()
    for part in word.split(","):
        if part in ("any", "*"):
            return frozenset()
        verbs |= _VERB_WORDS.get(part) or _words(part, _VERBS, "verb")
    return frozenset(verbs)


def _words(word: str, allowed: frozenset[str], what: str) -> frozenset[str]:
    parts = frozenset(word.split(","))
    for part in parts - allowed:
        raise RuleError(f"«{part}» is not a {what}; the {what}s are {', '.join(sorted(allowed))}.")
    return parts


def _read(read: Callable[[str], Any], value: str) -> Any:
    try:
        return read(value)
    except SelectorError as e:
        raise RuleError(str(e)) from None


def _duration(word: str) -> float:
    match = _DURATION.match(word)
    if not match:
        raise RuleError(f"«{word}» is not a time: write 200ms, 1.5s or 2m")
    return float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}[match[2]]


def _set_option(given: dict, key: str, value: str, word: str) -> None:
    option = BY_WORD.get(key)
    if option is None:
        raise RuleError(
            f"«{key}=» is not an option of a rule; the options are "
            f"{', '.join(option.word for option in OPTIONS)}."
        )
    try:
        given[option.field] = _read(option.read, value)
    except RuleError:
        raise
    except ValueError as e:
        raise RuleError(f"«{word}»: {key}= takes {e}.") from None


def _format(rule: Rule) -> str:
    """The shortest text that parses to ``rule``."""
    words = [rule.action]
    if rule.code:
        words.append(str(rule.code))
    if rule.seconds:
        words.append(f"{rule.seconds * 1000:g}ms")
    if rule.events:
        words.append(",".join(sorted(rule.events)))
    if rule.verbs or rule.resources:
        words.append(",".join(sorted(rule.verbs)) or "any")
    if rule.resources:
        words.append(",".join(map(str, rule.resources)))
    words += [
        f"{option.word}={option.show(getattr(rule, option.field))}"
        for option in OPTIONS
        if _given(rule, option.field)
    ]
    return " ".join(words)
