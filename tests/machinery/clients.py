"""client-go's informer and ours, on a server, behind one face."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any, Protocol

from kubernetes import client as kubernetes_client
from machinery.api import Resource
from machinery.client import Client, ResourceClient
from machinery.informer import SharedInformer
from machinery.listener import Handler

from .script import brief

CONFIGMAPS = Resource("", "v1", "configmaps")


class Follower(Protocol):
    """An informer that runs: what its handler was told, and what its cache has."""

    def wait(self, *wanted: Any, timeout: float = 60) -> None:
        """Wait until the handler was told all of ``wanted`` (in any order)."""

    def wait_count(self, count: int, timeout: float = 60) -> None:
        """Wait until the handler was told ``count`` things, however they are noted."""

    def notes(self) -> list[list[Any]]: ...

    def store(self) -> list[str]: ...

    def synced(self) -> bool: ...

    def close(self) -> None: ...


class _Notes:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.told: list[list[Any]] = []

    def note(self, *note: Any) -> None:
        with self.changed:
            self.told.append(list(note))
            self.changed.notify_all()

    def notes(self) -> list[list[Any]]:
        with self.changed:
            return [note for note in self.told if note[0] != "synced"]

    def wait_count(self, count: int, timeout: float = 60) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.notes()) >= count, timeout):
                raise TimeoutError(f"waited for {count} notes; told: {self.told}")

    def wait(self, *wanted: Any, timeout: float = 60) -> None:
        wanted_lists = [list(one) for one in wanted]
        with self.changed:
            done = self.changed.wait_for(
                lambda: all(
                    one in [note[: len(one)] for note in self.told] for one in wanted_lists
                ),
                timeout,
            )
            if not done:
                raise TimeoutError(f"waited for {wanted_lists}; told: {self.told}")


class Ours(_Notes):
    """The Python machinery's informer."""

    def __init__(
        self,
        url: str,
        *,
        watch_list: bool = True,
        resource: Resource = CONFIGMAPS,
        watch_seconds: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if watch_seconds is not None:
            options["watch_timeout"] = (watch_seconds, watch_seconds)
        configuration = kubernetes_client.Configuration()
        configuration.host = url
        configuration.connection_pool_maxsize = 16
        client = Client(kubernetes_client.ApiClient(configuration))
        self.errors: list[Exception] = []
        self.informer = SharedInformer(
            ResourceClient(client, resource),
            use_watch_list=watch_list,
            on_error=self.errors.append,
            **options,
        )
        outer = self

        class Noting(Handler):
            def on_add(self, obj, in_initial_list):
                outer.note("add", brief(obj), in_initial_list)

            def on_update(self, old, new):
                outer.note("update", brief(old), brief(new))

            def on_delete(self, obj):
                outer.note("delete", brief(obj))

        registration = self.informer.add_handler(Noting())
        self.informer.start()

        def tell_synced() -> None:
            if registration.wait_for_sync():
                self.note("synced")

        threading.Thread(target=tell_synced, daemon=True).start()

    def store(self) -> list[str]:
        return sorted(brief(obj) for obj in self.informer.store.list())

    def synced(self) -> bool:
        return self.informer.has_synced()

    def close(self) -> None:
        assert self.informer.stop(timeout=60), "a thread did not end"


class ClientGo(_Notes):
    """client-go's informer, in the oracle's process."""

    def __init__(
        self,
        binary: Path,
        url: str,
        *,
        watch_list: bool = True,
        resource: Resource = CONFIGMAPS,
        watch_seconds: float = 0,
    ) -> None:
        super().__init__()
        self._process = subprocess.Popen(
            [
                *(str(binary), "follow", "--url", url),
                *("--group", resource.group, "--version", resource.version),
                *("--resource", resource.plural, "--namespace", resource.namespace),
                *("--watch-seconds", str(int(watch_seconds))),
            ],
            env={**os.environ, "KUBE_FEATURE_WatchListClient": str(watch_list).lower()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._stores: list[list[Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            note = json.loads(line)
            if note[0] == "store":
                with self.changed:
                    self._stores.append(note)
                    self.changed.notify_all()
            else:
                self.note(*note)

    def _ask(self) -> list[Any]:
        with self.changed:
            before = len(self._stores)
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        with self.changed:
            assert self.changed.wait_for(lambda: len(self._stores) > before, 60)
            return self._stores[-1]

    def store(self) -> list[str]:
        return self._ask()[1]

    def synced(self) -> bool:
        return self._ask()[2]

    def close(self) -> None:
        self._process.communicate()
