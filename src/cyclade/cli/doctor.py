"""`cyclade doctor`: what is installed, which device there is, and what is missing for what."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import cyclade
from cyclade._extras import to_install
from cyclade.cli import add_options, command

PARTS = {
    "": "minimize, regularisers, theory",
    "torch": "torch functions, optimizers for nets",
    "linear": "linear models",
    "formula": "formulas of linear models",
    "dask": "linear models of tables on Dask",
    "experiments": "the paper's experiments",
}
"""What each extra is for; the empty one is what every installation has."""
ALONE = {
    "pandas": "tables with names: coef_table, inference, categorical columns",
    "matplotlib": "plots of linear models",
}
"""What packages are for that no extra of users brings alone."""


def add(commands: Any) -> None:
    """The command."""
    add_options(command(commands, "doctor", doctor), "--json")


@dataclass(frozen=True)
class Need:
    """A package that a part asks for, and what was found of it (None: nothing)."""

    name: str
    least: str
    found: str | None

    @property
    def met(self) -> bool:
        """Whether it is there and new enough."""
        return self.found is not None and _numbers(self.found) >= _numbers(self.least)

    def __str__(self) -> str:
        if self.found is None:
            return f"{self.name} ≥ {self.least} (not installed)"
        return f"{self.name} {self.found}" + ("" if self.met else f" (needs ≥ {self.least})")


def needs(extra: str, required: Iterable[str]) -> list[Need]:
    """The packages of one extra, as the installed metadata of cyclade lists them.

    >>> needs("torch", ["numpy>=1", 'no-such>=2.4; extra == "torch"'])
    [Need(name='no-such', least='2.4', found=None)]
    """
    found = []
    for line in required:
        requirement, _, condition = line.partition(";")
        of = re.search(r"extra == ['\"](\w+)['\"]", condition)
        below = re.search(r"python_version < ['\"]3\.(\d+)['\"]", condition)
        if (of[1] if of else "") != extra or (below and sys.version_info >= (3, int(below[1]))):
            continue
        named, _, least = requirement.strip().partition(">=")
        name, _, extras = named.rstrip("]").partition("[")
        if name == "cyclade":  # an extra made of others
            found += [need for other in extras.split(",") for need in needs(other, required)]
        else:
            found.append(Need(name, least, _version(name)))
    return found


def found(required: Iterable[str]) -> dict[str, Any]:
    """The whole answer, as plain values."""
    required = list(required)
    asked = [(part, needs(extra, required), to_install(extra)) for extra, part in PARTS.items()]
    for package, part in ALONE.items():
        line = next((line for line in required if line.startswith(f"{package}>=")), f"{package}>=0")
        asked.append((part, needs("", [line.partition(";")[0]]), f"pip install {package}"))
    parts = []
    for part, wanted, hint in asked:
        lacking = [str(need) for need in wanted if not need.met]
        parts.append({
            "part": part, "usable": not lacking, "packages": list(map(str, wanted)),
            "missing": lacking, "to_have_it": hint if lacking else "",
        })  # fmt: skip
    return {
        "cyclade": cyclade.__version__, "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}", "cores": os.cpu_count(),
        "parts": parts, "device": _device(),
    }  # fmt: skip


def report(required: Iterable[str]) -> str:
    """The answer as lines to read."""
    answer = found(required)
    lines = [
        f"cyclade {answer['cyclade']}, Python {answer['python']}, {answer['system']}, "
        f"{answer['cores']} cores",
        "",
    ]
    for part in answer["parts"]:
        lines.append(f"{'yes' if part['usable'] else 'no '}  {part['part']}")
        lines.append(f"     {', '.join(part['packages'])}")
        if part["to_have_it"]:
            lines.append(f"     to have it: {part['to_have_it']}")
    return "\n".join([*lines, "", f"device: {answer['device']}"])


def doctor(chosen: argparse.Namespace) -> None:
    """What is installed, and what is missing for what.

    Which parts of cyclade can be used here, on which device; what is missing.

    example:
      cyclade doctor
      cyclade doctor --json
    """
    try:
        required = metadata.requires("cyclade") or []
    except metadata.PackageNotFoundError:
        print(
            f"cyclade {cyclade.__version__} is imported from {os.path.dirname(cyclade.__file__)} "
            "and is not installed, so it cannot be said what it needs: pip install ."
        )
        return
    print(json.dumps(found(required), indent=1) if chosen.json else report(required))


def _device() -> str:
    if find_spec("torch") is None:
        return "the CPU; GPUs are used through torch, which is not installed"
    import torch

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return f"{', '.join(names)} (CUDA {torch.version.cuda}); --device cpu for the CPU"
    built = torch.version.cuda
    why = f"it is built for CUDA {built}, but finds no GPU" if built else "it is built without CUDA"
    return f"the CPU; torch {torch.__version__} has no GPU: {why}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: enough to compare with a lower bound.

    >>> _numbers("2.13.0+cpu") >= _numbers("2.4"), _numbers("1.6rc1") >= _numbers("1.10")
    (True, False)
    """
    return tuple(int(n) for n in re.findall(r"\d+", re.match(r"[\d.]*", version)[0]))  # type: ignore[index]
