"""Every page as built: links, anchors, what it may load, and what it must not say."""

from __future__ import annotations

import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """The ids, links and loaded things of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.titles = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag in ("script", "img", "source", "iframe", "video", "audio") and given.get("src"):
            self.loads.append(str(given["src"]))
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next", "alternate"):
            self.loads.append(str(given["href"]))
        self.titles += tag == "h1"


@pytest.fixture(scope="session")
def pages(built: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(built.rglob("*.html"))}


def test_every_internal_link_leads_to_a_page_and_an_anchor(
    built: Path, pages: dict[Path, Page]
) -> None:
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are from the root: it is shown at any address
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            if target not in pages:
                if not target.is_file():
                    broken.append(f"{path.relative_to(built)}: {link}")
            elif parts.fragment and unquote(parts.fragment) not in pages[target].ids:
                broken.append(f"{path.relative_to(built)}: no anchor {link}")
    assert broken == []


def test_every_external_link_is_in_the_list_with_a_date(
    built: Path, pages: dict[Path, Page]
) -> None:
    data = tomllib.loads((ROOT / "docs_hooks" / "external_links.toml").read_text(encoding="utf-8"))
    known = {link["url"] for link in data["link"]}
    assert all(
        re.fullmatch(r"20\d\d-\d\d-\d\d", link["date"]) and link["how"] in data["how"]
        for link in data["link"]
    )
    found = {
        link: path.relative_to(built)
        for path, page in pages.items()
        for link in page.links
        if link.startswith("http")
    }
    assert {link: at for link, at in found.items() if link not in known} == {}


def test_nothing_is_loaded_from_another_host(built: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert [u for u in page.loads if u.startswith(("http:", "https:", "//"))] == [], path
    for css in built.rglob("*.css"):
        text = css.read_text(encoding="utf-8")
        assert not re.search(r"url\(['\"]?(https?:)?//", text), css
        assert "@import" not in text, css


def test_ids_are_unique_and_each_page_has_one_title(built: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        twice = {i for i in page.ids if page.ids.count(i) > 1}
        assert twice == set(), path.relative_to(built)
        assert page.titles == 1, path.relative_to(built)


def test_no_marker_is_left_unfilled(built: Path) -> None:
    # Comments of the theme are fine; ours say what should have been there.
    ours = re.compile(r"<!-- [a-z-]+(: [\w.\-]+)? -->")
    for path in built.rglob("*.html"):
        assert not ours.search(path.read_text(encoding="utf-8")), path


def test_every_lab_has_a_page_and_says_whether_it_is_built(built: Path) -> None:
    from grader import course

    for lab in course.load().labs:
        page = built / lab.module / f"{lab.id}.html"
        text = page.read_text(encoding="utf-8")
        assert lab.title.split(" — ")[-1][:20].replace("'", "’") in text or lab.title[:20] in text
        assert ("Not built yet: " in text) is not lab.built, lab.id
        if lab.built:
            for check in course.checks(lab):
                assert f'data-check="{check.id}"' in text, check.id


def test_pages_name_no_machine(built: Path) -> None:
    for path in [*built.rglob("*.html"), built / "search" / "search_index.json"]:
        text = path.read_text(encoding="utf-8")
        for word in (str(ROOT), str(Path.home()) + "/", "/work/", "../shared"):
            assert word not in text, f"{path.relative_to(built)} names {word}"


def test_the_search_finds_every_page(built: Path, pages: dict[Path, Page]) -> None:
    index = json.loads((built / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {doc["location"].partition("#")[0] or "index.html" for doc in index["docs"]}
    every = {p.relative_to(built).as_posix() for p in pages if p.name != "404.html"}
    assert every - found == set()


def test_commands_that_pages_name_exist() -> None:
    import typer

    from grader.cli.app import build

    root = typer.main.get_command(build())
    commands = {
        name: set(getattr(command, "commands", {}))
        for name, command in root.commands.items()  # type: ignore[attr-defined]
    }
    wrong = []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for match in re.finditer(
            r"(?:^|`)(?:\./)?phase4 ([a-z][a-z-]*)(?: ([a-z]+))?", path.read_text("utf-8"), re.M
        ):
            name, inner = match[1], match[2]
            nested = commands.get(name)
            if nested is None or (nested and inner and inner not in nested):
                wrong.append(f"{path.relative_to(ROOT)}: {match[0].lstrip('`')}")
    assert wrong == []
