"""`down` ends what is here, and says what it cannot end."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from grader import cluster as clusters
from grader.cli import app
from grader.cluster.errors import EnvironmentProblem


@pytest.mark.parametrize("options", [["down"], ["down", "--json"]])
def test_one_that_cannot_be_ended_does_not_keep_the_others(home, monkeypatch, options):
    def stop(name: str, *, backend: str) -> bool:
        if name == "a":
            raise EnvironmentProblem("The cluster a runs on another machine.")
        return True

    monkeypatch.setattr(
        clusters, "names", lambda *, backend: ["a", "b"][: 2 * (backend == "embedded")]
    )
    monkeypatch.setattr(clusters, "stop", stop)
    done = CliRunner().invoke(app.build(), options)
    assert isinstance(done.exception, EnvironmentProblem)
    assert "b" in done.stdout and "Nothing was running" not in done.stdout
