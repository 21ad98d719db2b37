"""Loading, splitting and fetching the data sets."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import re
import shutil
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs.macos
import platformdirs.unix
import pytest
import torch
from synthetic import cifar, expect, mnist, write

from cyclade.cli import main
from cyclade.experiments import DataError, RunConfig, datasets, fetch, load, network, verify
from cyclade.experiments.datasets import known, names
from cyclade.experiments.datasets.digits import doubled
from cyclade.experiments.official import OfficialFile, data_folder
from cyclade.experiments.plans import PAPER, STUDIES, Settings
from cyclade.experiments.plans.grids import learning_rates


@pytest.mark.parametrize("folder", ["MNIST/raw", ".", "mnist"])
@pytest.mark.parametrize("compressed", [False, True])
def test_mnist_is_found_read_and_normalised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, compressed: bool
) -> None:
    contents, arrays = mnist()
    expect(monkeypatch, "mnist", contents)
    if compressed:
        write(tmp_path / folder, {f"{n}.gz": gzip.compress(c) for n, c in contents.items()})
    else:
        write(tmp_path / folder, contents)
    data = load("mnist", tmp_path)
    assert (len(data.train), len(data.test), data.shape) == (40, 10, (1, 28, 28))
    assert data.train.labels.tolist() == arrays["train-labels-idx1-ubyte"].tolist()
    x = arrays["train-images-idx3-ubyte"]
    wanted = (arrays["t10k-images-idx3-ubyte"] - x.mean()) / x.std()
    np.testing.assert_allclose(data.test.images[:, 0].numpy(), wanted, atol=1e-5)


def test_cifar_is_normalised_by_channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents, images, labels = cifar()
    expect(monkeypatch, "cifar10", contents)
    write(tmp_path / "cifar-10-batches-bin", contents)
    data = load("cifar10", tmp_path)
    assert (len(data.train), len(data.test), data.shape) == (100, 20, (3, 32, 32))
    x = images[:5].reshape(-1, 3, 32, 32)
    mean, spread = (moment((0, 2, 3), keepdims=True) for moment in (x.mean, x.std))
    for split, raw in ((data.train, x), (data.test, images[5])):
        np.testing.assert_allclose(split.images.numpy(), (raw - mean) / spread, atol=1e-5)
    assert data.train.labels.tolist() == labels[:5].reshape(-1).tolist()
    assert data.test.labels.tolist() == labels[5].tolist()


def test_unknown_names() -> None:
    for call in (load, fetch, verify, network):
        with pytest.raises(
            DataError, match="unknown data set 'cifar': cifar10, digits, fashion-mnist, mnist"
        ):
            call("cifar")  # type: ignore[operator]


def test_digits_are_split_once_and_for_all() -> None:
    a, b = load("digits"), load("digits")
    assert torch.equal(a.train.images, b.train.images)
    assert a.shape == (1, 16, 16)
    assert set(a.test.labels.tolist()) == set(range(10))
    assert fetch("digits") is None
    assert verify("digits") is None


def test_held_out_images_come_from_the_training_set() -> None:
    data = load("digits")
    part = data.held_out(0.2)
    assert part.held is not None
    assert len(part.held) == 287
    assert len(part.train) + len(part.held) == len(data.train)
    assert part.test is data.test

    def rows(images: Any) -> list[bytes]:
        return sorted(row.tobytes() for row in images.numpy())

    together = torch.cat([part.train.images, part.held.images])
    assert rows(together) == rows(data.train.images)
    again, other = data.held_out(0.2), data.held_out(0.2, seed=1)
    assert again.held is not None
    assert other.held is not None
    assert torch.equal(again.held.images, part.held.images)
    assert not torch.equal(other.held.images, part.held.images)
    for fraction in (0.0, 1.0, 1e-9, -1.0):
        with pytest.raises(ValueError, match="fraction must be in"):
            data.held_out(fraction)


def test_the_folder_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CYCLADE_DATA", "elsewhere")
    assert data_folder(None) == Path("elsewhere")
    assert data_folder("here") == Path("here")
    monkeypatch.delenv("CYCLADE_DATA")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for system, folder in (
        (platformdirs.unix.Unix, Path.home() / ".cache" / "cyclade"),
        (platformdirs.macos.MacOS, Path.home() / "Library" / "Caches" / "cyclade"),
    ):
        monkeypatch.setattr(platformdirs, "PlatformDirs", system)
        assert data_folder(None) == folder


@pytest.mark.parametrize("name", names())
def test_networks_repeat_and_leave_the_generator_alone(name: str) -> None:
    shape = known()[name].shape
    torch.manual_seed(5)
    before = torch.get_rng_state()
    a, b, c = network(name, seed=1), network(name, seed=1), network(name, seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    x = torch.ones(2, *shape)
    assert a(x).shape == (2, 10)
    assert torch.equal(a(x), b(x))
    assert not torch.equal(a(x), c(x))
    normal = network(name, spectral=True)
    sigma = torch.linalg.matrix_norm(normal.fc1.weight.detach(), 2)  # type: ignore[union-attr]
    assert float(sigma) == pytest.approx(1, abs=0.05)


# ------------------------------------------------------------------------------------- fetching


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server over a folder."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(folder))
    ) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_address[1]}/", folder
        made.shutdown()
        thread.join()


def serve(
    monkeypatch: pytest.MonkeyPatch, name: str, url: str, folder: Path, files: dict[str, bytes]
) -> None:
    """Put files behind `url`, and let the downloads of a data set point there."""
    write(folder, files)
    official = known()[name].official
    assert official is not None
    hashes = {file: f"md5:{hashlib.md5(content).hexdigest()}" for file, content in files.items()}
    assert hashes.keys() == official.downloads.keys()
    hosts = (f"{url}nothing-here/", url)
    changed = replace(known()[name], official=replace(official, hosts=hosts, downloads=hashes))
    monkeypatch.setitem(known(), name, changed)


def tar(contents: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in {"../../evil.bin": b"!", **contents}.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_fetching_cifar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[str, Path]
) -> None:
    contents, _, _ = cifar()
    expect(monkeypatch, "cifar10", contents)
    serve(monkeypatch, "cifar10", *server, {"cifar-10-binary.tar.gz": tar(contents)})
    folder = fetch("cifar10", tmp_path / "data")
    assert folder == tmp_path / "data" / "cifar-10-batches-bin"
    assert sorted(path.name for path in folder.iterdir()) == sorted(contents)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["cifar-10-batches-bin"]
    shutil.rmtree(server[1])
    assert fetch("cifar10", tmp_path / "data") == folder  # nothing to download any more


def test_fetching_mnist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[str, Path]
) -> None:
    contents, _ = mnist()
    expect(monkeypatch, "mnist", contents)
    files = {f"{name}.gz": gzip.compress(content) for name, content in contents.items()}
    serve(monkeypatch, "mnist", *server, files)
    first = "train-images-idx3-ubyte"
    write(tmp_path, {first: contents[first]})  # what is there already is not fetched again
    fetch("mnist", tmp_path)
    raw = tmp_path / "MNIST" / "raw"
    assert sorted(path.name for path in raw.iterdir()) == sorted(set(files) - {f"{first}.gz"})
    assert len(load("mnist", tmp_path).train) == 40


def test_a_download_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[str, Path]
) -> None:
    contents, _, _ = cifar()
    expect(monkeypatch, "cifar10", contents)
    archive = tar(contents)
    serve(monkeypatch, "cifar10", *server, {"cifar-10-binary.tar.gz": archive})
    write(server[1], {"cifar-10-binary.tar.gz": archive[:-10]})
    with pytest.raises(DataError, match=r"could not be fetched \(.*nothing-here.*hash"):
        fetch("cifar10", tmp_path / "data")
    write(tmp_path / "data", {"cifar-10-binary.tar.gz": archive[:-10]})
    with pytest.raises(DataError, match=r"cifar-10-binary.tar.gz is damaged: its md5"):
        fetch("cifar10", tmp_path / "data")
    write(tmp_path / "data", {"cifar-10-binary.tar.gz": archive})  # the user's own: used and kept
    fetch("cifar10", tmp_path / "data")
    assert (tmp_path / "data" / "cifar-10-binary.tar.gz").exists()


def test_fetching_without_pooch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=r"fetching needs pooch: pip install pooch. Or put"):
        fetch("cifar10", tmp_path / "data")
    assert not (tmp_path / "data").exists()


# ------------------------------------------------------------------------ one file per data set


def test_digits_are_doubled_as_torch_does_it() -> None:
    from sklearn.datasets import load_digits

    raw = load_digits(return_X_y=True)[0].reshape(-1, 1, 8, 8)
    small = torch.from_numpy(raw.astype(np.float32)) * (255 / 16)
    wanted = torch.nn.functional.interpolate(small, scale_factor=2, mode="bilinear")
    np.testing.assert_array_equal(doubled(raw * (255 / 16)), wanted.round().to(torch.uint8).numpy())


def test_fashion_mnist_is_checked_as_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed, by the checksums of the compressed files; MNIST's files are not taken for it."""
    official = known()["fashion-mnist"].official
    assert official is not None
    assert [f.hash for f in official.files] == list(official.downloads.values())
    contents, arrays = mnist()
    files = {f"{name}.gz": gzip.compress(content) for name, content in contents.items()}
    write(tmp_path, files)
    with pytest.raises(DataError, match=r"fashion-mnist: train-images-idx3-ubyte.gz, .* not found"):
        load("fashion-mnist", tmp_path)
    write(tmp_path / "FashionMNIST" / "raw", files)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz is cut short"):
        load("fashion-mnist", tmp_path)
    expect(monkeypatch, "fashion-mnist", files)
    data = load("fashion-mnist", tmp_path)
    assert (data.name, data.shape, len(data.train)) == ("fashion-mnist", (1, 28, 28), 40)
    assert data.test.labels.tolist() == arrays["t10k-labels-idx1-ubyte"].tolist()


MADE_UP = '''
"""Bright and dark squares."""

import numpy as np

from cyclade.experiments.datasets import DatasetInfo


def read(contents):
    y = np.arange(60, dtype=np.uint8) % 2
    x = np.broadcast_to((200 * y)[:, None, None, None], (60, 1, 4, 4)).astype(np.uint8)
    return x[:40], y[:40], x[40:], y[40:]


def net():
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))


DATASET = DatasetInfo(
    name="squares", label="squares", images=(40, 20), shape=(1, 4, 4), read=read, net=net,
    batch=8, lr=0.5, lr_recursive=0.1, classes=2,
)
'''


def test_a_data_set_is_added_by_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It runs, is listed, tuned and planned for, and nothing else was touched."""
    (tmp_path / "squares.py").write_text(MADE_UP)
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(tmp_path)])
    known.cache_clear()
    try:
        command = ["--dataset", "squares", "--device", "cpu", "--quiet"]
        out = str(tmp_path / "run")
        assert main(["run", *command, "--method", "VRO-CCD", "--epochs", "3", "--out", out]) == 0
        config = RunConfig.read(tmp_path / "run" / "config.toml")
        assert (config.dataset, config.batch, config.lr) == ("squares", 8, 0.1)
        assert "test accuracy 1.0000" in capsys.readouterr().out
        assert main(["config"]) == 0
        assert "squares: batch 8 and lr 0.5 for SGD, SCCD" in capsys.readouterr().out
        assert learning_rates(RunConfig(dataset="squares"), 3) == (0.25, 0.5, 1.0)
        for make in (*PAPER.values(), *STUDIES.values()):
            assert make(Settings(quick=True, dataset="squares")).datasets() == ["squares"]
        with pytest.raises(DataError, match="cifar10, digits, fashion-mnist, mnist, squares are"):
            load("circles")
    finally:
        known.cache_clear()
        sys.modules.pop("cyclade.experiments.datasets.squares")


# ------------------------------------------------------------------------------- the official files

ABC = OfficialFile("abc", 3, "md5:900150983cd24fb0d6963f7d28e17f72")


def test_files_are_those_that_were_published(tmp_path: Path) -> None:
    plain = tmp_path / "abc"
    for content, message in (
        (b"ab", "abc is cut short: 2 bytes where the official abc has 3. Delete it and fetch it"),
        (b"abcd", "abc is too long"),
        (b"abd", "abc is damaged: its md5 is .* the official is 900150983cd24fb0d6963f7d28e17f72"),
    ):
        plain.write_bytes(content)
        with pytest.raises(DataError, match=message):
            ABC.read(plain)
    path, whole = tmp_path / "abc.gz", gzip.compress(b"abc")
    path.write_bytes(whole)
    assert ABC.read(path) == b"abc"
    published = OfficialFile("abc.gz", len(whole), f"md5:{hashlib.md5(whole).hexdigest()}")
    assert published.read(path) == b"abc"
    for damaged in (whole[:-9], whole[:12], b"not gzip"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=re.escape(str(path)) + " is damaged"):
            ABC.read(path)
    path.write_bytes(gzip.compress(bytes(10**8)))  # never unpacked as a whole
    with pytest.raises(DataError, match=r"is too long: 4 bytes"):
        ABC.read(path)
    with pytest.raises(DataError, match="cannot be read"):
        ABC.read(tmp_path)
