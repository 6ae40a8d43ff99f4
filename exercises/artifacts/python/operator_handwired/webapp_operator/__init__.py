"""The WebApp operator, wired by hand from :mod:`machinery`.

``types`` is the API, ``controller`` the wiring (informers, handlers, queue,
workers), ``reconcile`` and ``pods`` the work, ``election`` the lease,
``__main__`` flags and signals. One WebApp is one key; everything that is done
for it can be interrupted after any write and done again from the start.
"""
