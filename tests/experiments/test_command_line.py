"""The command line: output, exit codes, and one-line errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import made_up_runs
import pytest
import torch
from synthetic import cifar, expect, write

from cyclade.cli import HOMES, main
from cyclade.experiments import RunConfig, display
from cyclade.experiments.config import keys
from cyclade.experiments.datasets import known

QUICK = ["--set", "batch=256", "--set", "epochs=1", "--device", "cpu"]


def failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of an error."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("cyclade: ")
    assert printed.err.count("\n") == 1
    return printed.err


def test_run_and_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.toml"
    config.write_text('method = "PAGE"\nlr = 1e-6\n')
    for name in ("a", "b"):
        out = str(tmp_path / "runs" / name)
        settings = ["--seed", str(ord(name)), *QUICK]
        assert main(["run", str(config), *settings, "--out", out]) == 0
        said = capsys.readouterr().out
        assert "PAGE: train loss 2.3" in said
        assert "Little or nothing was learnt: guessing gives 0.1." in said
        assert "is usual here" in said
        assert main(["run", str(config), *settings, "--out", out]) == 0  # done: only shown
        assert "after 1 epoch," in capsys.readouterr().out
    assert main(["show", str(tmp_path / "runs")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["dataset", "method", "spectral", "lr"]
    assert [line.split()[-1] for line in lines[1:]] == ["a", "b"]
    assert "finished" in lines[1]


def test_a_diverging_run_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--set", "lr=1e6", "--set", "schedule=constant"]
    assert main(["run", *QUICK, *settings, "--set", "epochs=5", "--out", str(tmp_path)]) == 0
    assert "SCCD diverged in epoch" in capsys.readouterr().out
    assert main(["show", str(tmp_path)]) == 0
    assert "diverged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run --set dataset=imagenet", "one of 'cifar10', 'digits', 'fashion-mnist', 'mnist'"),
        ("run --set learning_rate=1", "unknown key 'learning_rate'"),
        ("run --set lr", "--set takes key=value, got 'lr'"),
        ("run --lr nan", "lr must be "),
        ("run nowhere.toml", "nowhere.toml cannot be read"),
        ("run batch=64", "--set batch=64 sets a value"),
        ("run --set dataset=mnist --data-dir nowhere", "not found below nowhere"),
        ("run --method SCDD", "(did you mean 'SCCD'?)"),
        ("run --set order=rotate", "(did you mean 'rotated'?)"),
        ("run --set bacth=3", "(did you mean 'batch'?)"),
        ("reproduce fig1 --dataset imagenet", "unknown data set 'imagenet'"),
        ("study batch --seeds 0", "seeds must be from 1 to 1000000, got 0"),
        ("reproduce fig1 --quick --jobs 0", "jobs must be from 1 to 1024, got 0"),
        ("reproduce fig1 --quick --device tpu", "device must be 'auto'"),
        ("reproduce fig-vr --data-dir nowhere", "not found below nowhere"),
        ("reproduce table1 --quick --epochs 1", "table1 needs at least 2 epochs"),
        ("tune --methods Adam", "method must be one of 'SGD'"),
        ("tune --methods VROCCD", "(did you mean 'VRO-CCD'?)"),
        ("tune --set dataset=mnist --data-dir nowhere", "not found below nowhere"),
        ("tune --held-out 1.5", "held_out must be in (0, 1), got 1.5"),
        ("report nowhere", "nowhere is not a folder"),
    ],
)
def test_bad_arguments(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failing(capsys, *line.split(), "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    "command", ["run", "reproduce table1 --quick", "study order --quick", "tune"]
)
def test_no_gpu(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*command.split(), "--device", "cuda", "--out", str(tmp_path / "out")]
    assert "no CUDA GPU can be used here" in failing(capsys, *words)
    assert not (tmp_path / "out").exists()


def test_truncated_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    contents, _, _ = cifar()
    expect(monkeypatch, "cifar10", contents)
    write(tmp_path / "cifar-10-batches-bin", contents)
    assert main(["data", "cifar10", "digits", "--data-dir", str(tmp_path)]) == 0
    assert "cifar10: complete in" in capsys.readouterr().out
    file = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    file.write_bytes(contents["test_batch.bin"][:5000])
    run = ["--device", "cpu", "--out", str(tmp_path / "out")]
    for command in (
        ["data", "cifar10"],
        ["data", "cifar10", "--check"],
        ["run", "--set", "dataset=cifar10", *run],
        ["tune", "--set", "dataset=cifar10", *run],
        ["reproduce", "fig1", *run],
        ["study", "batch", *run],
    ):
        error = failing(capsys, *command, "--data-dir", str(tmp_path))
        assert "test_batch.bin is cut short: 5,000 bytes" in error
    assert not (tmp_path / "out").exists()
    assert file.stat().st_size == 5000


def test_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cyclade.experiments.training import Training

    def interrupted(self: Training) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Training, "train_epoch", interrupted)
        assert main(["run", *QUICK, "--out", str(tmp_path)]) == 130
    assert "the same command goes on from here" in capsys.readouterr().err
    assert main(["show", str(tmp_path)]) == 0
    assert "unfinished" in capsys.readouterr().out
    assert main(["run", *QUICK, "--out", str(tmp_path)]) == 0


@pytest.mark.parametrize("command", ["", *HOMES])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert re.search(rf"\nexample:\n  .*cyclade {command}", printed)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rnu", "'rnu' is none of config, data, run, .*did you mean 'run'"),
        ("dance", "'dance' is none of"),
        ("show", "the following arguments are required: DIR"),
        ("run --epcohs 3", "'--epcohs' is not known here .did you mean '--epochs'"),
        ("reproduce", "the following arguments are required: NAME"),
        ("reproduce fgi1", "'fgi1' is none of fig1, .*did you mean 'fig1'"),
        ("study ordr", "'ordr' is none of batch, order .did you mean 'order'"),
    ],
)
def test_commands_that_are_not_known(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    assert stop.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith("usage: cyclade")
    assert re.search(said, printed)


def test_the_data_sets_are_listed_and_no_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "--data-dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(known())
    assert "comes with scikit-learn" in lines[1]
    assert lines[-1].endswith("not there: cyclade data mnist")
    said = failing(capsys, "data", "cifar")
    assert "unknown data set 'cifar'" in said
    assert "`cyclade data` alone lists them" in said
    assert "is not a folder" in failing(capsys, "show", str(tmp_path / "nowhere"))
    assert "no runs in" in failing(capsys, "show", str(tmp_path))


def test_runs_have_folders_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options with names of their own reach the config."""
    monkeypatch.chdir(tmp_path)
    command = ["run", *QUICK, "--dataset", "digits", "--method", "SCCD", "--lr", "0.2"]
    assert main([*command, "--seed", "4", "--set", "order=rotated", "--quiet"]) == 0
    (folder,) = (tmp_path / "out" / "runs").iterdir()
    config = RunConfig.read(folder / "config.toml")
    assert (config.order, config.lr, config.seed, folder.name) == ("rotated", 0.2, 4, config.slug())
    assert capsys.readouterr().out.startswith("SCCD: train loss ")


def test_runs_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = RunConfig(epochs=2)
    (*_, last) = made_up_runs.make(tmp_path / "a", config)
    made_up_runs.make(tmp_path / "b", config, status="diverged")
    assert main(["show", str(tmp_path), "--json"]) == 0
    one, other = json.loads(capsys.readouterr().out)
    assert (one["status"], one["last"]["train_loss"]) == ("finished", last.train_loss)
    assert one["config"]["method"] == "SCCD"
    assert other["last"]["train_loss"] is None


def test_training_needs_neither_rich_nor_pooch(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['rich'] = sys.modules['rich.progress'] = sys.modules['pooch'] = None\n"
        "from cyclade.experiments import RunConfig, run\n"
        "from cyclade.experiments.display import _progress\n"
        "assert _progress() is None\n"
        "assert 'sklearn' not in sys.modules and 'matplotlib' not in sys.modules\n"
        f"run(RunConfig(batch=512, epochs=1, device='cpu'), {str(tmp_path)!r})\n"
    )
    light = "import sys, cyclade.cli; assert 'torch' not in sys.modules\n"
    subprocess.run([sys.executable, "-c", light + code], check=True)


# ------------------------------------------------------------------------------ what can be set


def test_config_lists_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    printed = " ".join(capsys.readouterr().out.split()).replace("fashion- mnist", "fashion-mnist")
    for name, key in keys().items():
        assert f"{name} ({key.kind}, default " in printed
        assert f"{key.meaning}: {key.accepted}" in printed
    for info in known().values():
        assert f"{info.name}: batch {info.batch} and lr {info.lr:g} for SGD, SCCD" in printed


def test_a_config_to_start_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["config", "--toml", "--dataset", "mnist", "--method", "PAGE", "--set", "p=0.2"]
    assert main(command) == 0
    made = RunConfig.from_toml(capsys.readouterr().out)
    assert made == RunConfig(dataset="mnist", method="PAGE", p=0.2)
    assert (made.lr, made.batch) == (known()["mnist"].lr_recursive, known()["mnist"].batch)
    assert "p is for PAGE" in failing(capsys, "config", "--set", "p=0.2")


def test_plain_lines_where_there_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(display, "EVERY", 0.0)
    command = ["run", *QUICK, "--set", "epochs=3", "--set", "batch=700"]
    assert main([*command, "--out", str(tmp_path / "a")]) == 0
    lines = capsys.readouterr().out.splitlines()
    epochs = [line.partition("epoch ")[2].partition(",")[0] for line in lines[:4]]
    assert epochs == ["0/3", "1/3", "2/3", "3/3"]
    assert lines[1].endswith("s left")
    assert lines[3].startswith("SCCD lr 0.1 seed 0: epoch 3/3, train loss 2.")
    assert main([*command, "--set", "spectral=step", "--out", str(tmp_path / "c")]) == 0
    assert capsys.readouterr().out.startswith("SCCD spectral step lr 0.1 seed 0: epoch 0/3")
    assert main([*command, "--quiet", "--out", str(tmp_path / "b")]) == 0
    assert "epoch 1/3" not in capsys.readouterr().out


# --------------------------------------------------------------- endings without a traceback


def alone(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Python code in a process of its own."""
    command = [sys.executable, "-c", code, *arguments]
    options = {"capture_output": True, "text": True, **options}
    return subprocess.run(command, **options)


CALL = "import sys; from cyclade.cli import main; sys.exit(main(sys.argv[1:]))"


def test_commands_without_torch(tmp_path: Path) -> None:
    made_up_runs.make(tmp_path / "runs" / "a", RunConfig(epochs=2))
    code = (
        "import sys; sys.modules['torch'] = sys.modules['matplotlib'] = None\n"
        "from cyclade.cli import main\n"
        f"root = {str(tmp_path / 'runs')!r}\n"
        "for command in (['config'], ['config', '--toml'], ['show', root], ['report', root],\n"
        "                ['data', 'digits', '--check']):\n"
        "    assert main(command) == 0, command\n"
        "sys.exit(main(['run', '--out', root + '/new']))\n"
    )
    found = alone(code)
    assert found.returncode == 2, found.stderr
    assert found.stderr == (
        "cyclade: this command needs torch, which is not installed: in a checkout of cyclade, "
        "pip install '.[experiments]'; cyclade doctor lists what is missing\n"
    )


def test_an_interrupt_while_torch_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'torch': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
    )
    found = alone(code + CALL, "run", "--out", str(tmp_path / "run"))
    assert found.returncode == 130
    assert found.stderr == "cyclade: interrupted; the same command goes on from here\n"


def test_nobody_reads_the_output() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    found = alone(CALL, "config", capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (found.returncode, found.stderr) == (141, "")
    closed = f"import os; os.close(1); os.execv({sys.executable!r}, [{sys.executable!r}, '-c', "
    found = alone(closed + f"{CALL!r}, 'config'])")
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_that_cannot_be_written() -> None:
    with open("/dev/full", "w") as full:
        found = alone(CALL, "config", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (found.returncode, found.stderr) == (2, "cyclade: No space left on device\n")


def test_letters_that_the_locale_does_not_have(tmp_path: Path) -> None:
    folder = tmp_path / "größe-η"
    made_up_runs.make(folder / "a", RunConfig(epochs=2))
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))}
    plain |= {"PYTHONPATH": os.pathsep.join(sys.path), "LANG": "C", "LC_ALL": "C"}
    both = "import sys; from cyclade.cli import main\nsys.modules['matplotlib'] = None\n"
    both += "sys.exit(sum(main([command, sys.argv[1]]) for command in ('show', 'report')))"
    for extra in ({}, {"PYTHONIOENCODING": "ascii"}):
        found = alone(both, str(folder), env={**plain, **extra})
        assert (found.returncode, found.stderr) == (0, "")


IMPORTING = """
import os, signal, sys, types
sys.modules["cyclade.cli"] = types.ModuleType("cyclade.cli")
def importing(name):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(1000))  # the exception comes between two instructions
    except KeyboardInterrupt:
        raise ImportError("a compiled package could not be loaded")  # as NumPy says it
sys.modules["cyclade.cli"].__getattr__ = importing
# A shell ignores it for commands in the background; what that left does not count here.
signal.signal(signal.SIGINT, signal.SIG_IGN if {ignored} else signal.default_int_handler)
if {ignored}:
    sys.modules["cyclade.cli"].main = lambda: importing("main") or 7
import _cyclade_command
sys.exit(_cyclade_command.main())
"""


@pytest.mark.parametrize(("ignored", "code"), [(False, -signal.SIGINT), (True, 7)])
def test_an_interrupt_while_cyclade_is_imported(ignored: bool, code: int) -> None:
    """It ends the process without a word; where the shell has it ignored, it stays ignored."""
    found = alone(IMPORTING.format(ignored=ignored))
    assert (found.returncode, found.stderr) == (code, "")
