"""The machinery of a Kubernetes controller, as client-go has it, in Python.

From the wire to the reconciler, in reading order:

==================  ====================================================
``workqueue``       keys, each once, each with one worker at a time
``rate_limiters``   how long a key waits before it is tried again
``delaying``        the queues that add a key after that long
``deltas``, ``delta_fifo``, ``real_fifo``
                    what happened, between the reflector and the cache
``store``           the cache, with indices
``reflector``       list and watch: the server's state into a queue
``listener``, ``informer``
                    the cache and everyone who is told of its changes
``lister``          reading the cache
``client``          the one module that speaks HTTP
``api``, ``objects``, ``clock``, ``stop``, ``backoff``
                    what they share
==================  ====================================================

Each module says where client-go v0.37.2 does the same, and what its threads
and locks are. Where it differs from client-go on purpose is written in
differences.md, with the test that shows it.
"""
