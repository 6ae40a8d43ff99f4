from __future__ import annotations

from pathlib import Path

import pytest

from tests.once import once

from .oracle import Oracle, build, given_oracle


@pytest.fixture(scope="session")
def oracle_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if given := given_oracle():
        return given
    return once(tmp_path_factory, "oracle", build) / "oracle"


@pytest.fixture(scope="session")
def oracle(oracle_binary):
    """client-go's own structures, to run a trace on."""
    process = Oracle(oracle_binary)
    yield process
    process.close()
