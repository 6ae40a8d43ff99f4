"""What ``program.toml`` declares: how a program is built and run.

::

    build = ["go", "build", "-o", "{out}/stages", "."]   # optional
    run = ["{out}/stages", "--kubeconfig", "{kubeconfig}"]

:mod:`grader.runner.program` says what the words in braces are. Where a lab hands in several
programs, each has a table ``[program.NAME]`` with the same two keys. Where an artifact
has both tracks in one folder, the tables ``[python]`` and ``[go]`` hold the two keys.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Any

from grader.verdict import Fail, NotGraded

FILE = "program.toml"


@dataclass(frozen=True)
class Declaration:
    """The table of one program; ``where`` names it in messages."""

    table: Any
    where: str

    @classmethod
    def read(cls, text: str, shown: str, track: str, name: str = "") -> Declaration:
        """The table of the program ``name`` (empty: the only one) in a ``program.toml``.

        ``shown`` names the file. Raises Fail where it is no TOML, NotGraded where it has
        no such table.
        """
        try:
            table: Any = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise Fail(
                f"{shown} is TOML.",
                f"It cannot be read: {error}.",
                next='It looks like: run = ["python3", "program.py"]',
                diagnosis="bad-program-toml",
            ) from None
        where = shown
        if isinstance(table.get(track), dict):
            where = f"[{track}] in {shown}"
            table = table[track]
        if name:
            where = f"[program.{name}] in {shown}"
            table = table.get("program", {})
            table = table.get(name) if isinstance(table, dict) else None
            if table is None:
                raise NotGraded(
                    f"{where} declares a program.",
                    "There is no such table.",
                    next=f'Add it: [program.{name}] with run = ["python3", "…"]',
                    diagnosis="nothing-handed-in",
                )
        return cls(table, where)

    def commands(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of ``run`` and of ``build`` (which may be empty). Raises Fail for anything else."""
        run = self._command("run")
        if not run:
            raise Fail(
                f"{self.where} says how the program is started.",
                "It has no `run`, or an empty one.",
                next='Add the command, word by word: run = ["python3", "program.py"]',
                diagnosis="bad-program-toml",
            )
        return run, self._command("build")

    def _command(self, key: str) -> tuple[str, ...]:
        value = self.table.get(key, []) if isinstance(self.table, dict) else None
        if not isinstance(value, list) or not all(isinstance(word, str) and word for word in value):
            raise Fail(
                f"`{key}` in {self.where} is a list of words.",
                "It is something else.",
                next=f'Write each word as a string of its own: {key} = ["python3", "program.py"]',
                diagnosis="bad-program-toml",
            )
        return tuple(value)
