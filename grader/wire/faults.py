"""The faults and the options of rules, each in one place.

The grammar, its checks, ``phase4 fault rules`` and the reference page are made of
these two tables. What a fault does to a request is in :mod:`grader.wire.proxy`, to
an event in :mod:`grader.wire.watching`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from grader.wire.selector import several

ALWAYS = -1
#: The width of what is printed in a terminal.
_WIDTH = 81
_FIRST = 27


@dataclass(frozen=True)
class Fault:
    """One thing that a rule can do. The texts say to what, and what it means there.

    ``request`` acts when a request arrives, ``answer`` once the API server has
    applied a write, ``event`` on what a watch delivers; "" is not at all.
    """

    word: str
    request: str = ""
    answer: str = ""
    event: str = ""
    #: Acts until the rule is removed, not once.
    lasts: bool = False
    #: What follows the word: ``CODE``, ``TIME``, or nothing.
    operand: str = ""

    @property
    def events_only(self) -> bool:
        """Acts on delivered events alone, which implies the verb watch."""
        return not (self.request or self.answer)


FAULTS = {
    fault.word: fault
    for fault in (
        Fault("kill-before", request="SIGKILL the process; the request is not forwarded"),
        Fault("kill-after", answer="forward; once applied, SIGKILL before it hears of it"),
        Fault(
            "answer",
            operand="CODE",
            request="answer CODE (409, 410, 422, 429, 500, 503, ...), and do not forward; "
            "``answer 504 reason=ResourceVersionTooLarge`` is a server that lags behind what "
            "the client has seen",
        ),
        Fault(
            "timeout",
            request="answer 504 Timeout without forwarding; with ``applied=yes``, forward first: "
            "it did happen",
        ),
        Fault("drop-answer", answer="forward; once applied, cut the connection unanswered"),
        Fault("hold", lasts=True, request="hold back, unforwarded, until the rule is removed"),
        Fault(
            "delay",
            operand="TIME",
            lasts=True,
            request="wait (``200ms``, ``1.5s``) before forwarding; with ``part=answer``, before "
            "answering",
            event="deliver each event that much later, in order",
        ),
        Fault(
            "cut",
            request="cut the connection, and do not forward",
            event="cut the open watches at once (if none is open, the next one); with event "
            "types, cut in place of delivering that event. ``cleanly=yes`` ends it as a server "
            "does whose time is up",
        ),
        Fault(
            "refuse-watchlist",
            lasts=True,
            request="refuse ``sendInitialEvents`` as a server without WatchList does, so that "
            "clients list",
        ),
        Fault(
            "freeze",
            lasts=True,
            request="as ``hold``, unless the verb is ``watch``",
            event="events queue up until the rule is removed",
        ),
        Fault("hide", event="withhold one event for good"),
        Fault(
            "error",
            operand="CODE",
            event="put an ERROR event into the open watches (or the next one) and end them, as "
            "the API server says 410",
        ),
    )
}


@dataclass(frozen=True)
class Option:
    """``word=value``: the field of a rule that it sets, and how a value is read and shown.

    ``read`` raises ValueError, whose text says what the option takes. ``of`` are the
    faults that it means something for; empty is all.
    """

    word: str
    field: str
    value: str
    means: str
    read: Callable[[str], Any] = str
    show: Callable[[Any], str] = str
    of: tuple[str, ...] = ()


def _number(kind: type, low: float) -> Callable[[str], Any]:
    def read(value: str) -> Any:
        try:
            number = kind(value)
        except ValueError:
            number = None
        if number is None or not number >= low:
            raise ValueError(f"a number from {low} up")
        return number

    return read


def _times(value: str) -> int:
    return ALWAYS if value == "always" else _number(int, 1)(value)


def _yes_or_no(value: str) -> bool:
    if value not in ("yes", "no"):
        raise ValueError("yes or no")
    return value == "yes"


def _part(value: str) -> str:
    if value not in ("request", "answer"):
        raise ValueError("request or answer")
    return value


def _plurals(value: str) -> frozenset[str]:
    return frozenset(one.resource for one in several(value))


OPTIONS = (
    Option("ns", "namespace", "NAME", "only in this namespace"),
    Option("name", "name", "NAME", "only the object of this name"),
    Option("client", "client", "NAME", "only on the wire of this client"),
    Option(
        "except",
        "excepted",
        "RESOURCES",
        "all resources but these (``except=leases,events``), with their subresources",
        _plurals,
        lambda names: ",".join(sorted(names)),
    ),
    Option(
        "path",
        "path",
        "PREFIX",
        "only requests whose path begins so; alone, it reaches what is no resource (discovery, "
        "health)",
    ),
    Option("version", "version", "N", "only requests (not events) that ask for resourceVersion N"),
    Option(
        "before",
        "before",
        "N",
        "only requests that ask for a resourceVersion before N (not 0), and open watches",
        _number(int, 1),
    ),
    Option("nth", "nth", "N", "from the N-th match on after the rule was added", _number(int, 1)),
    Option(
        "times",
        "times",
        "N",
        "N matches, or ``always``: 1 by default, and ``always`` for "
        + ", ".join(f"``{fault.word}``" for fault in FAULTS.values() if fault.lasts),
        _times,
        lambda times: "always" if times == ALWAYS else str(times),
    ),
    Option(
        "chance",
        "chance",
        "0.3",
        "the run's seed decides whether it acts on a match",
        _number(float, 0),
        lambda chance: f"{chance:g}",
    ),
    Option(
        "retry-after",
        "retry_after",
        "SECONDS",
        "the header Retry-After",
        _number(int, 0),
        of=("answer",),
    ),
    Option("reason", "reason", "WORD", "the Status' reason", of=("answer", "timeout", "error")),
    Option(
        "message",
        "message",
        "TEXT",
        "the Status' message (``_`` for a space)",
        lambda text: text.replace("_", " "),
        lambda text: text.replace(" ", "_"),
        ("answer", "timeout", "error"),
    ),
    Option("part", "part", "answer", "hold back the answer, not the request", _part, of=("delay",)),
    Option(
        "applied",
        "applied",
        "yes",
        "apply it all the same",
        _yes_or_no,
        lambda yes: "yes" if yes else "no",
        ("timeout",),
    ),
    Option(
        "cleanly",
        "cleanly",
        "yes",
        "end a watch in order, not as a broken connection",
        _yes_or_no,
        lambda yes: "yes" if yes else "no",
        ("cut",),
    ),
)
#: By the word that a rule has; ``namespace`` is what kubectl calls it.
BY_WORD = {option.word: option for option in OPTIONS} | {"namespace": OPTIONS[0]}

_INTRODUCTION = """\
Rules: what the wire does to the requests and events that match.

A rule is an action, a selector and options, in words::

    ACTION [VERBS] [RESOURCES] [key=value ...]

Actions on requests (``VERBS`` and ``RESOURCES`` say which; both may be left
out):
"""
_EVENTS = """\
Actions on what a watch delivers (``VERBS`` is ``watch``; event types may stand
before it: ``hide DELETED watch configmaps name=x``):
"""
_SELECTORS = """\
``freeze`` and ``cut`` without a verb take in everything: a partition
(``cut times=always``) or a silent one (``freeze``). When a ``freeze`` or a
``hold`` is removed, what it held back goes on.

Selectors: ``VERBS`` is a comma list of ``get list watch create update patch
delete deletecollection``, or ``write``, ``read``, ``any``; ``list`` takes in a
watch that asks for the initial events, since client-go lists that way.
``RESOURCES`` is a comma list of plurals, each ``pods``, ``pods/status``,
``pods/*`` (the Pods, with every subresource), ``deployments.apps``, or ``any``.

Options, for all actions or for those that are named:
"""
_LAST = """\
The first rule that matches and fires, in the order in which they were added,
decides; after a delay the next one is tried as well.
"""


def reference(*, plain: bool = False) -> str:
    """All of it for a person, as a docstring has it (reStructuredText); ``plain`` for a terminal."""
    on_requests = [
        (_called(f), f.request or f.answer) for f in FAULTS.values() if not f.events_only
    ]
    on_events = [(_called(f), f.event) for f in FAULTS.values() if f.event]
    options = [
        (f"{o.word}={o.value}", (f"{', '.join(o.of)}: " if o.of else "") + o.means) for o in OPTIONS
    ]

    def said(text: str) -> str:
        return text.replace("``", "") if plain else text

    def table(rows: Iterable[tuple[str, str]]) -> str:
        return _table((said(f"``{first}``"), said(second)) for first, second in rows)

    parts = (
        *(said(_INTRODUCTION), table(on_requests), said(_EVENTS), table(on_events)),
        *(said(_SELECTORS), table(options), _LAST),
    )
    return "\n".join(parts)


def _called(fault: Fault) -> str:
    return f"{fault.word} {fault.operand}".rstrip()


def _table(rows: Iterable[tuple[str, str]]) -> str:
    width = _WIDTH - _FIRST - 2
    border = "=" * _FIRST + "  " + "=" * width
    lines = [border]
    for first, second in rows:
        wrapped = textwrap.wrap(second, width, break_long_words=False, break_on_hyphens=False)
        lines += [f"{first if n == 0 else '':{_FIRST}}  {text}" for n, text in enumerate(wrapped)]
    return "\n".join([*lines, border, ""])
