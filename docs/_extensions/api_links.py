"""Names of public classes in the guides lead to their API pages.

An inline code such as `LassoCV` becomes a link where exactly that name has an API page. Guides of
linear models look in ``cyclade.linear`` first, guides of nets in ``cyclade.optim``.
"""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

MODULES = ("cyclade", "cyclade.linear", "cyclade.optim")
FIRST = {"linear": "cyclade.linear", "start-linear": "cyclade.linear", "nets": "cyclade.optim"}


@cache
def public(module: str) -> frozenset[str]:
    """The classes and functions that a package offers by name."""
    package = importlib.import_module(module)
    names = {*getattr(package, "__all__", ()), *dir(package)}
    found = {n for n in names if n[:1].isupper() or n in ("minimize", "solve", "prune")}
    return frozenset(n for n in found if not inspect.ismodule(getattr(package, n, None)))


def home(name: str, page: str) -> str | None:
    """The full name that a page means by a short one.

    >>> home("LassoCV", "how-do-i"), home("Nothing", "linear")
    ('cyclade.linear.LassoCV', None)
    """
    first = FIRST.get(page)
    order = ((first,) if first else ()) + MODULES
    return next((f"{m}.{name}" for m in order if name in public(m)), None)


class ToApi(SphinxTransform):
    """Put a reference around each such name."""

    default_priority = 6

    def apply(self, **options: Any) -> None:
        """Visit the inline code of guides; API pages have links of their own."""
        page = self.env.docname
        if "/" in page or page in ("changelog", "contributing", "api"):
            return
        for node in list(self.document.findall(nodes.literal)):
            full = home(node.astext(), page)
            within = (nodes.reference, addnodes.pending_xref, nodes.title)
            if full is None or isinstance(node.parent, within):
                continue
            link = addnodes.pending_xref(
                "", node.deepcopy(), refdomain="py", reftype="obj", reftarget=full, refdoc=page
            )
            node.replace_self(link)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register."""
    app.add_transform(ToApi)
    return {"parallel_read_safe": True, "version": "1"}
