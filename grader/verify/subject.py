"""Where everything of a lab lies that a measurement of its grader looks at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from grader import course, cut, mistakes
from grader.verify.model import Case


class VerifyError(Exception):
    """Nothing can be measured; ``str()`` says why in a sentence."""


@dataclass(frozen=True)
class Subject:
    """One lab under measurement, in the repository at ``root``."""

    lab: str
    root: Path
    module: str = ""
    needs: tuple[str, ...] = ()
    declared_tracks: tuple[str, ...] = ()
    #: The parts of the artifacts that the lab asks for.
    writes: tuple[course.Part, ...] = ()

    @property
    def solutions(self) -> Path:
        return self.root / "solutions"

    @property
    def grader(self) -> Path:
        return (
            self.root / "grader" / "labs" / f"lab_{self.lab.replace('.', '_').replace('-', '_')}.py"
        )

    @property
    def live(self) -> bool:
        """Whether it talks to a cluster, so that two at once would slow each other down."""
        return "cluster" in self.needs

    @property
    def one_by_one(self) -> bool:
        """Whether its checks may be run one at a time: the grader says ``CHECKS_STAND_ALONE = True``.

        A mistake is then judged by the check that it is to fail, and nothing
        else is waited for.
        """
        return bool(re.search(r"^CHECKS_STAND_ALONE = True$", self.grader.read_text("utf-8"), re.M))

    def mistakes(self) -> list[mistakes.Mistake]:
        return mistakes.load(self.lab, self.root / "grader" / "mistakes")

    def cases(self) -> list[Case]:
        """Every submission to grade, right ones first."""
        tracks = cut.tracks(self.lab, self.solutions)
        found = [Case("answer", track) for track in tracks]
        for name, track in cut.variants(self.lab, self.solutions).items():
            found.append(Case("variant", track or tracks[0], name))
        found += [Case("starter", track) for track in tracks]
        for mistake in self.mistakes():
            found.append(
                Case(
                    "mistake",
                    mistake.track or tracks[0],
                    mistake.name,
                    mistake.fails,
                    mistake.diagnosis,
                )
            )
        return found

    def lay_out(self, case: Case, into: Path) -> Path:
        """Write the case's submission into a folder; returns the lab's own folder in it."""
        if case.kind == "starter":
            return cut.starter(
                self.lab,
                case.track,
                into,
                writes=lambda path: any(part.has(path, case.track) for part in self.writes),
                solutions=self.solutions,
            )
        mistake = None
        variant = case.name if case.kind == "variant" else ""
        if case.kind == "mistake":
            (mistake,) = [one for one in self.mistakes() if one.name == case.name]
            variant = mistake.variant
        folder = cut.handed_in(
            self.lab, case.track, into, variant=variant, solutions=self.solutions
        )
        if mistake is not None:
            mistake.apply(folder)
        return folder

    def complaints(self) -> tuple[dict[str, list[str]], list[str]]:
        """What can be said without grading anything: checks to mistakes, and what is missing."""
        found: list[str] = []
        checks = {check.id: list[str]() for check in course.checks_in(self.grader)}
        if not checks:
            found.append(f"{self.grader.name} declares no check")
        all_mistakes = self.mistakes()
        for mistake in all_mistakes:
            if mistake.fails not in checks:
                found.append(f"{mistake} is to fail {mistake.fails}, and there is no such check")
            else:
                checks[mistake.fails].append(mistake.name)
        found += [f"no mistake fails {check}" for check, names in checks.items() if not names]
        if len(all_mistakes) < 3:
            found.append(f"it has {len(all_mistakes)} mistakes, and three are the least")
        tracks = cut.tracks(self.lab, self.solutions)
        for track in self.declared_tracks:
            if track not in tracks:
                found.append(f"there is no answer in the {track} track")
        if len(tracks) + len(cut.variants(self.lab, self.solutions)) < 2:
            found.append("it has one right answer, and two different ones are the least")
        hints = self.root / "grader" / "hints" / f"{self.lab}.md"
        count = 0
        if hints.is_file():
            count = sum(
                line.startswith("## ") for line in hints.read_text(encoding="utf-8").splitlines()
            )
        if count != 3:
            found.append(f"{hints.name} has {count} hints instead of three")
        if self.module and not (self.root / "docs" / self.module / f"{self.lab}.md").is_file():
            found.append(f"its page docs/{self.module}/{self.lab}.md is missing")
        return checks, found


def find(name: str, root: Path = course.ROOT) -> Subject:
    """The lab of that id or slug, whether the manifest calls it built or not."""
    manifest = root / "grader" / "course.toml"
    if manifest.is_file():
        try:
            lab = course.load(manifest).lab(name)
        except course.CourseError:
            lab = None
        if lab is not None:
            parts = course.load(manifest).parts
            writes = tuple(part for part in parts if part.id in lab.writes)
            return Subject(lab.id, root, lab.module, lab.needs, lab.tracks, writes)
    subject = Subject(name, root)
    if not subject.grader.is_file():
        raise VerifyError(f"there is no lab {name} with a grader")
    return subject


def subjects(names: list[str], root: Path = course.ROOT) -> list[Subject]:
    """The labs named (ids, slugs or whole modules), or all that the manifest calls built."""
    manifest = root / "grader" / "course.toml"
    loaded = course.load(manifest) if manifest.is_file() else None
    if not names:
        built = [lab for lab in loaded.labs if lab.built] if loaded else []
        if not built:
            raise VerifyError("the manifest has no lab that is built")
        return [find(lab.id, root) for lab in built]
    found: list[Subject] = []
    modules = {module.id for module in loaded.modules} if loaded else set()
    for name in names:
        if loaded and name in modules:
            found += [find(lab.id, root) for lab in loaded.labs_of(name) if lab.built]
        else:
            found.append(find(name, root))
    if not found:
        raise VerifyError(f"no lab of {' '.join(names)} is built")
    return list(dict.fromkeys(found))
