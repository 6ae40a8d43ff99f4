"""The gate that every operator must pass, in any language and with any framework.

It takes a command, runs it behind wires, and judges by what was said on them
and by what the API server held: never by the operator's own log. See
:func:`grader.conformance.suite.conform`; the contract is in
:mod:`grader.conformance.contract`.
"""
