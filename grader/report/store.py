"""Reports on disk: one JSON file per lab, the latest run, replaced atomically."""

from __future__ import annotations

import json
from pathlib import Path

from grader import files
from grader.report.model import LabReport, ReportError


def path_of(folder: Path, lab: str) -> Path:
    """Where the report of a lab is."""
    return folder / f"{lab}.json"


def save(folder: Path, report: LabReport) -> Path:
    """Store a report as the lab's latest; returns where."""
    path = path_of(folder, report.lab)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n"
    files.write(path, text, durable=True)
    return path


def load(folder: Path, lab: str) -> LabReport | None:
    """The latest report of a lab, None where it was never checked.

    :class:`ReportError` where the file is damaged or of another version.
    """
    path = path_of(folder, lab)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"cannot read {path}: {error}. {_REMEDY}") from error
    try:
        report = LabReport.from_json(json.loads(text))
    except (ValueError, ReportError) as error:
        raise ReportError(f"cannot read {path}: {error}. {_REMEDY}") from error
    if report.lab != lab:
        raise ReportError(f"{path} is the report of lab {report.lab}. {_REMEDY}")
    return report


_REMEDY = "`phase4 check` of that lab writes a new one."


def all_of(folder: Path, labs: list[str]) -> tuple[dict[str, LabReport], list[str]]:
    """The reports of these labs by id, and a sentence for each that cannot be read."""
    found, damaged = {}, []
    for lab in labs:
        try:
            report = load(folder, lab)
        except ReportError as error:
            damaged.append(str(error))
            continue
        if report is not None:
            found[lab] = report
    return found, damaged
