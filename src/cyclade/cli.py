"""The command line: `cyclade data`, `cyclade run`, `cyclade show`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cyclade

if TYPE_CHECKING:
    from cyclade.experiments import RunConfig, RunResult

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

_DATA_DIR = "where the data lies (default: $CYCLADE_DATA, else cyclade in the user's cache)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        from cyclade.experiments import ExperimentError
    except ImportError as error:
        print(f"cyclade: {error}: pip install 'cyclade[experiments]'", file=sys.stderr)
        return FAILED
    try:
        chosen.command(chosen)
    except ExperimentError as error:
        print(f"cyclade: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("cyclade: interrupted; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        return FAILED
    except OSError as error:
        print(f"cyclade: {error}", file=sys.stderr)
        return FAILED
    return 0


# ------------------------------------------------------------------------------------- commands


def _data(chosen: argparse.Namespace) -> None:
    from cyclade.experiments import fetch, verify

    for name in chosen.names:
        if chosen.check:
            folder = verify(name, chosen.data_dir)
        else:
            folder = fetch(name, chosen.data_dir, progress=sys.stdout.isatty())
        where = "comes with scikit-learn" if folder is None else f"complete in {folder}"
        print(f"{name}: {where}")


def _run(chosen: argparse.Namespace) -> None:
    from cyclade.experiments import run
    from cyclade.experiments.display import Display

    config = _config(chosen)
    with Display(not chosen.quiet) as display:
        result = run(
            config,
            chosen.out,
            data_dir=chosen.data_dir,
            watch=lambda row: display.show(config, row),
        )
    print(_sentence(result))


def _show(chosen: argparse.Namespace) -> None:
    from cyclade.experiments import ExperimentError, find_runs

    results = [r for r in find_runs(chosen.folder) if r.history]
    if not results:
        raise ExperimentError(f"no runs in {chosen.folder}")
    print(table(results))


def _config(chosen: argparse.Namespace) -> RunConfig:
    from cyclade.experiments import ConfigError, RunConfig
    from cyclade.experiments.config import value_of

    changes: dict[str, Any] = {}
    for setting in chosen.set:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set takes key=value, got {setting!r}")
        changes[key.strip()] = value_of(text.strip())
    if chosen.device is not None:
        changes["device"] = chosen.device
    if chosen.config is not None:
        return RunConfig.read(chosen.config, changes)
    return RunConfig.from_dict(changes)


# --------------------------------------------------------------------------------------- output


def _sentence(result: RunResult) -> str:
    row = result.last
    if result.status == "diverged":
        return f"{result.config.method} diverged in epoch {row.epoch} ({result.folder})"
    return (
        f"{result.config.method}: train loss {row.train_loss:.4f}, test accuracy "
        f"{row.test_accuracy:.4f} after {row.epoch} epochs, {row.seconds:.1f} s of training "
        f"({result.folder})"
    )


def table(results: Sequence[RunResult]) -> str:
    """One line per run."""
    head = [
        "dataset", "method", "spectral", "lr", "b", "seed", "epochs", "status", "train loss",
        "held out", "test acc", "seconds", "folder",
    ]  # fmt: skip
    lines = [head]
    for r in results:
        c, row = r.config, r.last
        held = "-" if row.held_out_accuracy is None else f"{row.held_out_accuracy:.4f}"
        lines.append(
            [
                c.dataset, c.method, c.spectral or "-", f"{c.lr:g}", str(c.batch), str(c.seed),
                f"{row.epoch}/{c.epochs}", r.status, f"{row.train_loss:.4f}", held,
                f"{row.test_accuracy:.4f}", f"{row.seconds:.2f}", r.folder.name,
            ]
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


# --------------------------------------------------------------------------------------- parser


def _parser() -> argparse.ArgumentParser:
    parser = _command(
        argparse.ArgumentParser,
        prog="cyclade",
        description="Cyclic block coordinate descent with variance reduction: the experiments.",
        example="cyclade run --set method=SCCD --set lr=0.1 --set batch=64 --out out/sccd",
    )
    parser.add_argument("--version", action="version", version=f"cyclade {cyclade.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    data = _command(
        commands.add_parser,
        name="data",
        help="fetch or check the data sets",
        description="Fetch CIFAR-10 and MNIST from their official sources and check every file.",
        example="cyclade data cifar10 mnist --data-dir data\n  cyclade data cifar10 --check",
    )
    data.add_argument("names", nargs="+", metavar="NAME", help="cifar10, mnist or digits")
    data.add_argument("--data-dir", metavar="DIR", help=_DATA_DIR)
    data.add_argument("--check", action="store_true", help="only check what is there")
    data.set_defaults(command=_data)

    run = _command(
        commands.add_parser,
        name="run",
        help="train one run, or resume it",
        description="Train one run; the same command resumes it after an interruption.",
        example=(
            "cyclade run run.toml --out out/run --data-dir data\n"
            "  cyclade run --set dataset=mnist --set method=VRO-CCD --set lr=0.005 --out out/vro\n"
            "  cyclade run run.toml --set seed=1 --device cuda --out out/seed1"
        ),
    )
    run.add_argument("config", nargs="?", metavar="CONFIG.toml", help="the config of the run")
    run.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="replace a value"
    )
    run.add_argument("--out", required=True, metavar="DIR", help="the folder of the run")
    run.add_argument("--data-dir", metavar="DIR", help=_DATA_DIR)
    run.add_argument("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:N")
    run.add_argument("--quiet", action="store_true", help="no progress bar")
    run.set_defaults(command=_run)

    show = _command(
        commands.add_parser,
        name="show",
        help="a table of runs",
        description="A table of all runs at or below a folder.",
        example="cyclade show out",
    )
    show.add_argument("folder", metavar="DIR", help="a run folder, or one that holds run folders")
    show.set_defaults(command=_show)
    return parser


def _command(make: Any, *, example: str, **options: Any) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = make(
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **options,
    )
    return made


if __name__ == "__main__":
    sys.exit(main())
