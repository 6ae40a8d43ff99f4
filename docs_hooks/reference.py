"""The references, made from the code: the command line's from typer, the graders' from docstrings.

Nothing here is written by hand twice, so there is nothing that can be forgotten
when a command or a query changes.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docs_hooks.text import cell

GRADER = Path(__file__).resolve().parents[1] / "grader"

#: What a grader's author uses, in the order of the page. A module that is not
#: there has no section.
API = (
    ("Verdicts", "verdict.py"),
    ("Declaring a check", "labs/marker.py"),
    ("What a check is given", "labs/fixtures.py"),
    ("The submission", "runner/submission.py"),
    ("The learner's program", "runner/program.py"),
    ("A running program", "runner/running.py"),
    ("Wire", "wire/wire.py"),
    ("What the wire writes down", "wire/records.py"),
    ("Rules", "wire/rules.py"),
    ("Timeline", "witness/timeline.py"),
    ("What a query gives", "witness/trace.py"),
    ("What a client knew", "witness/knowledge.py"),
    ("Clusters", "cluster/interface.py"),
    ("The API server, from a grader", "cluster/api.py"),
    ("Citations", "evidence/citations.py"),
    ("Diagrams", "evidence/mermaid.py"),
    ("Answers and predictions", "evidence/answers.py"),
    ("Reports", "report/model.py"),
)


# ------------------------------------------------------------------ commands


def commands() -> str:
    """A section for each command: what it does, how it is called, its options."""
    import typer

    from grader.cli.app import build

    root = typer.main.get_command(build())
    out = [
        "# Commands",
        "",
        "Made from the command line itself. `phase4 COMMAND --help` says the same.",
        "",
    ]
    for name, command in getattr(root, "commands", {}).items():
        if not command.hidden:
            out += _command(f"phase4 {name}", command, 2)
    out += ["## Exit codes { #exit-codes }", "", exit_codes()]
    return "\n".join(out)


def _command(path: str, command: Any, level: int) -> list[str]:
    anchor = path.removeprefix("phase4 ").replace(" ", "-")
    out = [f"{'#' * level} {path} {{ #{anchor} }}", "", _prose(command.help or ""), ""]
    nested = getattr(command, "commands", None)
    if nested:
        for name, inner in nested.items():
            if not inner.hidden:
                out += _command(f"{path} {name}", inner, level + 1)
        return out
    parameters = [p for p in command.params if not getattr(p, "hidden", False)]
    arguments = [p for p in parameters if p.param_type_name == "argument"]
    usage = " ".join([path, "[OPTIONS]", *[_metavar(a) for a in arguments]])
    out += ["```console", usage, "```", ""]
    rows = []
    for parameter in parameters:
        if parameter.name == "help":
            continue
        if parameter.param_type_name == "argument":
            said = f"`{_metavar(parameter)}`"
        else:
            said = ", ".join(f"`{o}`" for o in [*parameter.opts, *parameter.secondary_opts])
            if not parameter.is_flag:
                said += f" `{_type(parameter)}`"
        rows.append(f"| {said} | {cell(_prose(getattr(parameter, 'help', None) or ''))} |")
    if rows:
        out += ["| Option | What it does |", "|---|---|", *rows, ""]
    return out


def _metavar(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    many = "..." if parameter.nargs == -1 else ""
    name = name.strip("[]").removesuffix("...")
    return f"{name}{many}" if parameter.required else f"[{name}{many}]"


def _type(parameter: Any) -> str:
    """What an option takes: its metavar, its choices, or the kind of value."""
    if parameter.metavar:
        return parameter.metavar
    if choices := getattr(parameter.type, "choices", None):
        return "|".join(str(getattr(choice, "value", choice)) for choice in choices)
    kinds = {"text": "TEXT", "integer": "NUMBER", "float": "NUMBER", "path": "PATH"}
    return kinds.get(parameter.type.name.split(" ")[0], "VALUE")


def _prose(text: str) -> str:
    """Help text as Markdown: rich's tags made into emphasis, click's marks dropped."""
    text = inspect.cleandoc(text).replace("\b\n", "").split("\f")[0]
    text = re.sub(r"\[bold\](.*?)\[/bold\]", r"**\1**", text)
    text = re.sub(r"\[dim\](.*?)\[/dim\]", r"\1", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r"<(?=[A-Za-z/])", "&lt;", text)


def exit_codes() -> str:
    """The exit codes with the comments that document them in the source."""
    source = (GRADER / "exit_codes.py").read_text(encoding="utf-8")
    rows = ["| Code | Name | Means |", "|--:|---|---|"]
    for comment, name, value in re.findall(r"((?:^#: .*\n)+)^([A-Z_]+) = (\d+)$", source, re.M):
        text = " ".join(line.removeprefix("#: ") for line in comment.splitlines())
        rows.append(f"| {value} | {name} | {cell(text)} |")
    return "\n".join(rows)


# -------------------------------------------------------------------- faults


def faults() -> str:
    """The rules that a wire obeys: the grammar, made of the tables that it is checked by."""
    from grader.wire.faults import reference

    out = ["# Faults", ""]
    out.append(
        "What `phase4 run --fault RULE` and `phase4 fault add RULE` take. "
        "[The wire](../guide/wire.md) says what each is good for."
    )
    out.append("")
    out.append(_docstring(reference()))
    return "\n".join(out)


# ----------------------------------------------------------------------- API


def graders() -> str:
    """The interface that graders are written against, from its docstrings."""
    out = [
        "# Grader API",
        "",
        "For authors of graders. Made from the docstrings; what is not here is "
        "nobody's business but its own module's.",
        "",
    ]
    for title, name in API:
        path = GRADER / name
        if path.exists():
            out += _module(title, path)
    return "\n".join(out)


def _module(title: str, path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    dotted = "grader." + ".".join(path.relative_to(GRADER).with_suffix("").parts)
    anchor = dotted.replace(".", "-")
    out = [
        f"## {title} {{ #{anchor} }}",
        "",
        f"`{dotted}`",
        "",
        _docstring(ast.get_docstring(tree)),
    ]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and _public(node):
            out += ["", f"### class {node.name} {{ #{anchor}-{node.name} }}", ""]
            out.append(_docstring(ast.get_docstring(node)))
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and _public(member):
                    out += ["", *_function(member)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _public(node):
            out += ["", f"### {node.name} {{ #{anchor}-{node.name} }}", "", *_function(node)]
    return [*out, ""]


def _public(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return not node.name.startswith("_") and ast.get_docstring(node) is not None


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    arguments = ast.unparse(node.args)
    marks = {ast.unparse(d).split(".")[-1] for d in node.decorator_list}
    if marks & {"property", "cached_property"}:
        signature = f"{node.name}{returns}"
    else:
        signature = f"{node.name}({re.sub(r'^(self|cls)(, )?', '', arguments)}){returns}"
    if len(signature) > 88:
        signature = signature.replace(", ", ",\n    ").replace("(", "(\n    ", 1)
    return ["```python", signature, "```", "", _docstring(ast.get_docstring(node))]


def _docstring(text: str | None) -> str:
    """A docstring's reStructuredText as Markdown: roles, literals, literal blocks, tables."""
    if not text:
        return ""
    out: list[str] = []
    lines = text.splitlines()
    while lines:
        if _RULE.match(lines[0]):
            out += ["", *_table(_taken(lines, lambda line: line.strip())), ""]
        elif lines[0].rstrip().endswith("::"):
            out.append(_inline(lines.pop(0).rstrip()[:-1]).removesuffix(":"))
            block = _taken(lines, lambda line: not line.strip() or line.startswith(" "))
            out += ["", "```text", textwrap.dedent("\n".join(block)).strip("\n"), "```", ""]
        else:
            # Roles and literals may run over a line's end: a paragraph at a time.
            paragraph = _taken(lines, _goes_on) or [lines.pop(0)]
            out += _inline("\n".join(paragraph)).splitlines() or [""]
    return "\n".join(out)


def _inline(text: str) -> str:
    """Roles and literals as code; what looks like a tag is shown as it is."""
    text = re.sub(r":\w+:`~?([^`]+)`", lambda m: f"`{m[1].split('.')[-1]}`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r"(?<!`)<(?=[A-Za-z/])(?![^`]*`)", "&lt;", text)


def _goes_on(line: str) -> bool:
    """Whether a paragraph goes on with this line."""
    return bool(line.strip()) and not line.rstrip().endswith("::") and not _RULE.match(line)


#: The border of a simple table.
_RULE = re.compile(r"^=+( +=+)+$")


def _taken(lines: list[str], while_: Callable[[str], object]) -> list[str]:
    """Take lines off the front as long as they are wanted."""
    found = []
    while lines and while_(lines[0]):
        found.append(lines.pop(0))
    return found


def _table(lines: list[str]) -> list[str]:
    """A simple table of two or more columns; a line that begins blank goes on with the last row."""
    starts = [match.start() for match in re.finditer(r"=+", lines[0])]
    ends = [*starts[1:], None]
    rows: list[list[str]] = []
    for line in lines:
        if _RULE.match(line):
            continue
        cells = [line[a:b].strip() for a, b in zip(starts, ends, strict=True)]
        if cells[0] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
    names = ["Written", "What it does", *[""] * len(starts)][: len(starts)]
    head = "| " + " | ".join(names) + " |"
    return [
        head,
        "|" + "---|" * len(starts),
        *("| " + " | ".join(cell(_inline(one)) for one in r) + " |" for r in rows),
    ]
