"""How small a fault is seen: every small change of a right program, judged by what judges learners.

A mutant is a right program with one :class:`~grader.verify.mutation.edits.Edit`.
It is killed where the conformance suite, or the lab's grader, rejects it. One that
survives is a gap in what judges it, or no fault at all: then ``survivors.toml``
says why.
"""
