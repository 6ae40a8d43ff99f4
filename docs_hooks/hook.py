"""MkDocs' hook: adds the generated pages and fills the markers that pages leave.

A page says where something generated goes with a comment alone on its line:

``<!-- module: 4.1 -->``     the module's reading with its questions, and its labs
``<!-- checks: 4.1.2 -->``   what is checked, from the markers in the lab's grader
``<!-- hints: 4.1.2 -->``    the lab's hints, folded
``<!-- reference: 4.1.2 -->`` where the reference answer is, once it may be read
``<!-- picture: wire -->``   a picture of docs_hooks/pictures with its text equivalent
``<!-- exit-codes -->``      what the command line exits with
``<!-- scenarios -->``       what the conformance suite tries, part by part
``<!-- contract -->``        the operator's contract, and what judges each sentence of it
``<!-- wrong-operators -->`` the operators it must catch, and what it must call them
``<!-- messages -->``        every message of the code that stops somebody
``<!-- graded -->``          which labs this version grades
``<!-- live: progress -->``  a place that only the served site fills

A marker that nothing fills ends the build: a page never goes out with a hole.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from docs_hooks import labs, lists, messages, operators, pictures, reference  # noqa: E402
from grader import course  # noqa: E402

MARKER = re.compile(r"^(?P<indent> *)<!-- (?P<kind>[a-z-]+)(?:: (?P<what>[\w.\-]+))? -->$", re.M)

FILL: dict[str, Callable[[str], str]] = {
    "module": lists.module,
    "modules": lambda _: lists.modules(),
    "graded": lambda _: lists.graded(),
    "checks": labs.checks,
    "hints": labs.hints,
    "reference": labs.answer,
    "picture": pictures.inline,
    "drills": lambda _: lists.drills(),
    "drill": lists.drill,
    "talks": lambda _: lists.talks(),
    "cite": lambda _: lists.cite(),
    "checklist": lambda _: lists.checklist(),
    "gate": lambda _: lists.gate(),
    "objectives": lambda _: lists.objectives(),
    "exit-codes": lambda _: reference.exit_codes(),
    "scenarios": lambda _: operators.tried(),
    "contract": lambda _: operators.contract(),
    "wrong-operators": lambda _: operators.wrong(),
    "messages": lambda _: messages.listed(),
    "live": lists.live,
}

#: Pages that exist only as text made here.
GENERATED: dict[str, Callable[[], str]] = {
    "reference/commands.md": reference.commands,
    "reference/graders.md": reference.graders,
    "reference/faults.md": reference.faults,
    "reference/links.md": lists.links,
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is generated: references, and a page for each lab that nobody has written yet."""
    for lab in course.load().labs:
        name = f"{lab.module}/{lab.id}.md"
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, content=labs.unwritten(lab)))
    for name, make in GENERATED.items():
        files.append(File.generated(config, name, content=make()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the lab's head under its title and fill every marker."""
    lab = labs.of_page(page.file.src_uri)
    if lab is not None:
        markdown = labs.with_head(lab, markdown)

    def fill(match: re.Match[str]) -> str:
        make = FILL.get(match["kind"])
        if make is None:
            return match[0]
        try:
            text = make(match["what"] or "")
        except (course.CourseError, KeyError, FileNotFoundError) as error:
            raise PluginError(f"{page.file.src_uri}: {match[0].strip()}: {error}") from error
        indent = match["indent"]
        return "\n".join(indent + line if line else line for line in text.splitlines())

    # Twice, because what a lab's page is made of may itself leave markers.
    return MARKER.sub(fill, MARKER.sub(fill, markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make what scrolls sideways reachable by keyboard."""
    return lists.wrap_tables(html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Name what the theme leaves nameless for a screen reader."""
    return _named(output)


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """The same for pages that are no pages to MkDocs: 404.html."""
    return _named(output)


def _named(html: str) -> str:
    return html.replace('role="dialog">', 'role="dialog" aria-label="Search">')
