from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from .oracle import Oracle, build

#: Random traces for each structure. CI runs 1,000; before a release, 100,000.
TRACES = int(os.environ.get("PHASE4_TRACES", "1000"))

settings.register_profile(
    "traces",
    max_examples=TRACES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="session")
def oracle_binary():
    return build()


@pytest.fixture(scope="module")
def oracle(oracle_binary):
    """client-go's own structures, to run a trace on."""
    process = Oracle(oracle_binary)
    yield process
    process.close()
