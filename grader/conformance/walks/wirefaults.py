"""The faults that a burst may have: rules on the operator's wire, kills, and what shows them.

A fault on a kind of write is of interest only where such a write happens: each has the
operations that cause it. Those of :data:`ASIDE` concern one namespace, so that walks beside
each other on one process do not disturb each other; those of :data:`WHOLE` concern the
process or a watch of everything.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Operations that make an operator write, by what it writes.
_PODS_MADE = ("image", "scale", "pod-kill", "pod-delete", "pod-fail")
_PODS_ENDED = ("image", "scale-down", "pod-fail", "pod-image", "both")
_STATUS = ("scale", "image", "pod-kill", "pod-unready")
_RECORD = ("record-edit", "record-delete", "record-null")
_LEAVING = ("delete", "recreate")


@dataclass(frozen=True)
class Fault:
    """``rules`` are armed before the burst; ``{ns}`` and ``{record}`` are the walk's.

    ``causes`` are kinds of operations, one of which begins the burst. ``hinders`` says what
    cannot be done while the rules are in force (``pods``, ``record``): the status must be true
    all the same, and is looked at. ``process`` is ``kill`` or ``term``: the operator is down
    during the burst. ``last`` are rules that are added when the others are removed.
    """

    rules: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    hinders: frozenset[str] = frozenset()
    process: str = ""
    last: tuple[str, ...] = ()
    #: Kinds of operations that are of most interest while it is in force.
    beside: tuple[str, ...] = ()

    @property
    def lasts(self) -> bool:
        """Whether it is in force until it is removed, so that a state can be checked."""
        return any(rule.startswith(("hold", "delay")) for rule in self.rules) or bool(self.hinders)

    @property
    def kills(self) -> bool:
        """Whether a rule of it kills the process."""
        return any(rule.startswith("kill-") for rule in self.rules)


def _scoped() -> dict[str, Fault]:
    pods, record = frozenset({"pods"}), frozenset({"record"})
    makes, ends = "create,patch pods ns={ns}", "delete,deletecollection pods ns={ns}"
    status, itself = "update,patch webapps/status ns={ns}", "update,patch webapps ns={ns}"
    recorded = "configmaps ns=dns name={record}"
    found = {
        "Pods cannot be made": Fault((f"answer 500 {makes} times=always",), _PODS_MADE, pods),
        "Pods cannot be deleted": Fault((f"answer 500 {ends} times=always",), _PODS_ENDED, pods),
        "the record cannot be written": Fault(
            (f"answer 500 create,update,patch {recorded} times=always",), _RECORD, record
        ),
        "the record cannot be deleted": Fault(
            (f"answer 500 delete,get {recorded} times=always",), _LEAVING, record
        ),
        "creates of Pods hang": Fault(
            (f"hold {makes}",), _PODS_MADE, beside=("scale-down", "delete", "squat")
        ),
        "deletes of Pods hang": Fault((f"hold {ends}",), _PODS_ENDED, beside=("squat",)),
        "writes of the status hang": Fault((f"hold {status}",), _STATUS),
        "writes of the record hang": Fault((f"hold create,update,patch {recorded}",), _RECORD),
        "the delete of the record hangs": Fault((f"hold delete {recorded}",), _LEAVING),
        "writes of the finalizer hang": Fault(
            (f"hold {itself}",), _LEAVING, beside=("app-held", "app-marks")
        ),
        "requests are slow": Fault(("delay 120ms any ns={ns}",), ("both", "recreate", "scale")),
    }
    for what, target, causes in (
        ("a Pod's create", makes, _PODS_MADE),
        ("a Pod's delete", ends, _PODS_ENDED),
        ("the status", status, _STATUS),
        ("the finalizer", itself, ("recreate", "create", "delete")),
        ("the record", f"create,update,patch {recorded}", _RECORD),
        ("the record's delete", f"delete {recorded}", _LEAVING),
    ):
        for says, rule in (
            ("500", f"answer 500 {target} times=2"),
            ("409", f"answer 409 {target} times=2"),
            ("429", f"answer 429 {target}"),
            ("a time-out", f"timeout {target}"),
            ("no answer, though applied", f"drop-answer {target}"),
        ):
            found[f"{what} is answered with {says}"] = Fault((rule,), causes)
    return found


def _whole() -> dict[str, Fault]:
    found = {
        "the operator is killed, and down for a while": Fault(process="kill"),
        "the operator is stopped, and down for a while": Fault(process="term"),
    }
    for what, target, causes in (
        ("a Pod is created", "create pods", _PODS_MADE),
        ("a Pod is deleted", "delete pods", _PODS_ENDED),
        ("the status is written", "update,patch webapps/status", _STATUS),
        ("the WebApp is written", "update,patch webapps", _LEAVING),
        ("the record is created", "create configmaps", ("record-delete", "recreate")),
        ("the record is deleted", "delete configmaps", _LEAVING),
    ):
        for side in ("before", "after"):
            found[f"killed {side} {what}"] = Fault((f"kill-{side} {target}",), causes)
    for resource, causes in (
        ("pods", ("pod-kill", "scale", "image", "pod-fail")),
        ("webapps", ("scale", "image", "recreate", "delete")),
        ("configmaps", _RECORD),
    ):
        freeze = f"freeze watch {resource}"
        found[f"the watch of {resource} is late"] = Fault((freeze,), causes)
        found[f"the watch of {resource} is late, then expired"] = Fault(
            (freeze,), causes, last=(f"error 410 watch {resource}",)
        )
        found[f"the watch of {resource} is late, then cut and refused"] = Fault(
            (freeze,),
            causes,
            last=(f"answer 500 list,watch {resource} times=2", f"cut watch {resource}"),
        )
        found[f"the watch of {resource} is late, then expired, as is the version after it"] = Fault(
            (freeze,),
            causes,
            last=(f"answer 410 watch,list {resource} times=2", f"error 410 watch {resource}"),
        )
    return found


#: Faults that concern one walk's namespace.
ASIDE = _scoped()
#: Faults that concern the whole process, or a watch that all share.
WHOLE = _whole()
FAULTS = {"": Fault()} | ASIDE | WHOLE
