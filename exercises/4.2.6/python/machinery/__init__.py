"""The machinery as far as this lab needs it. Yours is a part of ``listener``."""
