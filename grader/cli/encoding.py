"""Text for terminals that cannot show all of it.

The launcher has Python read and write files as UTF-8 in every locale; what is
printed still has to be in the terminal's own encoding.
"""

from __future__ import annotations

import codecs
import locale
import sys
from typing import TextIO

_NEAREST = {
    "—": "-", "–": "-", "−": "-", "…": "...", "·": "-", "•": "*", "│": "|", "─": "-", "✓": "+",
    "✗": "x", "×": "x", "≠": "!=", "≤": "<=", "≥": ">=", "→": "->", "←": "<-", "▶": ">",
    "«": '"', "»": '"', "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'",
}  # fmt: skip


def fit_streams() -> None:
    """Have standard output and error print what their encoding lacks as the nearest it has."""
    codecs.register_error("phase4.nearest", _nearest)
    for stream in (sys.stdout, sys.stderr):
        # A stream that was closed by the caller is None.
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding=of(stream), errors="phase4.nearest")


def of(stream: TextIO) -> str:
    """The terminal's encoding. A locale that names none (C, POSIX) says nothing against UTF-8."""
    if not sys.flags.utf8_mode:
        return stream.encoding
    try:
        known = codecs.lookup(locale.getencoding()).name
    except LookupError:
        return stream.encoding
    return "utf-8" if known == "ascii" else known


def _nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(map(_instead, lacking)), error.end


def _instead(letter: str) -> str:
    """The nearest in ASCII, which every encoding of a terminal has."""
    import unicodedata

    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return _NEAREST.get(letter) or plain or "?"
