"""Data sets as published: which files, where they come from, where they are looked for."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from cyclade.experiments.errors import DataError


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
            raise _damaged(
                path,
                f"{what}: {len(content):,} bytes where the official {self.name} has {self.size:,}",
            )
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
class Download:
    """One file to fetch: its addresses, tried in turn, and its hash."""

    name: str
    urls: tuple[str, ...]
    hash: str


@dataclass(frozen=True)
class Official:
    """The files of a data set."""

    folder: str  # where the files lie below the data folder
    also: tuple[str, ...]  # other places that people and tools use
    files: tuple[OfficialFile, ...]
    downloads: tuple[Download, ...]

    def locate(self, root: Path) -> dict[str, Path | None]:
        """Where each file lies below `root`, as it is or compressed; None if it is not there."""
        found: dict[str, Path | None] = {}
        for file in self.files:
            places = [root / folder / file.name for folder in (self.folder, *self.also)]
            places += [place.with_name(place.name + ".gz") for place in places]
            found[file.name] = next((place for place in places if place.is_file()), None)
        return found

    def places(self, name: str, root: Path) -> list[Path]:
        """Where the files lie; an error if one is missing. `name` is for the error."""
        places = self.locate(root)
        missing = [file for file, place in places.items() if place is None]
        if missing:
            raise DataError(
                f"{name}: {', '.join(missing)} not found below {root}. Fetch the data with "
                f"`cyclade data {name} --data-dir {root}`, or put the official files into "
                f"{root / self.folder}"
            )
        return [place for place in places.values() if place is not None]

    def contents(self, name: str, root: Path) -> dict[str, bytes]:
        """The checked content of every file."""
        places = self.places(name, root)
        return {f.name: f.read(place) for f, place in zip(self.files, places, strict=True)}


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
