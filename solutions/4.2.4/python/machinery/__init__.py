"""The machinery as far as this lab needs it. Yours is one method of ``informer``."""
