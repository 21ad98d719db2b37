"""Data sets as published: which files, where they lie, checking them, and fetching them.

This needs no torch.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cyclade.experiments.datasets import find
from cyclade.experiments.errors import DataError
from cyclade.files.disk import read, write

LARGEST = 2**32  # bytes of a download


@dataclass(frozen=True)
class OfficialFile:
    """A file as published: its name, its size in bytes, and its hash (``"md5:…"``).

    If the name ends in ``.gz``, they are those of the compressed file.
    """

    name: str
    size: int
    hash: str

    def read(self, path: Path) -> bytes:
        """The content, decompressed; an error unless `path`, or what it packs, is this file."""
        packed = self.name.endswith(".gz")
        reader = gzip.open if path.suffix == ".gz" and not packed else open
        try:
            with reader(path, "rb") as stream:
                content: bytes = stream.read(self.size + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _damaged(path, f"is damaged ({error})") from error
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
        if len(content) != self.size:
            what = "is cut short" if len(content) < self.size else "is too long"
            what += f": {len(content):,} bytes where the official {self.name} has {self.size:,}"
            raise _damaged(path, what)
        check_hash(path, self.hash, content)
        return gzip.decompress(content) if packed else content


def check_hash(path: Path, wanted: str, content: bytes) -> None:
    """Refuse content that differs from what was published."""
    algorithm, _, official = wanted.partition(":")
    found = hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
    if found != official:
        raise _damaged(path, f"is damaged: its {algorithm} is {found}, the official is {official}")


def _damaged(path: Path, what: str) -> DataError:
    return DataError(f"{path} {what}. Delete it and fetch it again (`cyclade data`)")


@dataclass(frozen=True)
class Official:
    """The files of a data set, and what to fetch for them: names and hashes, from some hosts."""

    folder: str  # where the files lie below the data folder
    also: tuple[str, ...]  # other places that people and tools use
    files: tuple[OfficialFile, ...]
    hosts: tuple[str, ...]  # which all have everything; tried in turn
    downloads: Mapping[str, str]

    def locate(self, root: Path) -> dict[str, Path | None]:
        """Where each file lies below `root`, as it is or compressed; None if it is not there."""
        found: dict[str, Path | None] = {}
        for file in self.files:
            places = [root / folder / file.name for folder in (self.folder, *self.also)]
            places += [place.with_name(place.name + ".gz") for place in places]
            found[file.name] = next((place for place in places if place.is_file()), None)
        return found

    def contents(self, name: str, root: Path) -> dict[str, bytes]:
        """The checked content of every file; `name` is for the error if one is missing."""
        places = self.locate(root)
        missing = [file for file, place in places.items() if place is None]
        if missing:
            raise DataError(
                f"{name}: {', '.join(missing)} not found below {root}. Fetch the data with "
                f"`cyclade data {name} --data-dir {root}`, or put the official files into "
                f"{root / self.folder}"
            )
        return {file.name: file.read(places[file.name] or root) for file in self.files}


def data_folder(data_dir: str | Path | None) -> Path:
    """The folder given; else ``$CYCLADE_DATA``; else ``cyclade`` in the cache of the system."""
    if data_dir is not None:
        return Path(data_dir)
    if os.environ.get("CYCLADE_DATA"):
        return Path(os.environ["CYCLADE_DATA"])
    try:
        return Path(import_module("pooch").os_cache("cyclade"))
    except ImportError as error:
        raise DataError(
            "without pooch there is no default folder for data: pip install pooch, or give "
            "--data-dir or $CYCLADE_DATA"
        ) from error


# --------------------------------------------------------------------------- checking, fetching


def verify(name: str, data_dir: str | Path | None = None) -> Path | None:
    """Read and check every file; returns the folder they are in, None for an embedded set."""
    official = find(name).official
    if official is None:
        return None
    root = data_folder(data_dir)
    official.contents(name, root)
    return next(place.parent for place in official.locate(root).values() if place)


def fetch(name: str, data_dir: str | Path | None = None, *, progress: bool = False) -> Path | None:
    """Make sure the data set is there, whole; download what is missing from the official source.

    Returns the folder of the files; None for digits, which comes with scikit-learn. A file that is
    there but damaged is an error that names it: nothing of the user's is overwritten. With
    `progress` every download is named as it begins.
    """
    official = find(name).official
    if official is None:
        return None
    root = data_folder(data_dir)
    there = official.locate(root)
    for file in () if all(there.values()) else official.downloads:
        if file.endswith(".tar.gz"):
            archive = root / file
            given = archive.exists()
            _retrieve(official, file, root, progress)
            _unpack(archive, official, root / official.folder)
            if not given:
                archive.unlink()
        elif not any(there.get(key) for key in (file, file.removesuffix(".gz"))):
            _retrieve(official, file, root / official.folder, progress)
    return verify(name, root)


def _retrieve(official: Official, name: str, folder: Path, progress: bool) -> None:
    """One download, from the first host that gives the right file."""
    path, known = folder / name, official.downloads[name]
    if path.exists():  # the user's own
        check_hash(path, known, read(path, LARGEST))
        return
    try:
        pooch: Any = import_module("pooch")
    except ImportError as error:
        where = official.hosts[0] + name
        raise DataError(
            f"fetching needs pooch: pip install pooch. Or put the file of {where} ({known}) into "
            f"{folder}"
        ) from error
    pooch.get_logger().setLevel("INFO" if progress else "ERROR")
    reasons = []
    for host in official.hosts:
        try:
            pooch.retrieve(host + name, known, name, folder)
            return
        except Exception as error:  # pooch passes on whatever its downloaders raise
            said = str(error).splitlines()[0] if str(error) else repr(error)
            reasons.append(f"{host}{name}: {said}")
    raise DataError(
        f"{name} could not be fetched ({'; '.join(reasons)}). Fetch it by other means "
        f"({known}) and put it, unpacked if it is a tar file, into {folder}"
    )


def _unpack(archive: Path, official: Official, target: Path) -> None:
    """The files of the data set, and nothing else, out of a tar archive."""
    try:
        with tarfile.open(archive) as tar:
            for file in official.files:
                stream = tar.extractfile(f"{official.folder}/{file.name}")
                if stream is not None:
                    write(target / file.name, stream.read(file.size + 1))
    except (KeyError, tarfile.TarError, EOFError, OSError) as error:
        raise DataError(
            f"{archive} cannot be unpacked: {error}. Delete it and try again"
        ) from error
