"""What a learner writes rather than runs: citations, diagrams, predictions, sentences.

``citations`` checks a quoted source line by its content, ``places`` what that line does,
``mermaid`` turns a flowchart into a graph, ``answers`` reads ``answers.md``,
``questions`` and ``rubric`` judge a sentence as far as that can be done for certain.
Nothing here talks to a cluster, and nothing needs the upstream sources to be on the
machine: the ``index`` folder holds digests of them.
"""
