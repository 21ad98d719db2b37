"""How long the sentences of the pages are: words in the mean, in the longest, and over 40.

python docs/_extensions/sentences.py README.md docs/nets.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def prose(text: str) -> str:
    """The page without code, tables, headings and formulas on lines of their own."""
    text = re.sub(r"^(`{3,}|:{3,})[^\n]*\n.*?^\1 *$", "", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^( {4,}| *[|#%]|!\[|:).*$", "", text, flags=re.M)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def sentences(text: str) -> list[str]:
    """The sentences of a page; an item of a list is one, or several."""
    parts = re.split(r"(?<=[.!?:])\s+|\n\s*\n|\n *[-*] |\n *\d+\. ", prose(text))
    return [part for part in (" ".join(p.split()) for p in parts) if len(part.split()) > 2]


def lengths(text: str) -> list[int]:
    """Words of each sentence; code in a sentence is one word."""
    return [len(re.sub(r"`[^`]*`", "x", s).split()) for s in sentences(text)]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        found = lengths(Path(name).read_text("utf-8"))
        mean, longest = sum(found) / max(len(found), 1), max(found, default=0)
        over = sum(n > 40 for n in found)
        print(f"{name}: {len(found)}, mean {mean:.1f}, longest {longest}, over 40: {over}")
