"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# Workers of pytest-xdist share the cores: with several threads each they wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run: what passes once passes again, and a failure can be repeated.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("fuzz", derandomize=True, max_examples=2000)  # make fuzz
settings.load_profile("repeatable")
