"""What belongs to a learner's day besides checking: the reference answer, and a report to send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grader import course, exit_codes


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    app.command(rich_help_panel="Learn")(solution)
    app.command(rich_help_panel="Learn")(report)


def solution(
    lab: Annotated[
        str,
        typer.Argument(
            metavar="LAB",
            help="A lab: 4.1.2, or its slug.",
            autocompletion=lambda: [lab.id for lab in course.load().labs],
        ),
    ],
    track: Annotated[
        str | None, typer.Option(help="python or go; by default your own for this lab.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="Write the files into a new folder instead."),
    ] = None,
) -> None:
    """Show a lab's reference answer and what to read in it. Opens when the lab has passed."""
    from grader import workspace
    from grader.site import answers

    here = workspace.find()
    chosen = course.load().lab(lab)
    if track is not None and track not in (chosen.tracks or ("",)):
        offer = " and ".join(chosen.tracks) or "no program, so it has no track"
        raise typer.BadParameter(f"lab {chosen.id} has {offer}", param_hint="--track")
    if not answers.may_be_read(here, chosen):
        print(
            f"The reference answer of {chosen.id} opens once the lab has passed in this workspace.\n"
            f"Until then: phase4 check {chosen.id}, and phase4 hint {chosen.id} if you are stuck."
        )
        raise typer.Exit(exit_codes.NOT_GRADED)
    answer = answers.of(chosen, track or here.track_of(chosen))
    if not answer.files and not answer.notes:
        print(f"Lab {chosen.id} has no reference answer in this version.")
        raise typer.Exit(exit_codes.NOT_GRADED)
    if to is not None:
        _lay(answer, to)
        return
    _show(answer, chosen)


def _lay(answer, folder: Path) -> None:
    from grader.workspace import files

    if folder.exists() and any(folder.iterdir()):
        raise typer.BadParameter(f"{folder} has files in it; name a new folder", param_hint="--to")
    for name, text in answer.files:
        files.write(folder / name, text)
    print(f"{len(answer.files)} files are in {folder}")


def _show(answer, lab: course.Lab) -> None:
    from rich.markdown import Markdown
    from rich.syntax import Syntax

    from grader.report.terminal import console

    out = console()
    out.print(f"{lab.id}  {lab.title}", style="bold")
    if answer.notes:
        out.print()
        out.print("What to read in it", style="bold")
        out.print(Markdown(answer.notes))
    for name, text in answer.written:
        out.print()
        out.print(f"── {name}", style="bold")
        if name.endswith(".jsonl"):
            out.print(
                f"A recording of {text.count(chr(10))} lines; --to DIR writes it into a folder."
            )
            continue
        out.print(Syntax(text, Syntax.guess_lexer(name, text), theme="ansi_light", word_wrap=True))
    if answer.rest:
        out.print()
        out.print(Markdown(answer.rest))


def report(
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="Where to write it.")] = Path(
        "phase4-report.html"
    ),
    lab: Annotated[
        list[str] | None, typer.Argument(metavar="[LAB…]", help="Only these labs or modules.")
    ] = None,
) -> None:
    """Make one HTML file of your progress and every verdict, to send to somebody."""
    from grader import workspace
    from grader.report import page
    from grader.report.progress import progress
    from grader.workspace import files

    here = workspace.find()
    wanted = {one.id for one in course.load().select(lab)} if lab else None
    standing = progress(here.reports)
    files.write(to, page.whole(standing, wanted))
    shown = [e for e in standing.labs if e.report and (wanted is None or e.lab.id in wanted)]
    print(f"{to}: {len(shown)} labs that were checked, {standing.passed} passed in all.")
    print("One file, no network needed. It has your verdicts and messages, not your work.")
    if own := standing.self_assessed:
        print(
            f"Of your work it has the sentences that you judged yourself ({len(own)}), to be marked."
        )
