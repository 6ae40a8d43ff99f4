from __future__ import annotations

import pytest

from .oracle import Oracle, build


@pytest.fixture(scope="session")
def oracle_binary():
    return build()


@pytest.fixture(scope="module")
def oracle(oracle_binary):
    """client-go's own structures, to run a trace on."""
    process = Oracle(oracle_binary)
    yield process
    process.close()
