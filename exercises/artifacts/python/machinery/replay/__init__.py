"""Replay traces on the machinery, and print what happened.

The twin of oracle/, which does the same with client-go. See :mod:`.loop` for
the form of a trace, and a module for each structure.
"""
