"""The learner's commands that need no cluster: the folder, the labs, hints, progress, the gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader import course, exit_codes
from grader.cli.paths import short

if TYPE_CHECKING:
    from grader.workspace import Workspace

LabName = Annotated[
    str,
    typer.Argument(metavar="LAB", help="A lab: 4.1.2, or its slug.", autocompletion=lambda: _ids()),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    for function in (init, list_labs, show, hint, track, reset, parts, progress, gate):
        name = "list" if function is list_labs else function.__name__
        app.command(name, rich_help_panel="Learn")(function)


def _ids() -> list[str]:
    return [lab.id for lab in course.load().labs]


def init(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Where; workspace/ by default.")
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="python or go: the language of the stubs.")
    ] = None,
) -> None:
    """Make your folder with the labs' starting files; never overwrites a file of yours."""
    from grader import workspace

    told: list[str] = []
    made, laid = workspace.init_folder(folder, track, told.append)
    where = short(made.root)
    for line in told:
        print(line)
    if told:
        print(f"{where} was of an older version and has been upgraded: {made.track} track.")
    elif laid:
        print(f"{where} is ready: {made.track} track, {len(laid)} labs to start from.")
    else:
        print(f"{where} is up to date: {made.track} track, nothing was changed.")
    if folder is not None:
        print(f"Commands find it from inside, or with PHASE4_WORKSPACE={made.root}")
    print("Next: phase4 show 4.1.1")


def list_labs(
    module: Annotated[
        str | None, typer.Argument(metavar="[MODULE]", help="Only this module: 4.1")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the labs with their standing and points."""
    from grader.report.progress import progress as read

    labs = course.load().select([module]) if module else course.load().labs
    standing = read(_reports())
    if as_json:
        data = standing.to_json()
        wanted = {lab.id for lab in labs}
        _print_json([entry for entry in data["standing"] if entry["lab"] in wanted])
        return
    from grader.report.overview import labs_table
    from grader.report.terminal import console

    console().print(labs_table(standing, labs))


def show(lab: LabName, as_json: AsJson = False) -> None:
    """Show a lab: what is handed in, what is checked, where its page is."""
    from grader import workspace

    chosen = course.load().lab(lab)
    checks = course.checks(chosen)
    if as_json:
        from dataclasses import asdict

        _print_json({"lab": chosen.data, "checks": [asdict(check) for check in checks]})
        return
    from grader.report.overview import lab_card
    from grader.report.terminal import console

    try:
        here = workspace.find()
    except workspace.WorkspaceError:
        here = None
    site = _site()
    console().print(
        lab_card(
            chosen,
            checks,
            folder=_where(here, chosen) if here else "",
            track=here.track_of(chosen) if here else "",
            page=f"{site}/{chosen.page}" if site else f"docs/{chosen.module}/{chosen.id}.md",
            hints=len(course.hints(chosen)),
        )
    )


def _where(here: Workspace, lab: course.Lab) -> str:
    """The lab's folder, and the files of the parts that it asks for."""
    folder = [short(here.folder(lab))] if here.folder(lab).is_dir() or not lab.writes else []
    return ", ".join([*folder, *(short(here.root / name) for name in here.parts_files(lab)[:4])])


def hint(
    lab: Annotated[
        str | None, typer.Argument(metavar="[LAB]", help="A lab; by default the next one.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Show those already shown, no new one.")
    ] = False,
) -> None:
    """Show one more hint of a lab each time; counted, never punished."""
    from grader import workspace
    from grader.report.progress import progress as read

    here = workspace.find()
    chosen = course.load().lab(lab) if lab else read(here.reports).next()
    if chosen is None:
        print("Every lab that can be graded is passed: no hint needed.")
        return
    hints = course.hints(chosen)
    if not hints:
        print(f"Lab {chosen.id} has no hints in this version.")
        raise typer.Exit(exit_codes.NOT_GRADED)
    taken = here.record("hints")
    before = int(taken.get(chosen.id, 0))
    count = before if again and before else min(before + 1, len(hints))
    if count != before:
        here.keep("hints", {**taken, chosen.id: count})
    from rich.markdown import Markdown

    from grader.report.terminal import console

    out = console()
    for number, text in enumerate(hints[:count], start=1):
        if number < count and not again:
            continue
        out.print(f"Hint {number} of {len(hints)} for {chosen.id}", style="bold")
        out.print(Markdown(text))
    if count == before and not again:
        out.print("That was the last one. --again shows them all.", style="dim")


def track(lab: LabName, language: Annotated[str, typer.Argument(metavar="python|go")]) -> None:
    """Change one lab's track. Your answers stay, and a backup is kept."""
    from grader import workspace

    here = workspace.find()
    chosen = course.load().lab(lab)
    backup = here.change_track(chosen, language)
    print(f"{chosen.id} is now in {language}: {short(here.folder(chosen))}")
    if backup:
        print(f"Your files are kept in {short(backup)}")


def reset(
    lab: LabName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Start a lab over: put its starting files back, and keep a backup of yours."""
    from grader import workspace

    here = workspace.find()
    chosen = course.load().lab(lab)
    mine = [short(here.root / name) for name in here.parts_files(chosen)]
    folder = here.folder(chosen)
    if (folder.exists() or mine) and not yes:
        what = ", ".join([*([short(folder)] if folder.exists() else []), *mine])
        question = f"Replace {what} by the starting files? Yours go to a backup"
        if not typer.confirm(question):
            print("Nothing was changed.")
            return
    backup = here.reset(chosen)
    print(f"Lab {chosen.id} is as it was at the start.")
    if backup:
        print(f"Your files are in {short(backup)}")


def parts(as_json: AsJson = False) -> None:
    """Show whose parts your programs run on: your own, or lent by the course until their labs pass."""
    from grader import workspace
    from grader.workspace import parts as reading

    here = workspace.find()
    standing = reading.standing(here)
    if as_json:
        _print_json([{"track": track, **use.to_json()} for track, use in standing])
        return
    from grader.report.overview import parts_table
    from grader.report.terminal import console

    console().print(parts_table([(track, use.to_json()) for track, use in standing]))
    for sentence in _ownership(here):
        print(sentence)


def _ownership(here: Workspace) -> list[str]:
    """``Artifact 1 runs on 6 of 7 parts of your own``; nothing before its lab is there."""
    from grader.workspace import parts as reading

    lines = []
    for number, condition in enumerate(
        (one for one in course.load().gate if one.artifact), start=1
    ):
        lab = course.load().lab(condition.artifact)
        uses = reading.uses(here, lab)
        own = sum(use.own and bool(use.passed) for use in uses)
        lines.append(f"Artifact {number} runs on {own} of {len(uses)} parts of your own.")
    return lines


def progress(as_json: AsJson = False) -> None:
    """Show what is passed, what is next, and the points."""
    from grader.report.progress import progress as read

    standing = read(_reports())
    if as_json:
        _print_json(standing.to_json())
        return
    from grader.report.overview import progress_view
    from grader.report.terminal import console

    console().print(progress_view(standing, course.load()))
    for sentence in _here_ownership():
        print(sentence)


def gate(
    condition: Annotated[
        int | None, typer.Argument(metavar="[NUMBER]", help="Only this condition.")
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Grade the labs behind it again, from your folder as it is now."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the three conditions for the next phase, and what each still lacks."""
    from grader.report import progress as reading

    numbers = [one.number for one in course.load().gate]
    if condition is not None and condition not in numbers:
        raise typer.BadParameter(f"one of {', '.join(map(str, numbers))}", param_hint="NUMBER")
    chosen = numbers if condition is None else [condition]
    if live:
        from grader.cli.check import grade_again

        labs = [lab for lab in course.load().labs if set(lab.gate) & set(chosen)]
        artifacts = [one for one in course.load().gate if one.number in chosen and one.artifact]
        grade_again([lab for lab in labs if lab.built], artifacts, quiet=as_json)
    conditions = [
        entry
        for entry in reading.gate(reading.progress(_reports()))
        if entry.condition.number in chosen
    ]
    met = bool(conditions) and all(condition.met for condition in conditions)
    if as_json:
        _print_json(
            {
                "open": met if condition is None else None,
                "conditions": [
                    {
                        "number": entry.condition.number,
                        "title": entry.condition.title,
                        "met": entry.met,
                        "self_assessed": list(entry.self_assessed),
                        "missing": {
                            group: [{"lab": one.lab.id, "what": one.what} for one in lacks]
                            for group, lacks in entry.missing.items()
                        },
                    }
                    for entry in conditions
                ],
            }
        )
    else:
        from grader.report.overview import gate_view
        from grader.report.terminal import console

        console().print(gate_view(conditions))
        for sentence in _here_ownership():
            print(sentence)
    raise typer.Exit(exit_codes.OK if met else exit_codes.FAIL)


def _here_ownership() -> list[str]:
    from grader import workspace

    try:
        return _ownership(workspace.find())
    except workspace.WorkspaceError:
        return []


def _reports() -> Path:
    """Where the reports are; before `init` there are none, which is no error."""
    from grader import workspace

    try:
        return workspace.find().reports
    except workspace.WorkspaceError:
        if workspace.exists():
            raise
        return Path("/nonexistent")


def _site() -> str:
    """The address of the site where it is served now; empty otherwise."""
    try:
        from grader.site.server import address
    except ModuleNotFoundError:
        return ""
    return address() or ""


def _print_json(data: object) -> None:
    print(json.dumps(data, indent=1, ensure_ascii=False))
