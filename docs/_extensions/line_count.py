"""Lines of code, without blank lines, comments and docstrings."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import Any


def count(source: str, name: str | None = None) -> int:
    """Lines of code of a module, or of what is called `name` in it.

    >>> count('def f():\\n    "doc"\\n\\n    # why\\n    return 1\\n', "f")
    2
    """
    tree = ast.parse(source)
    scope: Any = tree
    if name is not None:
        found = [n for n in ast.walk(tree) if getattr(n, "name", None) == name]
        if len(found) != 1:
            raise ValueError(f"{name} is there {len(found)} times")
        scope = found[0]
    first, last = getattr(scope, "lineno", 1), getattr(scope, "end_lineno", 10**9)
    told = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in silent and token.type != tokenize.ENDMARKER
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len([line for line in code - told if first <= line <= last])
