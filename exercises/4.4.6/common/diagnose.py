"""Say what holds the namespace $NAMESPACE, whose deletion was asked for when its uid was $NAMESPACE_UID.

A line of JSON on standard output for each thing that holds it. Nothing is changed.
"""

import json
import os
import re
import subprocess
import sys

NAMESPACE, UID = os.environ["NAMESPACE"], os.environ["NAMESPACE_UID"]


def kubectl(*words):
    """What `kubectl get … -o json` answers; None where there is no such object."""
    asked = subprocess.run(
        ["kubectl", "get", *words, "-o", "json", "--show-managed-fields"],
        capture_output=True,
        text=True,
    )
    if asked.returncode == 0:
        return json.loads(asked.stdout)
    if "NotFound" in asked.stderr:
        return None
    sys.exit(asked.stderr)


def say(why, resource=None, namespace=None, object=None, finalizer=None, condition=None):
    print(
        json.dumps(
            dict(
                why=why,
                resource=resource,
                namespace=namespace,
                object=object,
                finalizer=finalizer,
                condition=condition,
            )
        ),
        flush=True,
    )


def diagnose():
    say("nothing")  # TODO


diagnose()
