"""Random walks against a model of the contract: faults for which nobody wrote a scenario.

A **walk** is a list of bursts. A burst is some operations (edits, deletes, foreign writes,
Pods that fail, states that are held) and possibly a fault on the operator's wire. After each
burst the operator comes to rest, and everything in the walk's namespace is compared with
what the model says must be and may be.

==================  ==============================================================
:mod:`~.walk`       what a walk is made of, as data
:mod:`~.model`      what must hold at rest after what was done; knows no cluster
:mod:`~.hand`       carries operations out, and says each as a command
:mod:`~.wirefaults` the faults that a burst may have
:mod:`~.generate`   draws a walk from a seed, and finds the shortest that still fails
:mod:`~.tries`      one walk against an operator, to a finding or none
:mod:`~.explore`    many walks within a budget, and the failure that came of them
==================  ==============================================================
"""
