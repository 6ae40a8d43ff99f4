"""The machinery as far as this lab has it: the work queue, and what replays traces on it."""
