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


# Found by a search for colours that stay apart with normal, deutan, protan and tritan eyes (the
# distances are tested), each with a contrast of 3 or more: on white, and on the dark page.
_COLOURS = (
    ("#044481", "#485DF5"),  # blue
    ("#AD361E", "#D2511F"),  # red
    ("#03A75E", "#20B47A"),  # green
    ("#8883FF", "#A275D3"),  # violet
    ("#C08105", "#FCA72E"),  # ochre
    ("#290004", "#FFF6BE"),  # nearly black, nearly white
    ("#764E65", "#BDFBFB"),  # mauve, cyan
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
    ['#044481', '#AD361E']
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
