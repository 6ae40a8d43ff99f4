"""The machinery as far as this lab has it. Yours are ``rate_limiters`` and ``delaying``."""
