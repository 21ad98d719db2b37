"""Which files make up each data set, where they come from, and where they are looked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cyclade.experiments.formats import OfficialFile


@dataclass(frozen=True)
class Download:
    """One file to fetch: its addresses, tried in turn, and its checksum as pooch writes it."""

    name: str
    urls: tuple[str, ...]
    known_hash: str


@dataclass(frozen=True)
class Official:
    """A data set as published."""

    folder: str  # where the files lie below the data folder
    also: tuple[str, ...]  # other places that people and tools use
    files: tuple[OfficialFile, ...]
    downloads: tuple[Download, ...]


def _cifar_file(name: str, sha1: str) -> OfficialFile:
    return OfficialFile(f"{name}.bin", 30_730_000, "sha1", sha1)


def _mnist_download(name: str, md5: str) -> Download:
    hosts = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    )
    return Download(f"{name}.gz", tuple(f"{host}{name}.gz" for host in hosts), f"md5:{md5}")


OFFICIAL = {
    "cifar10": Official(
        folder="cifar-10-batches-bin",
        also=("", "cifar10"),
        files=(
            _cifar_file("data_batch_1", "aadd24acce27caa71bf4b10992e9e7b2d74c2540"),
            _cifar_file("data_batch_2", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"),
            _cifar_file("data_batch_3", "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"),
            _cifar_file("data_batch_4", "aab85764eb3584312d3c7f65fd2fd016e36a258e"),
            _cifar_file("data_batch_5", "26e2849e66a845b7f1e4614ae70f4889ae604628"),
            _cifar_file("test_batch", "67eb016db431130d61cd03c7ad570b013799c88c"),
        ),
        downloads=(
            Download(
                "cifar-10-binary.tar.gz",
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                "md5:c32a1d4ab5d03f1284b67883e8d87530",
            ),
        ),
    ),
    "mnist": Official(
        folder="MNIST/raw",
        also=("", "mnist", "MNIST"),
        files=(
            OfficialFile(
                "train-images-idx3-ubyte", 47_040_016, "sha256",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            OfficialFile(
                "train-labels-idx1-ubyte", 60_008, "sha256",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
            OfficialFile(
                "t10k-images-idx3-ubyte", 7_840_016, "sha256",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            OfficialFile(
                "t10k-labels-idx1-ubyte", 10_008, "sha256",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        ),
        downloads=(
            _mnist_download("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            _mnist_download("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432"),
            _mnist_download("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3"),
            _mnist_download("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c"),
        ),
    ),
}  # fmt: skip


def data_folder(data_dir: str | Path | None) -> Path:
    """The folder given; else ``$CYCLADE_DATA``; else ``cyclade`` in the user's cache."""
    if data_dir is not None:
        return Path(data_dir)
    if os.environ.get("CYCLADE_DATA"):
        return Path(os.environ["CYCLADE_DATA"])
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "cyclade"


def locate(name: str, root: Path) -> dict[str, Path | None]:
    """Where each file of the data set lies below `root`; None for one that is not there."""
    official = OFFICIAL[name]
    found: dict[str, Path | None] = {}
    for file in official.files:
        places = [root / folder / file.name for folder in (official.folder, *official.also)]
        if name == "mnist":
            places += [place.with_name(place.name + ".gz") for place in places]
        found[file.name] = next((place for place in places if place.is_file()), None)
    return found
