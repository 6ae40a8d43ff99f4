"""Start, watch, stop and kill a learner's programs."""
