"""One run of the conformance suite against one operator: what all its scenarios share."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from grader.cluster.api import Api, ApiError
from grader.conformance import contract
from grader.conformance.history import History
from grader.conformance.processes import Processes, Subject
from grader.runner import Runner

if TYPE_CHECKING:
    from grader.cluster.interface import Cluster

#: Scenarios that share the operator process and run at the same time.
AT_ONCE = 8


class Trial:
    """The cluster, the operator's processes, the namespaces, and what the API server held.

    Each scenario works on a :class:`~grader.conformance.bench.Bench` of its own.
    """

    def __init__(
        self,
        cluster: Cluster,
        subject: Subject,
        run_dir: Path,
        *,
        seed: int = 0,
        runner: Runner | None = None,
        patience: float = 1.0,
        walks: int | None = None,
    ) -> None:
        """``runner``: one that is there already; it is not closed with the trial.

        ``patience`` scales every wait for an operator to converge. ``walks``: so many random
        walks, in place of as many as there is time for.
        """
        self.run_dir = run_dir
        self.seed = seed
        self.patience = patience
        self.walks = walks
        self.api = Api(cluster, user_agent="phase4-conformance")
        self.history = History(self.api)
        self.processes = Processes(
            subject, runner or Runner(cluster, run_dir, seed=seed).__enter__()
        )
        #: Every namespace that was made.
        self.namespaces: list[str] = []
        #: Writes to objects that are nobody's concern here: told once (see Past).
        self.charged: set[tuple[str, int]] = set()
        #: Those of scenarios that are over, and since when (seconds since the epoch): the
        #: suite itself deletes what is there.
        self.retired: dict[str, float] = {}
        self._retiring = ThreadPoolExecutor(2, "retire")
        self._pending: list[Future] = []
        self.log_path = run_dir / "conformance.log"
        self._owns_runner = runner is None
        self._aside = ""
        self._asides = itertools.count(1)

    def log(self, text: str) -> None:
        with self.processes.lock, self.log_path.open("a", encoding="utf-8") as log:
            log.write(text.rstrip() + "\n")

    def close(self) -> None:
        """End every process, and ask for the namespaces to be deleted."""
        if self._owns_runner:
            self.processes.runner.close()
        else:
            self.processes.stop_shared()
        self._retiring.shutdown()
        self.history.close()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._delete_namespace, self.namespaces))
        self._delete_records()

    def new_namespace(self) -> str:
        """Make a namespace whose name nobody can know beforehand."""
        name = f"conform-{random.SystemRandom().randrange(16**8):08x}"
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.namespaces.append(name)
        return name

    @property
    def command(self) -> str:
        """The operator's command, as its author wrote it."""
        return self.processes.subject.shown

    def clear(self) -> None:
        """Take away all that is in the namespaces, whoever's finalizers are on it.

        For a scenario that is alone, while no operator runs.
        """
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._clear_namespace, self.namespaces))
        self._delete_records()

    def _clear_namespace(self, namespace: str) -> None:
        nobodys = {"metadata": {"finalizers": None}}
        for resource in (contract.WEBAPPS, "pods"):
            for item in self.api.list(resource, namespace)["items"]:
                name = item["metadata"]["name"]
                try:
                    if item["metadata"].get("finalizers"):
                        self.api.patch(resource, name, nobodys, namespace)
                    self.api.delete(resource, name, namespace, grace_seconds=0)
                except ApiError as error:
                    if error.status not in (404, 409):
                        raise

    def retire(self, namespaces: Sequence[str]) -> None:
        """Ask for the WebApps of a scenario that is over to be deleted, and do not wait.

        The operator that serves them removes its finalizers; what it leaves,
        :meth:`sweep` takes. Who judges the whole timeline leaves out what follows.
        """
        for namespace in namespaces:
            self.retired[namespace] = time.time()
        self._pending.append(self._retiring.submit(self._delete_webapps, list(namespaces)))

    def sweep(self) -> None:
        """Remove what is left of retired WebApps: no operator runs that could do it."""
        while self._pending:
            self._pending.pop().result()
        for app in self.history.webapps_in(self.retired):
            self._remove(app["metadata"]["name"], app["metadata"]["namespace"])
            try:
                self.api.delete("configmaps", contract.record_name(app), contract.DNS_NAMESPACE)
            except ApiError as error:
                if error.status != 404:
                    raise

    def _delete_webapps(self, namespaces: list[str]) -> None:
        for namespace in namespaces:
            path = f"/apis/{contract.API_VERSION}/namespaces/{namespace}/webapps"
            try:
                self.api.raw("DELETE", path)
            except ApiError as error:
                self.log(f"the WebApps of {namespace} were not deleted: {error}")

    def _remove(self, name: str, namespace: str) -> None:
        """Delete a WebApp although nobody may be left to remove its finalizers."""
        try:
            self.api.delete(contract.WEBAPPS, name, namespace)
            if self.api.find(contract.WEBAPPS, name, namespace):
                nobodys = {"metadata": {"finalizers": None}}
                self.api.patch(contract.WEBAPPS, name, nobodys, namespace)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def one_aside(self) -> dict:
        """Create a WebApp that is no scenario's concern, in a namespace for such ones."""
        with self.processes.lock:
            self._aside = self._aside or self.new_namespace()
        name = f"aside-{next(self._asides)}"
        return self.api.create(contract.webapp(name, self._aside, replicas=0))

    def _delete_namespace(self, namespace: str) -> None:
        """Delete a namespace although nobody may be left to remove its finalizers."""
        try:
            for item in self.api.list(contract.WEBAPPS, namespace)["items"]:
                self._remove(item["metadata"]["name"], namespace)
            self.api.delete("namespaces", namespace)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _delete_records(self) -> None:
        """Delete the DNS records of our WebApps: nobody else does, and a wrong operator did not."""
        ours = set(self.namespaces)
        uids = {
            state.uid
            for state in self.history.states(resource="webapps")
            if state.namespace in ours
        }
        for record in self.api.list("configmaps", contract.DNS_NAMESPACE)["items"]:
            if record["metadata"]["name"].removeprefix("record-") in uids:
                try:
                    if record["metadata"].get("finalizers"):
                        self.api.patch(
                            "configmaps",
                            record["metadata"]["name"],
                            {"metadata": {"finalizers": None}},
                            contract.DNS_NAMESPACE,
                        )
                    self.api.delete(
                        "configmaps", record["metadata"]["name"], contract.DNS_NAMESPACE
                    )
                except ApiError as error:
                    if error.status != 404:
                        raise
