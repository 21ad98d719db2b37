"""What a search of learning rates saw: one row for every run of it.

    python benchmarks/searches.py out/study-batch/tune > searches.csv

Runs that were cut off are listed with the epoch they got to.
"""

from __future__ import annotations

import argparse
import csv
import sys

from cyclade.experiments import find_runs

KEYS = ("dataset", "method", "order", "blocks", "batch", "spectral", "precondition", "lr")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", help="folders with the runs of a search")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*KEYS, "status", "epoch", "held_out_accuracy", "train_loss"])
    for folder in parser.parse_args().folders:
        for run in sorted(find_runs(folder), key=lambda run: run.config.slug()):
            values = [getattr(run.config, key) for key in KEYS]
            last = run.last
            accuracy = "" if last.held_out_accuracy is None else f"{last.held_out_accuracy:.4f}"
            writer.writerow([*values, run.status, last.epoch, accuracy, f"{last.train_loss:.4f}"])


if __name__ == "__main__":
    main()
