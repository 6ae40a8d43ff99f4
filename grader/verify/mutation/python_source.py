"""Every small change of a Python file, by its syntax tree.

Tools for this exist (mutmut, cosmic-ray). They change operators and constants;
the faults that operators ship are of other kinds: a statement left out, an error
swallowed, an argument or an entry dropped, the old object for the new one. And a
Go program must be changed in the same way, so both are edits of bytes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from grader.verify.mutation.edits import Edit, numbered

_COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
#: Calls on these names only tell somebody something.
_TELLING = {"log", "logger", "logging", "print"}


def edits(root: Path, file: str) -> list[Edit]:
    """The changes of ``root / file``; those that do not compile are left out."""
    source = (root / file).read_bytes()
    visitor = _Visitor(file, source)
    visitor.visit(ast.parse(source))
    return numbered(edit for edit in visitor.found if _compiles(source, edit))


def _compiles(source: bytes, edit: Edit) -> bool:
    changed = source[: edit.start] + edit.after.encode() + source[edit.end :]
    try:
        ast.parse(changed)
    except (SyntaxError, ValueError):
        return False
    return True


class _Visitor(ast.NodeVisitor):
    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.found: list[Edit] = []
        self._names: list[str] = []
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._lines[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self._lines[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()

    def _add(self, kind: str, node: ast.AST, after: str) -> None:
        self._replace(kind, *self._span(node), after)

    def _replace(self, kind: str, start: int, end: int, after: str) -> None:
        before = self.source[start:end].decode()
        line = self.source.count(b"\n", 0, start) + 1
        function = ".".join(self._names) or "module"
        self.found.append(Edit(self.file, function, kind, line, start, end, before, after))

    def _inside(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self._names.append(node.name)
        for child in [
            *node.body,
            *getattr(node.args if hasattr(node, "args") else node, "defaults", []),
        ]:
            if not _is_docstring(child):
                self.visit(child)
        self._names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node)
        self._old_for_new(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node)

    def _old_for_new(self, node: ast.FunctionDef) -> None:
        arguments = {argument.arg for argument in node.args.args}
        if not {"old", "new"} <= arguments:
            return
        self._names.append(node.name)
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and name.id in ("old", "new"):
                self._add("old-new", name, "old" if name.id == "new" else "new")
        self._names.pop()

    # Types and imports decide nothing at run time.
    def visit_Import(self, node: ast.Import) -> None: ...
    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if _tells(node.value) or isinstance(node.value, ast.Constant):
            return
        self._add("drop", node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._add("drop", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add("drop", node, "pass")
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._add("drop", node, "pass")

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add("drop", node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._add("drop", node, "pass")

    visit_Continue = visit_Break  # type: ignore[assignment]

    def visit_Return(self, node: ast.Return) -> None:
        # The function goes on after it, or answers nothing.
        self._add("drop", node, "pass")
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if "TYPE_CHECKING" in self._text(node.test):
            return
        test = self._text(node.test)
        if not (isinstance(node, ast.While) and isinstance(node.test, ast.Constant)):
            self._add("always", node.test, f"(({test}) or True)")
            self._add("never", node.test, f"(({test}) and False)")
        self.generic_visit(node)

    visit_While = visit_If  # type: ignore[assignment]
    visit_IfExp = visit_If  # type: ignore[assignment]

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and (after := _COMPARISONS.get(type(node.ops[0]))):
            left, right = self._text(node.left), self._text(node.comparators[0])
            self._add("compare", node, f"{left} {after} {right}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left_out in node.values:
            rest = [self._text(v) for v in node.values if v is not left_out]
            word = ") and (" if isinstance(node.op, ast.And) else ") or ("
            self._add("operand", node, f"({word.join(rest)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("constant", node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._add("constant", node, f"({node.value} + 1)")
            if node.value:
                self._add("constant", node, "0")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        # Offsets inside an f-string are only right from Python 3.12 on.
        return

    def visit_Try(self, node: ast.Try) -> None:
        for handler in node.handlers:
            body = handler.body
            if not all(isinstance(statement, ast.Pass) for statement in body):
                start, end = self._span(body[0])[0], self._span(body[-1])[1]
                self._replace("swallow", start, end, "pass")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _tells(node):
            return
        for keyword in node.keywords:
            if keyword.arg is not None:
                self._without("entry", keyword)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            start = self._span(key)[0] if key is not None else self._span(value)[0] - 2
            self._left_out("entry", start, self._span(value)[1])
        self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        if isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
            for element in node.elts:
                self._without("entry", element)
        self.generic_visit(node)

    visit_List = visit_Tuple  # type: ignore[assignment]

    def _without(self, kind: str, node: ast.AST) -> None:
        self._left_out(kind, *self._span(node))

    def _left_out(self, kind: str, start: int, end: int) -> None:
        """Leave an element out, with the comma after it."""
        rest = self.source[end:]
        blanks = len(rest) - len(rest.lstrip())
        if rest[blanks : blanks + 1] == b",":
            end += blanks + 1
        self._replace(kind, start, end, "")


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _tells(node: ast.AST) -> bool:
    """Whether a call only writes to a log."""
    if not isinstance(node, ast.Call):
        return False
    names: Iterator[ast.AST] = ast.walk(node.func)
    return any(isinstance(name, ast.Name) and name.id in _TELLING for name in names)
