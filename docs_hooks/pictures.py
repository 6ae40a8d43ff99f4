"""Our own pictures, put into the page itself, with the same in words beneath.

In the page, so that they follow its colours, print, and work from a file. The
words are for whoever can't see the picture, and open for everyone.
"""

from __future__ import annotations

import re
from pathlib import Path

PICTURES = Path(__file__).with_name("pictures")


def inline(name: str) -> str:
    """A picture as a figure; FileNotFoundError where it or its words are missing."""
    svg = (PICTURES / f"{name}.svg").read_text(encoding="utf-8").strip()
    words = (PICTURES / f"{name}.md").read_text(encoding="utf-8").strip()
    title, _, rest = words.partition("\n")
    title = title.removeprefix("# ").strip()
    caption, _, equivalent = rest.strip().partition("\n\n")
    svg = re.sub(r"<svg ", f'<svg role="img" aria-labelledby="pic-{name}" ', svg, count=1)
    svg = re.sub(r">", f'><title id="pic-{name}">{title}</title>', svg, count=1)
    # An empty line would end the HTML block for Markdown.
    svg = re.sub(r"\n\s*\n", "\n", svg)
    return (
        f'<figure class="p4-picture" markdown>\n<div class="p4-canvas" tabindex="0" role="group" '
        f'aria-label="Picture: {title}">{svg}</div>\n'
        f"<figcaption markdown>{caption}</figcaption>\n</figure>\n\n"
        f'??? quote "The picture in words"\n\n'
        + "\n".join("    " + line if line else "" for line in equivalent.splitlines())
        + "\n"
    )
