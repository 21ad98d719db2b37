"""Settings of all tests."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any

import hypothesis.core
import numpy as np
from hypothesis import settings

# Workers of pytest-xdist share the cores: with several threads each they wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

SEED = os.environ.get("CYCLADE_SEED", "")
if SEED == "any":
    SEED = os.environ["CYCLADE_SEED"] = str(secrets.randbelow(2**31))  # workers take the same
if SEED and not SEED.isdecimal():
    raise SystemExit(f"CYCLADE_SEED must be a whole number or any, got {SEED}")

# The same examples in every run: what passes once passes again, and a failure can be repeated. No
# deadline: an example that compiles a kernel, or meets a busy machine, takes what it takes.
# CYCLADE_SEED=any draws others, and says how to draw them again.
settings.register_profile("repeatable", derandomize=not SEED, deadline=None)
settings.register_profile("fuzz", derandomize=not SEED, deadline=None, max_examples=2000)
settings.load_profile("repeatable")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How to repeat this run."""
    if SEED:
        terminalreporter.write_line(f"Random numbers of CYCLADE_SEED={SEED}.")


if SEED:
    hypothesis.core.global_force_seed = int(SEED)
    _default_rng, _tests = np.random.default_rng, str(Path(__file__).parent)

    def _rotated(seed: Any = None) -> np.random.Generator:
        """Of another seed for each CYCLADE_SEED, where a test asks."""
        asked_by = sys._getframe(1).f_code.co_filename
        own = isinstance(seed, int) and asked_by.startswith(_tests)
        return _default_rng([seed, int(SEED)] if own else seed)

    np.random.default_rng = _rotated
