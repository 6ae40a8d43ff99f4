"""The third rung, with a go command of the test's own; and the ladder as a whole."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.cluster import binaries, build, pins
from grader.cluster.build import BuildFailed
from grader.cluster.errors import EnvironmentProblem
from grader.cluster.process import records

#: A go command: `env` answers from variables, `list` names what is to be compiled, `build`
#: writes a file for each package.
FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then
  case "$2" in
    GOVERSION) echo "${FAKE_VERSION:-go1.26.8}";;
    GOTOOLCHAIN) echo "${FAKE_TOOLCHAIN:-auto}";;
  esac
  exit
fi
if [ "$1" = list ]; then
  echo "go: downloading example.com/x v1.0.0" >&2
  printf "some/package\nsome/other\n"
  exit
fi
echo run >> "$FAKE_COUNT"
if [ -n "$FAKE_FAILS" ]; then echo "$FAKE_FAILS" >&2; exit 1; fi
echo "some/package" >&2
[ -n "$FAKE_SLEEP" ] && sleep "$FAKE_SLEEP"
out=""
while [ $# -gt 0 ]; do
  case "$1" in
    -o) out=$2; shift;;
    go.etcd.io/*) echo etcd > "$out/server"; chmod +x "$out/server";;
    k8s.io/kubernetes/*|sigs.k8s.io/*) name=${1##*/}; echo "$name" > "$out/$name"; chmod +x "$out/$name";;
  esac
  shift
done
"""


@pytest.fixture
def fake_go(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "gobin"
    folder.mkdir()
    command = folder / "go"
    command.write_text(FAKE_GO)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_COUNT", str(tmp_path / "count"))
    monkeypatch.setenv("PHASE4_BINARIES", "build")
    return command


def runs(tmp_path: Path) -> int:
    try:
        return len((tmp_path / "count").read_text().splitlines())
    except FileNotFoundError:
        return 0


def no_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "go", lambda: None)


def test_everything_is_built_in_one_run(fake_go, tmp_path):
    said: list[str] = []
    found = binaries.ensure(progress=said.append)
    assert {name: path.read_text().strip() for name, path in found.items()} == {
        name: name for name in pins.VERSIONS
    }
    assert all(path.stat().st_mode & stat.S_IXUSR for path in found.values())
    assert runs(tmp_path) == 1
    assert "building etcd, kube-apiserver" in " ".join(said)
    binaries.ensure()
    assert runs(tmp_path) == 1
    assert not list((Path(os.environ["PHASE4_HOME"]) / "cache" / "bin").glob(".build-*"))


def test_only_what_is_missing_is_built(fake_go, tmp_path):
    binaries.ensure()
    binaries.cached("kwok").unlink()
    binaries.ensure(["etcd"])
    assert not binaries.cached("kwok").exists(), "nobody asked for it"
    binaries.ensure(["kwok"])
    assert binaries.cached("kwok").exists() and runs(tmp_path) == 2


def test_how_far_it_is(fake_go, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.6")
    said: list[str] = []
    binaries.ensure(progress=said.append)
    assert any("1 modules fetched, 0:00 min" in line for line in said)
    assert any("1 of 2 packages compiled, 0:00 min" in line for line in said)


def test_two_at_once_build_once(fake_go, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "1")
    program = "from grader.cluster import binaries; binaries.ensure(progress=print)"
    both = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [one.communicate(timeout=60)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert runs(tmp_path) == 1
    assert sum("another command is downloading or building" in text for text in said) == 1


def test_killed_in_the_middle(fake_go, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "60")
    program = "from grader.cluster import binaries; binaries.ensure()"
    command = subprocess.Popen([sys.executable, "-c", program])
    # Go is asked first what there is to compile; that is over in a moment.
    while not any(one.argv[1] == "build" for one in records.live(kind="build")):
        assert command.poll() is None
        time.sleep(0.01)
    command.send_signal(signal.SIGKILL)
    command.wait()
    (left,) = records.live(kind="build")
    monkeypatch.delenv("FAKE_SLEEP")
    assert len(binaries.ensure()) == len(pins.VERSIONS)
    assert not left.alive(), "the next build ended what was left of the first"
    assert records.all() == []
    assert not list((Path(os.environ["PHASE4_HOME"]) / "cache" / "bin").glob(".build-*"))


def test_no_go(home, monkeypatch):
    no_go(monkeypatch)
    with pytest.raises(BuildFailed, match=r"^Go is not installed. Install Go .* 1.26 or newer.$"):
        build.usable_go()


@pytest.mark.parametrize(
    ("version", "toolchain", "usable"),
    [
        ("go1.26.0", "local", True),
        ("go1.27rc1", "local", True),
        ("go1.25.9", "local", False),
        ("go1.25.9", "auto", True),
        ("go1.20.14", "auto", False),
    ],
)
def test_which_go_will_do(fake_go, monkeypatch, version, toolchain, usable):
    monkeypatch.setenv("FAKE_VERSION", version)
    monkeypatch.setenv("FAKE_TOOLCHAIN", toolchain)
    if usable:
        assert build.usable_go() == fake_go
    else:
        with pytest.raises(BuildFailed, match=r"is too old: 1.26 or newer is needed"):
            build.usable_go()


def test_a_go_that_says_nothing(fake_go, monkeypatch):
    monkeypatch.setenv("FAKE_VERSION", "?")
    with pytest.raises(BuildFailed, match="does not say its version"):
        build.usable_go()


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("mkdir /x: no space left on device", "filled the disk: it takes 6 GB"),
        (
            "go: k8s.io/kubernetes@v1.37.2: Get x: dial tcp: lookup modules.example: no such host",
            "needs Go modules that could not be fetched",
        ),
        ("x.go:3:1: syntax error", "failed: x.go:3:1: syntax error"),
    ],
)
def test_why_a_build_failed(fake_go, monkeypatch, said, sentence):
    monkeypatch.setenv("FAKE_FAILS", said)
    with pytest.raises(EnvironmentProblem, match=sentence):
        binaries.ensure(["kwok"])


def test_when_no_rung_holds(home, monkeypatch):
    no_go(monkeypatch)
    monkeypatch.setenv("PHASE4_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(EnvironmentProblem) as caught:
        binaries.ensure()
    said = str(caught.value)
    assert "Download: 127.0.0.1 does not answer" in said
    assert "Build: Go is not installed" in said and "KUBEBUILDER_ASSETS" in said


def test_assets_come_first(home, tmp_path, monkeypatch):
    assets = fake_assets(tmp_path, {name: pins.VERSIONS[name] for name in pins.VERSIONS})
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert binaries.ensure() == {name: assets / name for name in pins.VERSIONS}


def test_assets_of_another_minor_are_not_mixed_in(home, tmp_path, monkeypatch):
    assets = fake_assets(tmp_path, {"kube-apiserver": "v1.30.0", "etcd": pins.ETCD})
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert binaries.find("etcd") == assets / "etcd"
    assert binaries.find("kube-apiserver") is None
    _, why = binaries.asset("kube-apiserver")
    assert "is v1.30.0, and the course is written for v1.37.2" in why


def test_a_folder_for_envtest(home, tmp_path, monkeypatch):
    made = fake_assets(tmp_path, {name: pins.VERSIONS[name] for name in pins.VERSIONS})
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(made))
    folder = binaries.assets()
    assert {link.name: link.resolve() for link in folder.iterdir()} == {
        name: made / name for name in ("etcd", "kube-apiserver", "kubectl")
    }
    # Named by its own output, it stays as it is: no link leads to itself.
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    assert binaries.assets() == folder
    assert all(link.resolve() == made / link.name for link in folder.iterdir())
    # A link that leads nowhere any more is put right.
    (folder / "etcd").unlink()
    (folder / "etcd").symlink_to(tmp_path / "gone")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(made))
    assert (binaries.assets() / "etcd").resolve() == made / "etcd"


def test_a_patch_release_will_do(home, tmp_path, monkeypatch):
    assets = fake_assets(tmp_path, {"kube-apiserver": "v1.37.9"})
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert binaries.find("kube-apiserver") == assets / "kube-apiserver"


def test_an_asset_of_another_machine(home, tmp_path, monkeypatch):
    assets = fake_assets(tmp_path, {})
    (assets / "etcd").write_bytes(b"\x7fELF, but not for here")
    (assets / "etcd").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert binaries.asset("etcd") == (None, f"{assets / 'etcd'} does not run on this machine")


def fake_assets(tmp_path: Path, versions: dict[str, str]) -> Path:
    folder = tmp_path / "assets"
    folder.mkdir()
    for name, version in versions.items():
        (folder / name).write_text(f"#!/bin/sh\necho {name} {version}\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.slow
@pytest.mark.network
def test_a_real_build(home, monkeypatch):
    if build.go() is None:
        pytest.skip("Go is not installed")
    monkeypatch.setenv("PHASE4_BINARIES", "build")
    build.build(["etcd", "kubectl"], binaries.cached, lambda sentence: None)
    assert binaries.version_of(binaries.cached("etcd")) == pins.ETCD
    assert binaries.version_of(binaries.cached("kubectl")) == pins.KUBERNETES
