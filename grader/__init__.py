"""Phase 4: graders that run a learner's own controllers against a real API server.

Arrows go one way: ``cluster`` knows nothing of labs, ``report`` knows nothing
of clusters, and nothing here ever imports a learner's code: it runs as a
process of its own (:mod:`grader.runner`) behind a recording proxy
(:mod:`grader.wire`).
"""

__version__ = "0.1.0"
