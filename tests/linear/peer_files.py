"""What scripts under another interpreter share: problems in, answers out. NumPy is all it needs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np


def run(solve):
    """Answer every problem of the folder named on the command line with solve(**entries)."""
    folder = Path(sys.argv[1])
    problems = json.loads((folder / "problems.json").read_text())
    with np.load(folder / "problems.npz") as arrays:
        for place, array in arrays.items():
            name, key = place.rsplit("/", 1)
            problems[name][key] = array
    answers = {}
    for name, entries in problems.items():
        answers[f"{name}/coef"], answers[f"{name}/intercept"] = solve(**entries)
    np.savez(folder / "answers.npz", **answers)
