"""What a statement of a learner's own operator is for: which of the five hand-wired parts.

It is told from what the statement calls. The names of functions and variables are the
learner's own; those of client-go and of ``machinery/`` are not, and a statement that does
a part's work calls them. What the call is made on (a queue, a cache, a client) is read from
how the name in front of it is declared, anywhere in the operator.

Three outcomes: it is that part's statement; it is another's, or no statement at all; or the
call is of something that is not known here, and then nothing is said against it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from grader.labs.taken_out import scanned


class NoStatement(Exception):
    """Why the line does nothing, as half a sentence about it."""


@dataclass(frozen=True)
class Call:
    """One call in a statement: ``c.queue.Add(key)`` has the receiver ``c.queue``."""

    name: str
    receiver: str = ""
    arguments: tuple[str, ...] = ()


#: What a name is declared as, by a word of its type or of what makes it.
_KINDS = {
    "queue": re.compile(r"queue", re.IGNORECASE),
    "cache": re.compile(r"lister|indexer|store\b|informer|cache\b", re.IGNORECASE),
    "client": re.compile(
        r"client|kubernetes\.Interface|versioned\.Interface|\bapi\b", re.IGNORECASE
    ),
}
_PLAIN = re.compile(r"[\w.]+(?:\(\))?")
_WRITES = re.compile(r"(?i)update|patch|apply|put|replace|create|delete")
_STATUS = re.compile(r"(?i)status")
_SUBRESOURCE = re.compile(r"""["'`]status["'`]|[\w.]*(?:STATUS|(?i:subresource))\w*(?:\.\.\.)?""")
#: Packages' functions and control words that are called in no part's statement.
_NO_CALLS = {"if", "for", "switch", "return", "func", "while", "with", "and", "or", "not", "in"}


@dataclass(frozen=True)
class Role:
    """One of the five parts. ``name`` is as a message has it: «the handler»."""

    heading: str
    name: str
    #: (call, kind of what it is made on) → whether this is the part's work; None: not known.
    does: Callable[[Call, str], bool | None]


def _registers(call: Call, kind: str) -> bool | None:
    return call.name.startswith("AddEventHandler") or call.name in (
        "add_handler",
        "add_event_handler",
    )


def _queues(call: Call, kind: str) -> bool | None:
    if call.name not in ("Add", "add") or len(call.arguments) != 1:
        return False
    return _of(kind, "queue")


def _requeues(call: Call, kind: str) -> bool | None:
    return call.name in ("AddRateLimited", "add_rate_limited", "AddAfter", "add_after")


def _takes(call: Call, kind: str) -> bool | None:
    if call.name not in ("Get", "get") or call.arguments:
        return False
    return _of(kind, "queue")


def _looks_up(call: Call, kind: str) -> bool | None:
    if call.name not in ("Get", "get", "GetByKey", "ByIndex", "by_index", "List", "list"):
        return False
    if not call.arguments or _asks_server(call, kind) or call.arguments[0][0] in "\"'`":
        return False
    cached = _of(kind, "cache")
    # By the key as it came from the queue: a Pod or a record is looked up by what was worked out.
    by_key = call.name in ("Get", "get", "GetByKey") and all(map(_PLAIN.fullmatch, call.arguments))
    return cached if by_key or cached is False else None


def _asks_server(call: Call, kind: str) -> bool:
    return call.name in ("Get", "get", "List", "list") and (
        kind == "client"
        or any("GetOptions" in one or "ListOptions" in one for one in call.arguments)
    )


def _writes_status(call: Call, kind: str) -> bool | None:
    if not _WRITES.match(call.name):
        return False
    if _STATUS.search(call.name):
        return True
    # What is written may be called status as well: the subresource is named, or a constant.
    return any(_SUBRESOURCE.fullmatch(one) for one in call.arguments[1:])


def _of(kind: str, wanted: str) -> bool | None:
    return None if not kind else kind == wanted


ROLES = (
    Role("Told of objects", "the registration of a handler", _registers),
    Role("A key is queued", "the handler's add", _queues),
    Role("A worker takes a key", "the worker's get", _takes),
    Role("The key is looked up", "the look-up in the cache", _looks_up),
    Role("The status is written", "the write of the status", _writes_status),
)
#: What is taken for a part and is none: (name, what it is), with a diagnosis.
OTHERS: tuple[tuple[str, str, Callable[[Call, str], bool | None]], ...] = (
    ("cited-the-requeue", "it puts a key back that a worker had already", _requeues),
    ("asks-the-api-server", "it asks the API server, and not the cache", _asks_server),
)


@dataclass(frozen=True)
class Answer:
    """Whether a statement does a part's work: True, False with why, or None: not known."""

    right: bool | None
    diagnosis: str = ""
    seen: str = ""


@dataclass(frozen=True)
class Operator:
    """The sources of an operator: path from the workspace's root → text."""

    sources: Mapping[str, str]
    _kinds: dict[str, str] = field(default_factory=dict, compare=False)
    _bare: dict[str, str] = field(default_factory=dict, compare=False)

    def judge(self, role: Role, path: str, line: int) -> Answer:
        """Whether the statement on that 1-based line does the role's work."""
        try:
            calls = calls_of(path, self.sources[path], line)
        except NoStatement as error:
            return Answer(False, "no-statement-of-yours", f"It {error}")
        callers = [
            call
            for call in calls
            if _is_own(call, path, self.sources[path])
            # One for several subresources: which it is, is said here alone.
            and not any(_SUBRESOURCE.fullmatch(one) for one in call.arguments)
        ]
        known = [(call, self._kind(call.receiver)) for call in calls if call not in callers]
        found = [role.does(call, kind) for call, kind in known]
        if True in found:
            return Answer(True)
        for other in ROLES:
            if other is not role and any(other.does(call, kind) for call, kind in known):
                return Answer(False, "another-part-of-yours", f"It is {other.name}")
        for diagnosis, what, does in OTHERS:
            if any(does(call, kind) for call, kind in known):
                return Answer(False, diagnosis, f"As to what it calls, {what}")
        if not calls:
            return Answer(False, "no-statement-of-yours", "It calls nothing")
        if callers and len(callers) == len(calls):
            name = callers[0].name
            return Answer(False, "cited-your-caller", f"It calls `{name}`, which is yours: go in")
        if None in found:
            return Answer(None)
        return Answer(False, "another-line-of-yours", "It does something else")

    def _kind(self, receiver: str) -> str:
        """``queue``, ``cache``, ``client``; empty where no declaration says what it is."""
        # The first name is as a rule the receiver of the method itself: self, c.
        names = re.findall(r"\w+", receiver)
        for name in reversed(names):
            if kind := self._declared(name, 3):
                return kind
        return ""

    def _code(self) -> Mapping[str, str]:
        """The sources without comments: a word in prose declares nothing."""
        if not self._bare:
            self._bare.update({path: _bare(path, text) for path, text in self.sources.items()})
        return self._bare

    def _declared(self, name: str, hops: int) -> str:
        if name in self._kinds:
            return self._kinds[name]
        if hops == 0 or name in ("self", "None", "ctx"):
            return ""
        found = ""
        for path, text in self._code().items():
            for said in _declarations(name, path, text):
                found = next((kind for kind, word in _KINDS.items() if word.search(said)), "")
                if not found and re.fullmatch(r"[\w.]+", said):
                    found = self._declared(said.rsplit(".", 1)[-1], hops - 1)
                if found:
                    break
            if found:
                break
        self._kinds[name] = found
        return found


def _bare(path: str, text: str) -> str:
    if path.endswith(".go"):
        return "\n".join(scanned(text)[0])
    try:
        return ast.unparse(ast.parse(text))
    except (SyntaxError, ValueError):
        return text


def _declarations(name: str, path: str, text: str) -> list[str]:
    """What stands where a name gets its type or its first value."""
    word = re.escape(name)
    patterns = [rf"\b{word}\s*:\s*([\w.\[\], |*]+)", rf"\b{word}\s*:?=(?!=)\s*([^\n=].*)"]
    if path.endswith(".go"):
        # A field or a parameter: name, type; and several names of one type.
        patterns.append(
            rf"\b{word}(?:\s*,\s*\w+)*[ \t]+((?:\*|\[\])*[A-Za-z_][\w.]*(?:\[[^\]]*\])?)"
        )
    found = []
    for pattern in patterns:
        found += [match[1].strip().rstrip(",") for match in re.finditer(pattern, text)]
    return [one for one in found if one not in ("range", "in")]


def _is_own(call: Call, path: str, text: str) -> bool:
    """Whether it calls a function of this very file, on the object itself or on none."""
    if "." in call.receiver:
        return False
    if path.endswith(".py"):
        return call.receiver in ("", "self", "cls") and bool(
            re.search(rf"^\s*(?:async )?def {re.escape(call.name)}\(", text, re.MULTILINE)
        )
    return bool(re.search(rf"^func (?:\([^)]*\) )?{re.escape(call.name)}[\[(]", text, re.MULTILINE))


def calls_of(path: str, text: str, line: int) -> list[Call]:
    """The calls of the statement on that line. Raises :class:`NoStatement`."""
    if path.endswith(".py"):
        return _python(text, line)
    if path.endswith(".go"):
        return _go(text, line)
    raise NoStatement("is in a file that is no source of an operator")


def _python(text: str, line: int) -> list[Call]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise NoStatement(f"is in a file that is no Python ({error})") from None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if not around:
        raise NoStatement("is no statement")
    node = min(around, key=lambda each: (each.end_lineno or each.lineno) - each.lineno)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        raise NoStatement("declares something, or is a comment")
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        raise NoStatement("imports something")
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        raise NoStatement("is a string")
    # Of what has a body, the head alone.
    within = [value for _, value in ast.iter_fields(node) if isinstance(value, ast.expr)]
    if isinstance(node, (ast.Assign, ast.With, ast.AsyncWith)) or not within:
        heads = [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.stmt)]
        within = heads
    if hasattr(node, "body") and not any(
        each.lineno <= line <= (each.end_lineno or each.lineno)
        for each in within
        if isinstance(each, ast.expr)
    ):
        raise NoStatement("is a comment, or decides what is done")
    found = []
    for part in within:
        for each in ast.walk(part):
            if isinstance(each, ast.Call):
                function = each.func
                name = (
                    function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
                )
                receiver = (
                    ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
                )
                arguments = [*each.args, *(keyword.value for keyword in each.keywords)]
                found.append(Call(name, receiver, tuple(map(ast.unparse, arguments))))
    return found


#: A function literal whose body begins at the end of a line.
_FUNCTION = re.compile(r"\bfunc\s*\([^)]*\)[^{]*\{\s*$")
_GO_CALL = re.compile(r"(?P<receiver>(?:[\w\]\)]+\.)*)(?P<name>\w+)(?:\[[^\]()]*\])?\(")


def _go(text: str, line: int) -> list[Call]:
    lines = text.split("\n")
    if not 1 <= line <= len(lines):
        raise NoStatement("is no line of the file")
    bare, openers = scanned(text)
    first = line
    while (opened := openers[first - 1]) and (opened[-1][0] in "([" or _in_literal(bare, opened)):
        first = opened[-1][1]
    depth, last = len(openers[first - 1]), first
    while last < len(lines) and len(openers[last]) > depth and openers[last][depth][0] in "([":
        last += 1
    code = "\n".join(bare[first - 1 : last])
    source = "\n".join(lines[first - 1 : last])
    if not code.strip():
        raise NoStatement("is a comment, or empty")
    if re.match(r"\s*(?:func \(?\w|type|import|package|const)\b", code):
        raise NoStatement("declares something")
    found = []
    for match in _GO_CALL.finditer(code):
        if match["name"] in _NO_CALLS:
            continue
        arguments = _arguments(code, source, match.end() - 1)
        found.append(Call(match["name"], _receiver(code, match), arguments))
    return found


def _in_literal(bare: list[str], opened: list[tuple[str, int]]) -> bool:
    """Whether the innermost brace is of a composite literal that is an argument of a call."""
    *around, (bracket, line) = opened
    is_argument = bracket == "{" and bool(around) and around[-1] == ("(", line)
    return is_argument and not _FUNCTION.search(bare[line - 1])


def _receiver(code: str, match: re.Match[str]) -> str:
    """What stands before the dot, calls included: ``c.lister.WebApps(ns)`` of ``….Get(name)``."""
    begin = match.start("name") - 1
    if begin < 0 or code[begin] != ".":
        return ""
    depth, at = 0, begin - 1
    while at >= 0:
        each = code[at]
        depth += (each in ")]") - (each in "([")
        if depth < 0 or (depth == 0 and not (each.isalnum() or each in "_.)]([")):
            break
        at -= 1
    # Arguments of calls on the way say nothing of what it is made on.
    chain = code[at + 1 : begin]
    while (shorter := re.sub(r"\([^()]*\)", "", chain)) != chain:
        chain = shorter
    return chain


def _arguments(code: str, source: str, opening: int) -> tuple[str, ...]:
    depth, begin, found = 0, opening + 1, []
    for at in range(opening, len(code)):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth == 0 or (depth == 1 and code[at] == "," and at > opening):
            if said := source[begin:at].strip():
                found.append(said)
            begin = at + 1
        if depth == 0:
            break
    return tuple(found)
