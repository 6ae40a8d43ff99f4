"""Rules: what the wire does to the requests and events that match.

A rule is an action, a selector and options, in words::

    ACTION [VERBS] [RESOURCES] [key=value ...]

Actions on requests (``VERBS`` and ``RESOURCES`` say which; both may be left out):

===========================  ====================================================
``kill-before``              SIGKILL the process; the request is not forwarded
``kill-after``               forward; once applied, SIGKILL before it hears of it
``answer CODE``              answer CODE (409, 410, 422, 429, 500, 503, ...), and do
                             not forward. Options: ``retry-after=SECONDS``,
                             ``reason=WORD``, ``message=TEXT`` (``_`` for a space);
                             ``answer 504 reason=ResourceVersionTooLarge`` is a server
                             that lags behind what the client has seen
``timeout``                  answer 504 Timeout without forwarding;
                             with ``applied=yes``, forward first: it did happen
``drop-answer``              forward; once applied, cut the connection unanswered
``hold``                     keep back, unforwarded, until the rule is removed
``delay TIME``               wait (``200ms``, ``1.5s``) before forwarding; with
                             ``part=answer``, before answering
``cut``                      cut the connection, and do not forward
``refuse-watchlist``         refuse ``sendInitialEvents`` as a server without
                             WatchList does, so that clients list
===========================  ====================================================

Actions on what a watch delivers (``VERBS`` is ``watch``; event types may stand
before it: ``hide DELETED watch configmaps name=x``):

===========================  ====================================================
``freeze``                   events queue up until the rule is removed
``hide``                     withhold one event for good
``delay TIME``               deliver each event that much later, in order
``cut``                      cut the open watches at once (if none is open, the
                             next one); with event types, cut in place of
                             delivering that event. ``cleanly=yes`` ends it as a
                             server does whose time is up
``error CODE``               put an ERROR event into the open watches (or the
                             next one) and end them, as the API server says 410
===========================  ====================================================

``thaw`` (also ``release``) with the same selector removes freezes and holds;
alone, all of them. ``freeze`` and ``cut`` without a verb take in everything: a
partition (``cut times=always``) or a silent one (``freeze``).

Selectors: ``VERBS`` is a comma list of ``get list watch create update patch
delete deletecollection``, or ``write``, ``read``, ``any``; ``list`` takes in a
watch that asks for the initial events, since client-go lists that way.
``RESOURCES`` is a comma list of plurals, each ``pods``, ``pods/status``,
``pods/*`` (the Pods, with every subresource), ``deployments.apps``, or ``any``.
``ns=``, ``name=``, ``client=`` narrow it down; ``except=leases,events`` leaves
resources out (with their subresources). ``path=PREFIX`` selects by the
request's path, and alone reaches what is no resource (discovery, health).
``version=N`` selects requests (not events) that ask for resourceVersion N.
``nth=N`` starts with the N-th match after the rule was added, ``times=N`` (or
``always``) ends after N. ``chance=0.3`` lets the run's seed decide. ``times`` is
1 by default, and ``always`` for ``hold``, ``freeze``, ``delay`` and
``refuse-watchlist``.

The first rule that matches and fires, in the order in which they were added,
decides; only delays let the next one have its say.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from grader.wire.records import WRITE_VERBS
from grader.wire.requests import RequestInfo
from grader.wire.selector import ResourceSelector, mistake_in

ALWAYS = -1

READ_VERBS = frozenset({"get", "list", "watch"})
_VERBS = READ_VERBS | WRITE_VERBS
_VERB_WORDS = {"write": WRITE_VERBS, "read": READ_VERBS, "any": frozenset(), "*": frozenset()}
EVENT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})

#: Actions, and whether they last until removed.
_ACTIONS = {
    "kill-before": False,
    "kill-after": False,
    "answer": False,
    "timeout": False,
    "drop-answer": False,
    "hide": False,
    "cut": False,
    "error": False,
    "hold": True,
    "freeze": True,
    "delay": True,
    "refuse-watchlist": True,
}
#: What acts on delivered events alone, so that it implies the verb watch.
_EVENT_ONLY = frozenset({"hide", "error"})
_EVENT_ACTIONS = frozenset({"hide", "error", "freeze", "delay", "cut"})
#: Decided when the API server has answered, and only if it applied a write.
AFTER_ACTIONS = frozenset({"kill-after", "drop-answer"})
THAWS = frozenset({"thaw", "release"})

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
            object.__setattr__(self, "times", ALWAYS if _ACTIONS.get(self.action) else 1)
        _validate(self)

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

    @property
    def on_events(self) -> bool:
        """Whether it acts on what open watches deliver."""
        return self.action in _EVENT_ACTIONS and (not self.verbs or "watch" in self.verbs)

    @property
    def on_requests(self) -> bool:
        """Whether it acts on requests when they arrive.

        A delay, freeze or cut of ``watch`` is meant for the events: the request
        that opens the watch is let through.
        """
        if self.action in _EVENT_ONLY or self.events or self.action in AFTER_ACTIONS:
            return False
        if self.action in _EVENT_ACTIONS and self.verbs == {"watch"}:
            return self.action == "cut" and self.times == ALWAYS
        return True

    def __str__(self) -> str:
        return self.text or _format(self)


def _validate(rule: Rule) -> None:
    if rule.action not in _ACTIONS:
        near = difflib.get_close_matches(rule.action, [*_ACTIONS, *THAWS], 1)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise RuleError(
            f"«{rule.action}» is not something a rule can do{hint} "
            f"Rules begin with one of: {', '.join(_ACTIONS)}, thaw."
        )
    if rule.action in ("answer", "error") and not 400 <= rule.code <= 599:
        raise RuleError(
            f"«{rule.action}» needs an error's code, 400 to 599, for example: "
            f"{rule.action} {410 if rule.action == 'error' else 409} …"
        )
    if rule.action == "delay" and rule.seconds <= 0:
        raise RuleError("«delay» needs a time, for example: delay 200ms create pods")
    if rule.events and rule.action not in _EVENT_ACTIONS:
        raise RuleError(f"«{rule.action}» acts on requests, so it takes no event types.")
    if rule.action in _EVENT_ONLY and rule.verbs - {"watch"}:
        raise RuleError(f"«{rule.action}» acts on watches only: write {rule.action} … watch …")
    if rule.action in AFTER_ACTIONS and rule.verbs and not rule.verbs & WRITE_VERBS:
        raise RuleError(
            f"«{rule.action}» waits until the API server has applied a write, "
            "so its verb must be one that writes."
        )
    if rule.nth < 1:
        raise RuleError("nth= counts from 1.")
    if rule.times != ALWAYS and (rule.times or 0) < 1:
        raise RuleError("times= is a number from 1 up, or always.")
    if not 0 < rule.chance <= 1:
        raise RuleError("chance= is above 0 and at most 1.")
    if rule.part not in ("request", "answer"):
        raise RuleError("part= is request or answer.")


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
    if action in THAWS:
        raise RuleError(f"«{action}» undoes a freeze or hold on a wire in use; it is no rule.")
    return _build(action, words[1:], given, text)


def parse_selector(text: str) -> Rule:
    """What ``thaw SELECTOR`` speaks of, as a freeze with that selector."""
    return _build("freeze", text.split()[1:], {}, text)


def _build(action: str, words: list[str], given: dict, text: str) -> Rule:
    plain: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            _set_option(given, key, value, word)
        else:
            plain.append(word)
    if action in ("answer", "error") and plain and plain[0].isdigit():
        given["code"] = int(plain.pop(0))
    if action == "delay" and plain and plain[0][0].isdigit():
        given["seconds"] = _duration(plain.pop(0))
    if plain and plain[0].split(",")[0] in EVENT_TYPES:
        given["events"] = _words(plain.pop(0), EVENT_TYPES, "event type")
    if plain and _is_verbs(plain[0]):
        given["verbs"] = _verbs(plain.pop(0))
    elif action in _EVENT_ONLY or given.get("events"):
        given["verbs"] = frozenset({"watch"})
    if plain:
        given["resources"] = _resources(plain.pop(0))
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


def _resources(word: str) -> tuple[ResourceSelector, ...]:
    selectors = []
    for part in word.split(","):
        if part in ("any", "*"):
            return ()
        if mistake := mistake_in(part):
            raise RuleError(mistake)
        selectors.append(ResourceSelector.parse(part))
    return tuple(selectors)


def _duration(word: str) -> float:
    match = _DURATION.match(word)
    if not match:
        raise RuleError(f"«{word}» is not a time: write 200ms, 1.5s or 2m")
    return float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}[match[2]]


def _set_option(given: dict, key: str, value: str, word: str) -> None:
    def number(kind: type, low: float) -> float:
        try:
            result = kind(value)
        except ValueError:
            result = None
        if result is None or result < low:
            raise RuleError(f"«{word}»: {key}= takes a number from {low} up.")
        return result

    def yes_or_no() -> bool:
        if value not in ("yes", "no"):
            raise RuleError(f"«{word}»: {key}= takes yes or no.")
        return value == "yes"

    if key in ("ns", "namespace"):
        given["namespace"] = value
    elif key in ("name", "client", "reason", "part", "path", "version"):
        given[key] = value
    elif key == "except":
        given["excepted"] = frozenset(r.resource for r in _resources(value))
    elif key == "message":
        given["message"] = value.replace("_", " ")
    elif key == "nth":
        given["nth"] = number(int, 1)
    elif key == "times":
        given["times"] = ALWAYS if value == "always" else number(int, 1)
    elif key == "chance":
        given["chance"] = number(float, 0)
    elif key == "retry-after":
        given["retry_after"] = number(int, 0)
    elif key in ("applied", "cleanly"):
        given[key] = yes_or_no()
    else:
        raise RuleError(
            f"«{key}=» is not an option of a rule; the options are ns, name, client, path, version, "
            "nth, times, chance, retry-after, reason, message, part, applied, cleanly."
        )


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
    options = {
        "ns": rule.namespace,
        "name": rule.name,
        "client": rule.client,
        "except": ",".join(sorted(rule.excepted)),
        "path": rule.path,
        "version": rule.version,
        "nth": rule.nth if rule.nth > 1 else "",
        "retry-after": "" if rule.retry_after is None else rule.retry_after,
        "reason": rule.reason,
        "message": rule.message.replace(" ", "_"),
        "part": rule.part if rule.part != "request" else "",
        "applied": "yes" if rule.applied else "",
        "cleanly": "yes" if rule.cleanly else "",
        "chance": f"{rule.chance:g}" if rule.chance < 1 else "",
    }
    if rule.times != (ALWAYS if _ACTIONS[rule.action] else 1):
        options["times"] = "always" if rule.times == ALWAYS else rule.times
    words += [f"{key}={value}" for key, value in options.items() if value != ""]
    return " ".join(words)
