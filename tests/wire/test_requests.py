"""A request is read as the API server reads it."""

from __future__ import annotations

import pytest

from grader.wire.requests import parse, parse_query


@pytest.mark.parametrize(
    ("method", "target", "verb", "resource", "namespace", "name"),
    [
        ("GET", "/api/v1/pods", "list", "pods", "", ""),
        ("GET", "/api/v1/namespaces/a/pods/x", "get", "pods", "a", "x"),
        ("HEAD", "/api/v1/namespaces/a/pods/x", "get", "pods", "a", "x"),
        ("GET", "/api/v1/namespaces/a/pods/x/log", "get", "pods/log", "a", "x"),
        ("POST", "/api/v1/namespaces/a/pods", "create", "pods", "a", ""),
        ("POST", "/api/v1/namespaces/a/pods/x/eviction", "create", "pods/eviction", "a", "x"),
        ("PUT", "/apis/g.io/v1/namespaces/a/foos/x/status", "update", "foos/status", "a", "x"),
        ("PATCH", "/apis/apps/v1/namespaces/a/deployments/x", "patch", "deployments", "a", "x"),
        ("DELETE", "/api/v1/namespaces/a/pods/x", "delete", "pods", "a", "x"),
        ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection", "pods", "a", ""),
        ("GET", "/api/v1/namespaces", "list", "namespaces", "", ""),
        ("GET", "/api/v1/namespaces/a", "get", "namespaces", "a", "a"),
        ("PUT", "/api/v1/namespaces/a/finalize", "update", "namespaces/finalize", "a", "a"),
        ("PUT", "/api/v1/namespaces/a/status", "update", "namespaces/status", "a", "a"),
        ("GET", "/api/v1/pods?watch=true", "watch", "pods", "", ""),
        ("GET", "/api/v1/pods?watch=1", "watch", "pods", "", ""),
        ("GET", "/api/v1/pods?watch", "watch", "pods", "", ""),
        ("GET", "/api/v1/pods?watch=false", "list", "pods", "", ""),
        ("GET", "/api/v1/watch/namespaces/a/pods", "watch", "pods", "a", ""),
        ("GET", "/api/v1/namespaces/a/pods/x?watch=true", "watch", "pods", "a", "x"),
        (
            "GET",
            "/api/v1/namespaces/a/pods?watch=true&fieldSelector=metadata.name%3Dx",
            "watch",
            "pods",
            "a",
            "x",
        ),
        ("GET", "/api", "other", "", "", ""),
        ("GET", "/apis/apps/v1", "other", "", "", ""),
        ("GET", "/healthz", "other", "", "", ""),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "create",
         "selfsubjectaccessreviews", "", ""),
    ],
)  # fmt: skip
def test_meaning(method, target, verb, resource, namespace, name):
    path, _, query = target.partition("?")
    info = parse(method, path, parse_query(query))
    plural, _, subresource = resource.partition("/")
    assert (info.verb, info.resource, info.subresource) == (verb, plural, subresource)
    assert (info.namespace, info.name) == (namespace, name)


def test_group_and_version():
    info = parse("GET", "/apis/samplecontroller.k8s.io/v1alpha1/foos", {})
    assert (info.group, info.version) == ("samplecontroller.k8s.io", "v1alpha1")
    assert parse("GET", "/api/v1/pods", {}).group == ""


def test_a_watch_that_asks_for_the_initial_events_is_a_list_as_well():
    query = parse_query("watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
    assert parse("GET", "/api/v1/pods", query).watch_list
    assert not parse("GET", "/api/v1/pods", {"watch": "true"}).watch_list
    assert not parse(
        "GET", "/api/v1/pods", {"watch": "true", "sendInitialEvents": "false"}
    ).watch_list


@pytest.mark.parametrize("path", ["", "/", "//", "/api/v1/", "/apis///", "/api/v1/namespaces/"])
def test_odd_paths_are_read_without_a_fault(path):
    parse("GET", path, {})
