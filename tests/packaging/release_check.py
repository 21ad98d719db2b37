"""Everything once before a release, and one page with the outcome: `make release-check`.

    python tests/packaging/release_check.py --out out/release-check.md
    python tests/packaging/release_check.py --only docs "speed beside peers"

Every step is a command that runs by itself, too. Steps go on after one that failed; exit 1 if any
did. The page names the version, the commit, and for each step its outcome, its seconds, and the
last lines of what a failed one printed.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = f"{sys.executable} -m pytest -q -m '' tests/faults"
STEPS = {
    "linters and types": "make lint",
    "tests": "make test",
    "figures of the docs": f"{sys.executable} benchmarks/figures.py --check",
    "site": "make docs",
    "faults, a slice": FAULTS,
    "wheel in empty environments": "make test-wheel",
    "every Python": "make test-pythons",
    "lowest versions": "make test-lowest",
    "speed beside peers": "make bench-quick",
}
SHOWN = 20  # lines of a step that failed


def run(command: str) -> tuple[bool, float, str]:
    """Whether a command succeeded, its seconds, and what it printed."""
    began = time.monotonic()
    done = subprocess.run(
        command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode == 0, time.monotonic() - began, done.stdout


def page(outcomes: dict[str, tuple[bool, float, str]], version: str, commit: str) -> str:
    """The outcome in Markdown."""
    failed = [name for name, (ok, _, _) in outcomes.items() if not ok]
    verdict = f"Not ready: {', '.join(failed)} failed." if failed else "Ready to be released."
    lines = [f"# Cyclade {version}", "", verdict, ""]
    lines += [f"Commit {commit}, Python {platform.python_version()}, {platform.platform()}.", ""]
    lines += ["| step | command | outcome | seconds |", "| --- | --- | --- | --- |"]
    for name, (ok, seconds, _) in outcomes.items():
        command = STEPS[name].replace(sys.executable, "python")
        lines.append(f"| {name} | `{command}` | {'ok' if ok else 'failed'} | {seconds:.0f} |")
    for name in failed:
        tail = outcomes[name][2].splitlines()[-SHOWN:]
        lines += ["", f"## {name}", "", "```", *tail, "```"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the steps and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "release-check.md")
    parser.add_argument("--only", nargs="+", choices=list(STEPS), default=list(STEPS))
    options = parser.parse_args()
    outcomes = {}
    for name in options.only:
        outcomes[name] = run(STEPS[name])
        print(f"{name}: {'ok' if outcomes[name][0] else 'failed'}", flush=True)
    version = run(f'{sys.executable} -c "import cyclade; print(cyclade.__version__)"')[2].strip()
    commit = run("git rev-parse --short HEAD")[2].strip()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page(outcomes, version, commit), "utf-8")
    print(f"Written: {options.out}")
    sys.exit(0 if all(ok for ok, _, _ in outcomes.values()) else 1)


if __name__ == "__main__":
    main()
