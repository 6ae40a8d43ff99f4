"""The machinery as far as this lab has it. Yours is ``delta_fifo``; ``real_fifo`` is given."""
