"""The course's site on the learner's own machine: built from ``docs/``, served to loopback alone."""
