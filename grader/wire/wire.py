"""A wire: the proxy between one process of a learner and the API server.

>>> with Wire(cluster, "operator", run_dir, rules=["answer 409 update foos"]) as wire:
...     start_process(env={"KUBECONFIG": str(wire.kubeconfig)})
...     rule = wire.rules.add("freeze watch foos")
...     rule.wait_fired(timeout=10)
...     rule.remove()

Threads: a wire has one thread with an asyncio loop, on which everything happens;
the methods here may be called from any other thread and return when their
effect is in force. Several wires in one process share only the clock.

Files, in ``run_dir/<client>/``: ``wire.jsonl`` (the record, see
:mod:`grader.wire.records`), ``kubeconfig`` (for the process: no credential of
the cluster, but the secret address of this wire, see :mod:`grader.wire.access`),
``wire.json`` (where it listens; there while it is in use). The sockets are
beside them where the path is short enough for a socket, else in a temporary
folder. No other user of the machine may read any of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from grader.cluster import credentials, dirs
from grader.cluster.errors import EnvironmentProblem
from grader.wire import control
from grader.wire.access import Access
from grader.wire.engine import Armed, Engine
from grader.wire.in_use import in_use
from grader.wire.proxy import Connections, Proxy
from grader.wire.recorder import Recorder
from grader.wire.records import is_client_name
from grader.wire.rules import Rule, parse_rule, parse_rules

USER_PREFIX = "phase4:"
#: sun_path holds 104 bytes on macOS, 108 on Linux, the final NUL included.
_SOCKET_PATH = 100


@dataclass(frozen=True)
class Identity:
    """The user that the process is to the API server (by impersonation).

    >>> Identity.service_account("phase4-system", "webapp-operator")
    """

    user: str
    groups: tuple[str, ...] = ()

    @classmethod
    def of(cls, client: str) -> Identity:
        """What a process gets where nothing else is said: ``phase4:<client>``, allowed everything.

        A person's own programs make what they like (``phase4 run -- kubectl apply``),
        and a lab's work in namespaces whose names are made up for each run: no role
        that every cluster has allows that but the one of ``system:masters``. A lab
        on what a role must allow names a ServiceAccount in its place.
        """
        return cls(USER_PREFIX + client, ("system:masters",))

    @classmethod
    def service_account(cls, namespace: str, name: str) -> Identity:
        """A ServiceAccount, with the groups that the API server gives one."""
        return cls(
            f"system:serviceaccount:{namespace}:{name}",
            ("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
        )

    def headers(self) -> list[tuple[str, str]]:
        """The impersonation headers."""
        return [
            ("Impersonate-User", self.user),
            *(("Impersonate-Group", group) for group in self.groups),
        ]


class RuleHandle:
    """A rule in force on a wire."""

    def __init__(self, rules: Rules, armed: Armed) -> None:
        self._rules = rules
        self._armed = armed

    @property
    def id(self) -> str:
        """Its id in the record (``r1``, ``r2``, ...)."""
        return self._armed.id

    @property
    def text(self) -> str:
        return str(self._armed.rule)

    @property
    def fired(self) -> int:
        """How often it has acted so far."""
        return self._armed.fired

    def wait_fired(self, times: int = 1, *, timeout: float) -> None:
        """Wait until it has acted ``times`` times; raises TimeoutError after ``timeout`` seconds."""
        with self._rules.firing:
            if not self._rules.firing.wait_for(lambda: self.fired >= times, timeout):
                raise TimeoutError(
                    f"the rule «{self.text}» acted {self.fired} times in {timeout:g} s, not {times}"
                )

    def remove(self) -> None:
        """Remove it; what it held back goes on. Does nothing where it is removed already."""
        self._rules.remove(self)


class Rules:
    """The rules of a wire. They may be changed at any time and from any thread."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.firing = threading.Condition()
        self._listeners: list[Callable[[str], None]] = []

    def on_fired(self, listener: Callable[[str], None]) -> None:
        """Have ``listener`` called with a rule's text each time one acts.

        On the wire's own thread: it must not wait for anything.
        """
        self._listeners.append(listener)

    def add(self, rule: Rule | str) -> RuleHandle:
        """Add a rule; it is in force when this returns. Raises RuleError for a wrong text."""
        if isinstance(rule, str):
            rule = parse_rule(rule)
        return RuleHandle(self, self._wire._on_loop(lambda: self._wire._engine.add(rule)))

    def remove(self, rule: RuleHandle | str) -> bool:
        """Remove a rule, by its handle or id; False if it is not there."""
        id = rule if isinstance(rule, str) else rule.id
        return self._wire._on_loop(lambda: self._wire._engine.remove(id))

    def clear(self) -> None:
        """Remove every rule."""
        for handle in list(self):
            handle.remove()

    def __iter__(self) -> Iterator[RuleHandle]:
        return iter(
            [RuleHandle(self, a) for a in self._wire._on_loop(lambda: [*self._wire._engine.armed])]
        )

    def _fired(self, armed: Armed) -> None:
        with self.firing:
            self.firing.notify_all()
        for listener in self._listeners:
            listener(str(armed.rule))


class Wire:
    """See the module's docstring. Opened by :meth:`open` or ``with``.

    ``cluster`` is anything with a ``kubeconfig`` path, or the path. ``client`` is
    the name by which the process is known in records and queries (small letters,
    digits, hyphens). ``seed`` decides the rules that have a chance. Raises
    RuleError for a wrong rule and EnvironmentProblem where it cannot listen.
    """

    def __init__(
        self,
        cluster: Any,
        client: str,
        run_dir: Path,
        *,
        rules: Sequence[str | Rule] = (),
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        if not is_client_name(client):
            raise ValueError(
                f"«{client}» cannot name a process: use small letters, digits and hyphens."
            )
        self.client = client
        self.seed = seed
        self.identity = identity or Identity.of(client)
        self.folder = Path(run_dir) / client
        self.record = self.folder / "wire.jsonl"
        self.kubeconfig = self.folder / "kubeconfig"
        self.rules = Rules(self)
        #: The server's address for the process: whoever knows it may speak through the wire.
        self.url = ""
        #: The port on 127.0.0.1; 0 until it is open.
        self.port = 0
        #: What :meth:`grader.witness.Timeline.of` makes of this wire.
        self.timeline: Any = None
        self._cluster_kubeconfig = Path(getattr(cluster, "kubeconfig", cluster))
        self._initial = parse_rules(rules)
        self._access = Access()
        self._proxy: Proxy | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._socket_folder: Path | None = None
        self._stop: asyncio.Event | None = None

    # Life ------------------------------------------------------------------------

    def open(self) -> Wire:
        """Listen; when this returns, the first rules are in force and ``url`` is known."""
        dirs.made(self.folder, private=True)
        if in_use([self.folder]):
            raise EnvironmentProblem(
                f"A wire called {self.client} is in use in {self.folder.parent} already."
            )
        # The graders' own work must not keep the wire's thread waiting for long.
        sys.setswitchinterval(min(sys.getswitchinterval(), 0.001))
        self._recorder = Recorder(self.record, self.client)
        self._engine = Engine(self.client, self._recorder, self.seed)
        self._engine.on_fired = self.rules._fired
        started: threading.Event = threading.Event()
        problem: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._run, args=(started, problem), name=f"wire-{self.client}", daemon=True
        )
        self._thread.start()
        started.wait()
        if problem:
            self.close()
            if isinstance(problem[0], OSError) and not isinstance(problem[0], EnvironmentProblem):
                raise EnvironmentProblem(
                    f"The wire cannot listen on this machine: {problem[0].strerror}."
                ) from problem[0]
            raise problem[0]
        return self

    def close(self) -> None:
        """End what is in flight, and stop listening. May be called twice."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._stop.set)
            except RuntimeError:
                pass  # it ended by itself meanwhile
        thread.join()
        (self.folder / "wire.json").unlink(missing_ok=True)
        for path in (self.unix_socket, self.control_socket):
            path.unlink(missing_ok=True)
        if self._socket_folder is not None:
            shutil.rmtree(self._socket_folder, ignore_errors=True)
            self._socket_folder = None
        self._recorder.close()

    def __enter__(self) -> Wire:
        return self.open()

    def __exit__(self, *exc: object) -> None:
        self.close()

    # What others use ------------------------------------------------------------

    @property
    def unix_socket(self) -> Path:
        """The same wire on a unix socket, for a sandbox without a network."""
        return self._socket_path("wire.sock")

    @property
    def control_socket(self) -> Path:
        """Where :func:`grader.wire.control.ask` reaches this wire."""
        return self._socket_path("control.sock")

    def on_kill(self, kill: Callable[[], None]) -> None:
        """Say how the process is killed: SIGKILL to all of it, gone when the call returns.

        Called from a thread of the wire's, before the write is forwarded or after
        it was applied, as the rule says.
        """
        self._on_loop(lambda: setattr(self._proxy, "kill", kill))

    def mark(self, what: str, **data: Any) -> None:
        """Record something that is not traffic: ``wire.mark("process_started", pid=12)``."""
        self._recorder.mark(what, **data)

    @property
    def failure(self) -> OSError | None:
        """Why the record is incomplete (a full disk); None where it is complete.

        ``strerror`` says it in words. Where there is one, conclude nothing.
        """
        return self._recorder.failure or (self._proxy.broken if self._proxy else None)

    def queued(self, resource: str = "") -> int:
        """Events that open watches (of ``resource``) have received and not delivered."""
        return self._on_loop(
            lambda: sum(
                watch.queued
                for watch in self._proxy.watches.values()
                if not resource or watch.info.resource == resource
            )
        )

    # Inside --------------------------------------------------------------------

    def _on_loop(self, call: Callable[[], Any]) -> Any:
        """Run ``call`` on the wire's loop and return its result."""
        if threading.current_thread() is self._thread:
            return call()
        if self._loop is None or self._loop.is_closed():
            raise RuntimeError(f"the wire of {self.client} is not open")

        async def run() -> Any:
            return call()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def _socket_path(self, name: str) -> Path:
        path = (self.folder / name).absolute()
        if len(os.fsencode(path)) < _SOCKET_PATH:
            return path
        if self._socket_folder is None:
            self._socket_folder = Path(tempfile.mkdtemp(prefix="p4-"))
        return self._socket_folder / name

    def _run(self, started: threading.Event, problem: list[BaseException]) -> None:
        try:
            asyncio.run(self._main(started))
        except BaseException as e:
            problem.append(e)
        finally:
            started.set()

    async def _main(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        upstream = credentials.load(self._cluster_kubeconfig)
        headers: list[tuple[str, str]] = [*upstream.headers().items(), *self.identity.headers()]
        connector = aiohttp.TCPConnector(
            limit=0, ssl=upstream.ssl_context() or True, keepalive_timeout=60
        )
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            read_bufsize=1 << 20,
            max_line_size=1 << 16,
            max_field_size=1 << 16,
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as session:
            # A write that is sent twice would be recorded once: no retries of its own.
            session._retry_connection = False
            self._proxy = Proxy(
                upstream,
                session,
                headers,
                self.identity.user,
                self._access,
                self._engine,
                self._recorder,
            )
            server = Connections(self._proxy)
            self._proxy.web_server = server
            await self._listen(server, started)
            await self._proxy.shut()
            # Idle connections end at once; 0 would mean to wait for ever.
            server.pre_shutdown()
            await server.shutdown(0.5)
            self._recorder.mark("wire_closed")

    async def _listen(self, server: Connections, started: threading.Event) -> None:
        loop = asyncio.get_running_loop()
        listeners = []
        try:
            tcp = await loop.create_server(server, "127.0.0.1", 0)
            listeners.append(tcp)
            self.port = tcp.sockets[0].getsockname()[1]
            self._access.port = self.port
            self.url = f"http://127.0.0.1:{self.port}{self._access.prefix}"
            for path in (self.unix_socket, self.control_socket):
                # Left by a wire that was killed; one in use has another folder.
                path.unlink(missing_ok=True)
            listeners.append(await loop.create_unix_server(server, self.unix_socket))

            async def serve_control(reader, writer) -> None:
                await control.serve(self._engine, self._recorder, self._proxy, reader, writer)

            listeners.append(await asyncio.start_unix_server(serve_control, self.control_socket))
            for path in (self.unix_socket, self.control_socket):
                os.chmod(path, 0o600)
            self._describe()
            self._recorder.mark("wire_opened", user=self.identity.user, seed=self.seed)
            for rule in self._initial:
                self._engine.add(rule)
            started.set()
            await self._stop.wait()  # type: ignore[union-attr]
        finally:
            for listener in listeners:
                listener.close()

    def _describe(self) -> None:
        dirs.write_atomically(self.kubeconfig, kubeconfig(self.url, self.client), mode=0o600)
        about = {
            "client": self.client,
            "pid": os.getpid(),
            "url": self.url,
            "unix_socket": str(self.unix_socket),
            "control_socket": str(self.control_socket),
            "record": str(self.record.absolute()),
            "opened": time.time(),
        }
        dirs.write_atomically(
            self.folder / "wire.json", json.dumps(about, indent=1) + "\n", mode=0o600
        )


def kubeconfig(url: str, client: str) -> str:
    """A kubeconfig for a process behind a wire: its address, and no credential of the cluster's."""
    return (
        "apiVersion: v1\nkind: Config\n"
        f"clusters:\n- name: wire\n  cluster:\n    server: {url}\n"
        f"users:\n- name: {client}\n  user: {{}}\n"
        f"contexts:\n- name: wire\n  context:\n    cluster: wire\n    user: {client}\n"
        "current-context: wire\n"
    )
