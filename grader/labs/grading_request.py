"""What one run of a grader is asked to do: a JSON file between two processes."""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.course import Lab

#: In the environment of every process that a run starts for a learner.
MARKER = "PHASE4_GRADING"

#: Seconds that one phase of a check (its fixtures, itself, its clean-up) may take.
CHECK_SECONDS = 300.0


@dataclass(frozen=True)
class Request:
    """One lab, one submission.

    ``submission`` is the lab's folder as handed in, ``grader`` the grader's
    file, ``run_dir`` an existing folder for logs, wires and output. ``cluster``
    and ``backend`` are names (empty for the defaults); ``isolation`` is
    ``none`` or ``bwrap``. ``only`` names the checks to run, none for all of
    them. ``patience`` scales how long a grader waits for what a right program
    would have done long ago: a learner's program gets all of it (1.0).
    ``needs_cluster`` has the cluster up before the session starts, so that
    starting it counts towards no check's time. ``check_seconds`` limits each
    phase of a check. ``marker`` is the value of ``PHASE4_GRADING`` in every
    learner's process that the run starts, so that none of them can be lost.
    """

    submission: Path
    lab: str
    grader: Path
    run_dir: Path
    track: str = ""
    cluster: str = ""
    backend: str = ""
    needs_cluster: bool = False
    isolation: str = "none"
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(2**31))
    only: tuple[str, ...] = ()
    patience: float = 1.0
    marker: str = field(default_factory=lambda: uuid.uuid4().hex)
    check_seconds: float = CHECK_SECONDS
    #: An open file descriptor on which the plugin tells what it is doing; -1 for none.
    progress_fd: int = -1

    def __post_init__(self) -> None:
        for name in ("submission", "grader", "run_dir"):
            object.__setattr__(self, name, Path(getattr(self, name)).absolute())

    @classmethod
    def of(cls, lab: Lab, submission: Path, run_dir: Path, **options: Any) -> Request:
        """A request to grade a lab of the course; ``options`` are fields, None for the default."""
        options = {name: value for name, value in options.items() if value is not None}
        options.setdefault("grader", lab.grader)
        options.setdefault("needs_cluster", "cluster" in lab.needs)
        return cls(submission=submission, lab=lab.id, run_dir=run_dir, **options)

    def asks_for(self, check: str) -> bool:
        """Whether the check of that id is to be run."""
        return not self.only or check in self.only

    @property
    def report(self) -> Path:
        """Where pytest-json-report writes."""
        return self.run_dir / "pytest.json"

    @property
    def facts(self) -> Path:
        """What the fixtures tell about the run as a whole: the backend, versions, rules."""
        return self.run_dir / "facts.json"

    @property
    def log(self) -> Path:
        """Tracebacks and output of the grader: for its maintainer, not for a learner."""
        return self.run_dir / "grader.log"

    @property
    def output(self) -> Path:
        """What the session itself printed: where it did not come as far as a log, its reason."""
        return self.run_dir / "grader.out"

    def save(self) -> Path:
        path = self.run_dir / "request.json"
        fields = {
            name: str(value) if isinstance(value, Path) else value
            for name, value in asdict(self).items()
        }
        path.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> Request:
        fields = json.loads(Path(path).read_text(encoding="utf-8"))
        for name in ("submission", "grader", "run_dir"):
            fields[name] = Path(fields[name])
        fields["only"] = tuple(fields.get("only", ()))
        return cls(**fields)
