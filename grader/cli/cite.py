"""``cite`` for learners; ``pins`` and ``index`` under ``dev``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[2]


def register(app: typer.Typer) -> None:
    """Add ``cite``."""

    @app.command(rich_help_panel="Work")
    def cite(
        place: str = typer.Argument(
            ...,
            metavar="PATH:LINE",
            help="Such as client-go/tools/cache/reflector.go:561 (Reflector.watch).",
        ),
        quote: str = typer.Option(
            None, "--quote", "-q", help="The line's text, where its source is not on this machine."
        ),
        as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    ) -> None:
        """Print a citation of a source line, ready to paste into answers.md.

        PATH is a file of yours, or an upstream file: named from its module
        (client-go/tools/cache/reflector.go), with its version
        (k8s.io/client-go@v0.37.2/...), by the end of its path if only one file
        of the course's sources ends so (replica_set.go), or as it lies in the
        Go module cache.
        """
        from grader.evidence import quoting

        found = quoting.cite(place, here=Path.cwd(), quote=quote)
        cited = found.citation
        if as_json:
            typer.echo(
                json.dumps(
                    {
                        "citation": cited.place,
                        "quote": cited.quote,
                        "markdown": str(cited),
                        "inside": list(found.inside),
                        "note": found.note,
                    }
                )
            )
            return
        typer.echo(str(cited))
        if found.inside:
            typer.echo(f"in {found.inside[0]}", err=True)
        if found.note:
            typer.echo(f"note: {found.note}", err=True)


def register_dev(app: typer.Typer) -> None:
    """Add ``index`` and ``pins`` to the ``dev`` commands."""

    @app.command()
    def index(
        check: bool = typer.Option(False, "--check", help="Only say what is out of date; exit 1."),
    ) -> None:
        """Make the index of cited upstream sources from the Go module cache.

        Reads grader/evidence/sources.toml, downloads modules that are missing,
        and writes digests and symbol ranges to grader/evidence/index/.
        """
        from grader import exit_codes
        from grader.evidence import indexing, pinned, sources

        worst = exit_codes.OK
        wanted = {source.index_name for source in sources.load().values()}
        for source in sources.load().values():
            name = f"{source.module}@{sources.shown(source.version)}"
            try:
                if check:
                    why = indexing.outdated(source)
                    typer.echo(f"{name}: {why or 'up to date'}")
                    worst = exit_codes.FAIL if why else worst
                else:
                    changed = indexing.refresh(source)
                    typer.echo(f"{name}: {'written' if changed else 'up to date'}")
            except sources.SourceError as error:
                typer.echo(f"{name}: cannot be read. {error}", err=True)
                # An index that is wrong is told before one that could not be looked at.
                worst = worst or exit_codes.ENVIRONMENT
        for stray in sorted(p for p in pinned.FOLDER.glob("*.json") if p.name not in wanted):
            typer.echo(f"{stray.name}: sources.toml names no such source", err=True)
            worst = exit_codes.FAIL
        pinned.load.cache_clear()
        raise typer.Exit(worst)

    @app.command()
    def pins(
        to: Annotated[
            list[str] | None,
            typer.Option(
                "--to", metavar="MODULE@VERSION", help="A pin as it would be; may be repeated."
            ),
        ] = None,
        fix: Annotated[
            bool, typer.Option("--fix", help="Correct the line numbers whose place is known.")
        ] = False,
        as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    ) -> None:
        """List citations and line numbers that are wrong, or would be at another pin.

        Looks at every citation in docs, hints and reference answers, at the
        statements that answer citation questions, and at every line number in
        the course's own words. Exits 1 where one is wrong, moved or died.
        """
        from grader import exit_codes
        from grader.evidence import pinned, pins, sources

        current = pinned.load()
        cited = pins.uses(ROOT)
        stated, changes = pins.statements(current)
        numbers = pins.numbers(ROOT, current)
        if fix and not to:
            for name in pins.correct(ROOT, [number for number in numbers if number.fault]):
                typer.echo(f"{name}: corrected", err=True)
            numbers = pins.numbers(ROOT, current)
        wrong = [] if to else [number for number in numbers if number.fault]
        if to:
            new = []
            for each in to:
                module, _, version = each.rpartition("@")
                if not module:
                    raise typer.BadParameter(f"{each} is not MODULE@VERSION.")
                new.append(pins.at_version(module, version, current))
            changes = pins.moved([*cited, *stated, *pins.numbered(numbers, current)], current, new)
        else:
            changes = [*pins.broken(cited, current), *changes]
        if as_json:
            typer.echo(
                json.dumps(
                    {
                        "citations": len(cited),
                        "statements": len(stated),
                        "numbers": len(numbers),
                        "changes": [c.to_json() for c in changes],
                        "wrong": [
                            {"file": n.file, "line": n.line, "number": n.number, "why": n.fault}
                            for n in wrong
                        ],
                    }
                )
            )
        else:
            for change in changes:
                where = f"{change.use.file}:{change.use.line}"
                typer.echo(
                    f"{where}: {change.use.citation.place} {change.verdict}: {change.finding.seen}"
                )
            for number in wrong:
                typer.echo(f"{number.file}:{number.line}: {number.number}: {number.fault}")
            moved = sum(change.verdict == "moved" for change in changes)
            typer.echo(
                f"{len(cited)} citations, {len(stated)} statements, {len(numbers)} line numbers: "
                f"{moved} moved, {len(changes) - moved} died, {len(wrong)} wrong"
                + (f" at {', '.join(to)}" if to else "")
            )
            if not to:
                shown = (f"{s.module}@{sources.shown(s.version)}" for s in sources.load().values())
                typer.echo("pins: " + ", ".join(shown))
        raise typer.Exit(exit_codes.FAIL if changes or wrong else exit_codes.OK)
