"""`import cyclade` is light."""

from __future__ import annotations

import subprocess
import sys


def test_import_brings_in_nothing_heavy() -> None:
    code = (
        "import sys, cyclade; print([m for m in "
        "('torch', 'numba', 'sklearn', 'scipy', 'matplotlib', 'rich', 'pandas') "
        "if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_is_there_and_documented() -> None:
    import cyclade

    for name in cyclade.__all__:
        thing = getattr(cyclade, name)
        assert name == "__version__" or thing.__doc__, name
