"""A program without one of its statements: what is left says what the statement was for.

The statement is found from any of its lines. What decides, declares or raises is no
statement to take out (:class:`NotTakenOut`): without it the program is another one.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

#: What a Go line begins with that decides, declares or ends, and does no work by itself.
_GO_DECIDES = re.compile(
    r"(?:if|for|switch|select|case|default|func|type|var|const|import|package|else|break|continue"
    r"|goto|fallthrough)\b|[{}]|panic\("
)
_GO_DOES = re.compile(
    r"(?P<keyword>defer |go |return )?(?P<targets>[\w.\[\], ]+? ?:?= ?)?(?P<call>[\w.\[\]*&]+\(.*\))",
    re.DOTALL,
)
_GO_SENDS = re.compile(r"[\w.\[\]]+ ?<- ?\S.*", re.DOTALL)
_OPEN = {"(": ")", "[": "]", "{": "}"}


class NotTakenOut(Exception):
    """Why the line is no statement that does something, as half a sentence about it."""


@dataclass(frozen=True)
class TakenOut:
    """The file's text without the statement, in ways to be tried in this order.

    ``effect_kept``: the statement is still carried out, and only what it gives or raises is
    dropped; empty where nothing uses that.
    """

    texts: tuple[str, ...]
    effect_kept: tuple[str, ...] = ()


def taken_out(path: str, text: str, line: int) -> TakenOut:
    """The file (``.py`` or ``.go``) without the statement on that 1-based line.

    Raises :class:`NotTakenOut` for a line that is no statement, and for other files.
    """
    if path.endswith(".py"):
        return _from_python(text, line)
    if path.endswith(".go"):
        return _from_go(text, line)
    raise NotTakenOut("is in a file that is no source of your operator")


# -- Python ---------------------------------------------------------------------------


def _from_python(text: str, line: int) -> TakenOut:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise NotTakenOut(f"is in a file that is no Python ({error})") from None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if not around:
        raise NotTakenOut("is no statement")
    length = min(_length(node) for node in around)
    beside = [n for n in around if _length(n) == length and not hasattr(n, "body")]
    if not beside:
        raise NotTakenOut("decides what is done, and does nothing by itself")
    if len(beside) > 1:
        # Several on one line, which are cited together.
        for node in sorted(beside, key=lambda n: -n.col_offset):
            text = _replaced(text, node, "pass")
        return TakenOut((text,))
    (node,) = beside
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Constant):
            raise NotTakenOut("is a string")
        return TakenOut((_replaced(text, node, "pass"),), _quietly(text, node))
    calls = any(isinstance(each, ast.Call) for each in ast.walk(node))
    if isinstance(node, ast.Return) and node.value is not None and calls:
        return TakenOut(
            (_replaced(text, node, "return None"),),
            (_replaced(text, node, f"{_source(text, node.value)}; return None"),),
        )
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if not all(isinstance(each, ast.Name) for each in targets):
            return TakenOut((_replaced(text, node, "pass"),))
        if calls and not isinstance(node, ast.AugAssign):
            names = " = ".join(each.id for each in targets if isinstance(each, ast.Name))
            value = _source(text, node.value)
            return TakenOut(
                (_replaced(text, node, f"{names} = None"),),
                (_replaced(text, node, f"{value}; {names} = None"),),
            )
        raise NotTakenOut("sets a variable")
    if isinstance(node, ast.Raise):
        raise NotTakenOut("raises")
    raise NotTakenOut("decides what is done, and does nothing by itself")


def _quietly(text: str, node: ast.Expr) -> tuple[str, ...]:
    """With what the statement raises dropped, where it has a line to itself."""
    before = text.split("\n")[node.lineno - 1].encode()[: node.col_offset].decode()
    if before.strip():
        return ()
    value = _source(text, node.value)
    return (_replaced(text, node, f"try: {value}\n{before}except Exception: pass"),)


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno


def _source(text: str, node: ast.expr) -> str:
    return " ".join((ast.get_source_segment(text, node) or "None").split("\n"))


def _replaced(text: str, node: ast.stmt, by: str) -> str:
    # Offsets of the parser count bytes.
    lines = [each.encode() for each in text.split("\n")]
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    lines[first : last + 1] = [before + by.encode() + after]
    return b"\n".join(lines).decode()


# -- Go -------------------------------------------------------------------------------


def _from_go(text: str, line: int) -> TakenOut:
    lines = text.split("\n")
    if not 1 <= line <= len(lines):
        raise NotTakenOut("is no line of the file")
    bare, openers = scanned(text)
    first = line
    while openers[first - 1] and openers[first - 1][-1][0] in "([":
        first = openers[first - 1][-1][1]
    depth, last = len(openers[first - 1]), first
    while last < len(lines) and len(openers[last]) > depth:
        last += 1
    statement, code = ("\n".join(each[first - 1 : last]) for each in (lines, bare))
    begin = len(code) - len(code.lstrip())
    code = code.strip()
    if not code:
        raise NotTakenOut("is no statement")
    if _GO_DECIDES.match(code):
        raise NotTakenOut("decides what is done, and does nothing by itself")

    def instead(by: str, more: str = "") -> str:
        return "\n".join([*lines[: first - 1], by, *lines[last:]]) + more

    never = instead(f"if false {{\n{statement}\n}}")
    if _GO_SENDS.fullmatch(code):
        return TakenOut((never,))
    match = _GO_DOES.fullmatch(code)
    if match is None:
        raise NotTakenOut("is no call, and nothing that is sent to a channel")
    targets = (match["targets"] or "").strip()
    call = statement[begin + match.start("call") : begin + match.end("call")]
    if match["keyword"] != "return " and not targets.endswith("="):
        return TakenOut((never,))
    # Its value is used: without it there is a zero in its place, of a type that Go infers.
    callee, arguments = _parted(match["call"], call)
    results = range(1, 4)
    if targets:
        results = range(len(targets.split(",")), len(targets.split(",")) + 1)
    head = f"{targets} " if targets else "return "
    texts, kept = [] if targets.endswith(":=") or not targets else [never], []
    nothing = f"{head}phase4Nothing({callee})({', '.join(arguments)})"
    for fixed in (None, *range(len(arguments), -1, -1)):
        for count in results:
            zero = _nothing(len(arguments), count, fixed)
            texts.append(instead(nothing, zero))
            kept.append(instead(f"{', '.join('_' * count)} = {call}\n{nothing}", zero))
    return TakenOut(tuple(texts), tuple(kept))


def _nothing(arguments: int, results: int, fixed: int | None) -> str:
    """A generic function that makes of a function another one that does nothing.

    ``fixed``: how many parameters a variadic function has before the last, None for another.
    """
    ins = [f"A{n}" for n in range(arguments if fixed is None else fixed)]
    outs = [f"R{n}" for n in range(results)]
    kinds = ", ".join([*ins, *(["V"] if fixed is not None else []), *outs])
    ins += ["...V"] if fixed is not None else []
    of = f"func({', '.join(ins)})"
    named = ", ".join(f"r{n} R{n}" for n in range(results))
    plain = ", ".join(outs)
    return (
        f"\nfunc phase4Nothing[{kinds} any](_ {of} ({plain})) {of} ({plain}) {{\n"
        f"return {of} ({named}) {{ return }}\n}}\n"
    )


def _parted(bare: str, call: str) -> tuple[str, list[str]]:
    """A call's callee and arguments: ``c.retry(key, f(x))`` to ``c.retry`` and both.

    ``bare`` is the call with nothing in its strings, of the same length.
    """
    depth, end = 0, len(bare) - 1
    for at in range(len(bare) - 1, -1, -1):
        depth += (bare[at] in ")]}") - (bare[at] in "([{")
        if depth == 0:
            end = at
            break
    arguments, depth, begin = [], 0, end + 1
    for at in range(end + 1, len(bare)):
        each = bare[at]
        depth += (each in "([{") - (each in ")]}")
        if (each == "," and depth == 0) or depth < 0:
            arguments.append(call[begin:at].strip())
            begin = at + 1
    return call[:end], [each for each in arguments if each]


def scanned(text: str) -> tuple[list[str], list[list[tuple[str, int]]]]:
    """Go's lines with blanks for comments and for what strings say, and the brackets open before each.

    A bracket is itself and its 1-based line. There is one more list of them than lines.
    """
    bare: list[str] = []
    openers: list[list[tuple[str, int]]] = [[]]
    stack: list[tuple[str, int]] = []
    at = 0
    while at < len(text):
        each = text[at]
        if text.startswith(("//", "/*"), at) or each in "\"'`":
            at, passed = _after(text, at)
            blank = "".join(c if c == "\n" else " " for c in passed)
            if each != "/":
                blank = f"{each}{blank[1:-1]}{each}"
        else:
            at, blank = at + 1, each
            if each in _OPEN:
                stack.append((each, len(openers)))
            elif each in ")]}" and stack:
                stack.pop()
        bare.append(blank)
        openers += [list(stack)] * blank.count("\n")
    openers.append(list(stack))
    return "".join(bare).split("\n"), openers


def _after(text: str, at: int) -> tuple[int, str]:
    """Where a comment or a string that begins at ``at`` is over, and its text."""
    if text.startswith("//", at):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        return end, text[at:end]
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        end = len(text) if end < 0 else end + 2
        return end, text[at:end]
    quote, end = text[at], at + 1
    while end < len(text) and text[end] != quote:
        end += 2 if text[end] == "\\" and quote != "`" else 1
    return end + 1, text[at : end + 1]
