"""The machinery, all of it given: yours is what ``pruner.py`` does with it."""
