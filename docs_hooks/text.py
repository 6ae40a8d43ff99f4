"""Small pieces of Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable


def cell(text: str) -> str:
    """Text that may stand in a table's cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def inline(text: str) -> str:
    """Text of ours inside an HTML element: escaped, with `code` kept as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(cell(text), quote=False))


def code_and(items: Iterable[object]) -> str:
    """«1», «1 and 2», «1, 2 and 3»."""
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
