"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# The same examples in every run: what passes once passes again, and a failure can be repeated.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("fuzz", derandomize=True, max_examples=2000)  # make fuzz
settings.load_profile("repeatable")
