"""Colours and dashes: the same on the page and in print, and told apart by colour-blind eyes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """Of one entry of the legend: a colour on white, one on black, and the dashes in pixels."""

    light: str
    dark: str
    dash: tuple[int, ...] = ()


# After Okabe and Ito, without their yellow, which does not show on white; lighter for dark pages.
_COLOURS = (
    ("#0072B2", "#56B4F0"),  # blue
    ("#D55E00", "#FF8B45"),  # vermilion
    ("#00876A", "#3BD3A8"),  # green
    ("#B04A8B", "#EE9BCF"),  # purple
    ("#C98500", "#F2C14E"),  # orange
    ("#4A4A4A", "#C8C8C8"),  # grey
    ("#2AA3DB", "#9ADCFF"),  # sky
)
_DASHES: tuple[tuple[int, ...], ...] = ((), (7, 3), (2, 2), (8, 3, 2, 3))

# The cyclic methods are drawn in whole lines, those with one block in dashes.
_METHODS = {
    "SGD": Style(*_COLOURS[1], (7, 3)),
    "SCCD": Style(*_COLOURS[0]),
    "PAGE": Style(*_COLOURS[3], (7, 3)),
    "VRO-CCD": Style(*_COLOURS[2]),
    "VR-CCD": Style(*_COLOURS[4], (8, 3, 2, 3)),
}


def styles(methods: Sequence[str]) -> list[Style]:
    """A style for each entry of a legend, given the method of each.

    The first entry of a method has the method's own style in every report; further ones take what
    is free, colours first.

    >>> [style.light for style in styles(["SCCD", "SCCD"])]
    ['#0072B2', '#D55E00']
    """
    taken: list[Style | None] = []
    used = set()
    for method in methods:
        own = _METHODS[method]
        taken.append(None if own in used else own)
        used.add(own)
    colours_in_use = {style.light for style in used}
    free = [Style(*c, d) for d in _DASHES for c in _COLOURS]
    free = [style for style in free if style not in used]
    free.sort(key=lambda style: (style.light in colours_in_use, len(style.dash) > 0))
    spare = iter(free)
    return [style or next(spare, _METHODS["SGD"]) for style in taken]
