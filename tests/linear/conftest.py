"""Scripts for other interpreters are no tests."""

collect_ignore_glob = ["peer_*.py"]
