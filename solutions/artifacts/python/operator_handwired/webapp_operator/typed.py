"""A typed client, lister and informer for WebApps, over the machinery's untyped ones."""

from __future__ import annotations

from collections.abc import Callable

from machinery.api import Resource
from machinery.client import Client, ResourceClient
from machinery.informer import SharedInformer
from machinery.store import Store

from .webapp_types import GROUP, VERSION, WebApp, from_json


class WebApps:
    """The client of one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.resource = Resource(GROUP, VERSION, "webapps", namespace)

    def create(self, webapp: WebApp) -> WebApp:
        # phase4:solution 4.3.1
        made = self._client.create(self.resource, webapp.to_json(), self._namespace)
        return from_json(made)
        # phase4:stub
        # raise NotImplementedError
        # phase4:end

    def update_status(self, webapp: WebApp) -> WebApp:
        # phase4:solution 4.3.1
        return from_json(self._client.update(self.resource, webapp.to_json(), "status"))
        # phase4:stub
        # raise NotImplementedError
        # phase4:end

    def delete(self, name: str) -> None:
        self._client.delete(self.resource, name, self._namespace)


class WebAppLister:
    """Reads the informer's cache. Never asks the server."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def get(self, name: str) -> WebApp | None:
        # phase4:solution 4.3.1
        found = self._store.get(f"{self._namespace}/{name}")
        return None if found is None else from_json(found)
        # phase4:stub
        # raise NotImplementedError
        # phase4:end


class Heard:
    """A handler that calls ``news`` whatever happened."""

    def __init__(self, news: Callable[[], None]) -> None:
        self._news = news

    def on_add(self, obj, in_initial_list) -> None:
        self._news()

    def on_update(self, old, new) -> None:
        self._news()

    def on_delete(self, obj) -> None:
        self._news()


def informer_of(client: Client, webapps: WebApps, news: Callable[[], None]) -> SharedInformer:
    """An informer of the client's namespace, started and in sync."""
    informer = SharedInformer(ResourceClient(client, webapps.resource))
    registration = informer.add_handler(Heard(news))
    informer.start()
    if not registration.wait_for_sync(20):
        raise SystemExit("the cache did not fill")
    return informer
