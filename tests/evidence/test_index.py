"""The index: well formed, in step with sources.toml, and true to what upstream is known to say."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from grader.evidence import indexing, own, pinned, sources
from grader.evidence.digest import DESCRIPTION, digest
from grader.evidence.pinned import nearest_path
from grader.evidence.sources import SourceError

INDEX = pinned.load()
SOURCES = sources.load()


def test_every_source_has_its_index_file_and_none_is_left_over():
    assert {p.name for p in pinned.FOLDER.glob("*.json")} == {
        s.index_name for s in SOURCES.values()
    }


@pytest.mark.parametrize("path", sorted(pinned.FOLDER.glob("*.json")), ids=lambda p: p.stem)
def test_an_index_file_is_well_formed_and_holds_no_source(path):
    data = json.loads(path.read_text())
    assert data["digest"] == DESCRIPTION
    assert data["version"] == SOURCES[data["module"]].version
    for file in data["files"].values():
        assert re.fullmatch(r"[0-9a-f]{64}", file["sha256"])
        assert all(re.fullmatch(r"[0-9a-f]{16}", line) for line in file["lines"])
        count = len(file["lines"])
        ranges = [*file["symbols"].values(), *file.get("comments", ())]
        assert all(1 <= first <= last <= count for first, last in ranges)


def test_files_named_one_by_one_are_all_there():
    for source in SOURCES.values():
        named = {f for f in source.files if "*" not in f}
        assert named <= set(INDEX.modules[source.module].files)


#: (module, file, symbol, a line inside it): what reading upstream by eye found.
KNOWN = [
    ("k8s.io/client-go", "tools/cache/reflector.go", "Reflector.watch", 647),
    ("k8s.io/client-go", "tools/cache/reflector.go", "isExpiredError", 1154),
    ("k8s.io/client-go", "tools/cache/delta_fifo.go", "dedupDeltas", 443),
    ("k8s.io/client-go", "tools/cache/the_real_fifo.go", "RealFIFO", 93),
    ("k8s.io/client-go", "tools/cache/controller.go", "newQueueFIFO", 1063),
    ("k8s.io/client-go", "tools/cache/shared_informer.go", "sharedIndexInformer.HandleDeltas", 0),
    ("k8s.io/client-go", "util/workqueue/queue.go", "Typed.dirty", 197),
    ("k8s.io/client-go", "util/workqueue/queue.go", "Typed.Add", 227),
    ("k8s.io/client-go", "tools/leaderelection/leaderelection.go", "LeaderElector.release", 319),
    ("k8s.io/sample-controller", "controller.go", "Controller.enqueueFoo", 336),
    ("k8s.io/sample-controller", "controller.go", "Controller.syncHandler", 245),
    ("k8s.io/sample-controller", "controller.go", "NewController", 112),
    (
        "k8s.io/kubernetes",
        "pkg/controller/replicaset/replica_set.go",
        "ReplicaSetController.manageReplicas",
        649,
    ),
    ("k8s.io/kubernetes", "pkg/controller/controller_utils.go", "ControllerExpectations", 169),
    (
        "k8s.io/kubernetes",
        "pkg/controller/garbagecollector/garbagecollector.go",
        "GarbageCollector.attemptToDeleteItem",
        503,
    ),
    ("k8s.io/kubernetes", "pkg/controller/garbagecollector/graph.go", "node.blockingDependents", 0),
]


@pytest.mark.parametrize(("module", "path", "symbol", "line"), KNOWN)
def test_symbols_are_where_they_were_read(module, path, symbol, line):
    found = INDEX.modules[module].files[path].symbol(symbol)
    if symbol.endswith("HandleDeltas"):
        assert found is None  # it is handleDeltas today
        return
    if symbol == "node.blockingDependents":
        assert found is not None
        return
    assert found is not None and line in found


@pytest.mark.parametrize(
    ("module", "path", "line", "text"),
    [
        ("k8s.io/client-go", "tools/cache/reflector.go", 647, "case isExpiredError(err):"),
        ("k8s.io/sample-controller", "controller.go", 336, "c.workqueue.Add(objectRef)"),
        ("k8s.io/sample-controller", "controller.go", 234, "c.workqueue.AddRateLimited(objRef)"),
    ],
)
def test_lines_say_what_was_read(module, path, line, text):
    assert INDEX.modules[module].files[path].at(line) == digest(text)


def test_licence_headers_are_comments_and_code_is_not():
    file = INDEX.modules["k8s.io/client-go"].files["tools/cache/reflector.go"]
    assert file.is_comment(1) and file.is_comment(15) and not file.is_comment(647)
    assert file.around(647)[0].name == "Reflector.watch"


def test_paths_are_found_by_module_short_name_and_end():
    assert INDEX.split("client-go/tools/cache/store.go") == (
        "k8s.io/client-go",
        "tools/cache/store.go",
    )
    assert INDEX.split("kubernetes/pkg/controller/controller_utils.go")[0] == "k8s.io/kubernetes"
    assert INDEX.split("kubernetes/community/x.md")[0] == "github.com/kubernetes/community"
    assert INDEX.split("nothing/of/the/kind.go") is None
    assert [f.path for _, f in INDEX.named("reflector.go")] == ["tools/cache/reflector.go"]
    module = INDEX.modules["k8s.io/client-go"]
    assert nearest_path(module, "tools/cache/reflectr.go") == "tools/cache/reflector.go"
    assert nearest_path(module, "nope.go") is None


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A module cache with one small module in it."""
    folder = tmp_path / "example.com" / "!upper@v1.0.0"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "a.go").write_text(
        "// Package a is small.\npackage a\n\n/* two\nlines */\ntype T[K any] struct {\n"
        "\tx int // here\n}\n\n// F does.\nfunc (t *T[K]) F(\n\ty int,\n) int {\n\tt.x = max(\n"
        "\t\ty,\n\t\t2,\n\t)\n\treturn t.x\n}\n\nconst (\n\tA = 1\n\tB, C = 2, 3\n)\n\n"
        "func init() {}\nfunc init() {}\n"
    )
    (folder / "pkg" / "a_test.go").write_text("package a\n")
    (folder / "README.md").write_text("# One\n\n## Two\ntext\n```\n# no\n```\n## Three\n")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path))
    return tmp_path


needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")


@needs_go
def test_making_an_index_from_the_module_cache(cache, tmp_path):
    source = sources.Source("example.com/Upper", "v1.0.0", "go", ("pkg/*.go", "README.md"))
    data = indexing.make(source)
    assert sorted(data["files"]) == ["README.md", "pkg/a.go"]
    go = data["files"]["pkg/a.go"]
    assert go["symbols"] == {
        "T": [6, 8], "T.x": [7, 7], "T.F": [11, 19], "A": [22, 22], "B": [23, 23], "C": [23, 23],
        "init": [26, 26], "init#2": [27, 27],
    }  # fmt: skip
    assert go["comments"] == [[1, 1], [4, 5], [10, 10]]
    assert data["files"]["README.md"]["symbols"] == {"One": [1, 8], "Two": [3, 7], "Three": [8, 8]}

    folder = tmp_path / "index"
    assert indexing.refresh(source, folder) and not indexing.refresh(source, folder)
    assert indexing.outdated(source, folder) == ""
    assert "no index file" in indexing.outdated(source.at("v1.0.1"), folder)
    text = (folder / source.index_name).read_text()
    (folder / source.index_name).write_text(text.replace('"T":[6,8]', '"T":[6,9]'))
    assert "otherwise" in indexing.outdated(source, folder)
    assert "max(" not in text


def test_what_cannot_be_had_is_said_in_a_sentence(cache, monkeypatch):
    source = sources.Source("example.com/Upper", "v1.0.0", "go", ("pkg/missing.go",))
    with pytest.raises(SourceError, match="has no pkg/missing.go"):
        indexing.make(source)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceError, match="needs Go"):
        source.at("v9.9.9").fetch()


def test_a_path_in_the_module_cache_is_recognised(cache):
    path = cache / "example.com" / "!upper@v1.0.0" / "pkg" / "a.go"
    assert sources.in_module_cache(path) == ("example.com/Upper", "v1.0.0", "pkg/a.go")
    assert sources.in_module_cache(cache / "cache" / "x@v1" / "y") is None
    assert sources.in_module_cache(cache.parent / "elsewhere.go") is None


def test_python_symbols_and_prose():
    text = 'def f():\n    """Says.\n\n    More.\n    """\n    # why\n    return 1  # so\n\n\nclass A:\n'
    text += "    @property\n    def b(self):\n        return 2\n"
    file = own.parse("a.py", text)
    assert [(s.name, s.first, s.last) for s in file.symbols] == [
        ("f", 1, 7), ("A", 10, 13), ("A.b", 11, 13),
    ]  # fmt: skip
    assert [n for n in range(1, 14) if file.is_comment(n)] == [2, 3, 4, 5, 6]
    assert own.parse("a.py", "def broken(:\n").symbols == ()


def test_go_symbols_without_go():
    text = "func (c *Controller[T]) Run(\n\tn int,\n) error {\n\treturn nil\n}\n\ntype A struct {\n"
    text += "\tb int\n}\nfunc main() {\n}\ntype B int\n"
    assert [(s.name, s.first, s.last) for s in own.parse("a.go", text).symbols] == [
        ("Controller.Run", 1, 5), ("A", 7, 9), ("main", 10, 11), ("B", 12, 12),
    ]  # fmt: skip
