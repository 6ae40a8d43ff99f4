"""The machinery as far as this lab needs it. Yours are four places in ``reflector``."""
