"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# Workers of pytest-xdist share the cores: with several threads each they wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run: what passes once passes again, and a failure can be repeated. No
# deadline: an example that compiles a kernel, or meets a busy machine, takes what it takes.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fuzz", derandomize=True, deadline=None, max_examples=2000)  # make fuzz
settings.load_profile("repeatable")
