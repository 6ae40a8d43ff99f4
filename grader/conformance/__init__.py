"""The conformance suite: what every operator must pass, in any language and with any framework.

It takes a command, runs it behind wires, and judges by the requests it sent
and by what the API server stored: never by the operator's own log. See
:func:`grader.conformance.suite.conform`; the contract is in ``contract.toml``,
and what is so at rest, as code, in :mod:`grader.conformance.contract`.
"""
