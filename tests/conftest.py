"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# The same examples in every run: what passes once passes again, and a failure can be repeated.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")
