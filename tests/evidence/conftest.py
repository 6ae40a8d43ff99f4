"""What tests of evidence share."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from grader.cli import cite as commands


@pytest.fixture
def cli():
    """``cli("dev", "pins")``: runs ``cite`` and its ``dev`` commands, and nothing else."""
    app = typer.Typer()
    commands.register(app)
    dev = typer.Typer()
    commands.register_dev(dev)
    app.add_typer(dev, name="dev")
    return lambda *args: CliRunner().invoke(app, list(args))
