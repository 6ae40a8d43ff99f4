from __future__ import annotations

import pytest

from .oracle import Oracle, build


@pytest.fixture(scope="session")
def oracle_binary(tmp_path_factory):
    return build(tmp_path_factory.mktemp("oracle"))


@pytest.fixture(scope="module")
def oracle(oracle_binary):
    """client-go's own structures, to run a trace on."""
    process = Oracle(oracle_binary)
    yield process
    process.close()
