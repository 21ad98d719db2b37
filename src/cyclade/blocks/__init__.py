"""Blocks x = (x^1, …, x^m): `layout` cuts x and holds points.

`reading` takes apart what users give; `lag` is the point where each gradient estimate was formed.
"""

from cyclade.blocks.layout import Blocks, Layout, Point

__all__ = ["Blocks", "Layout", "Point"]
