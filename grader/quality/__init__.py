"""The project's own checks, as ``phase4 test`` and CI run them."""
