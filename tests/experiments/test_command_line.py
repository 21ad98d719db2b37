"""The command line: output, exit codes, and one-line errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from synthetic import cifar, expect, write

from cyclade.cli import main

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
    config.write_text('method = "PAGE"\nlr = 0.001\n')
    for name in ("a", "b"):
        out = str(tmp_path / "runs" / name)
        settings = ["--set", f"seed={ord(name)}", *QUICK]
        assert main(["run", str(config), *settings, "--out", out]) == 0
        assert "PAGE: train loss 2.3" in capsys.readouterr().out
        assert main(["run", str(config), *settings, "--out", out]) == 0  # done: only shown
        assert "after 1 epochs" in capsys.readouterr().out
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
    ("settings", "message"),
    [
        (
            ["--set", "dataset=imagenet"],
            "dataset must be one of 'cifar10', 'digits', 'fashion-mnist', 'mnist'",
        ),
        (["--set", "method=Adam"], "method must be one of 'SGD'"),
        (["--set", "learning_rate=1"], "unknown key 'learning_rate'"),
        (["--set", "lr=fast"], "lr must be a number above 0, got 'fast'"),
        (["--set", "lr"], "--set takes key=value, got 'lr'"),
        (["--device", "tpu"], "device must be 'auto'"),
        (["nowhere.toml"], "nowhere.toml cannot be read"),
        (["--set", "dataset=mnist", "--data-dir", "nowhere"], "not found below nowhere"),
    ],
)
def test_bad_settings(
    settings: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failing(capsys, "run", *settings, "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = failing(capsys, "run", "--device", "cuda", "--out", str(tmp_path / "run"))
    assert "no CUDA GPU can be used here" in error
    assert not (tmp_path / "run").exists()


def test_a_folder_of_another_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *QUICK, "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    error = failing(capsys, "run", *QUICK, "--set", "lr=0.1", "--out", str(tmp_path))
    assert "holds a run of another config (lr = 0.2 there, 0.1 here)" in error


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
    for command in (["data", "cifar10"], ["data", "cifar10", "--check"]):
        error = failing(capsys, *command, "--data-dir", str(tmp_path))
        assert "test_batch.bin is cut short: 5,000 bytes" in error
    run = ["run", "--set", "dataset=cifar10", "--device", "cpu", "--data-dir", str(tmp_path)]
    assert "cut short" in failing(capsys, *run, "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
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


def test_other_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown data set 'cifar'" in failing(capsys, "data", "cifar")
    assert "is not a folder" in failing(capsys, "show", str(tmp_path / "nowhere"))
    assert "no runs in" in failing(capsys, "show", str(tmp_path))


@pytest.mark.parametrize("command", [[], ["data"], ["run"], ["show"]])
def test_help_has_an_example(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    assert f"example:\n  cyclade {' '.join(command)}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["dance"], ["run"], ["data"]])
def test_incomplete_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: cyclade" in capsys.readouterr().err


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
    subprocess.run([sys.executable, "-c", code], check=True)
    light = "import sys, cyclade.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", light], check=True)
