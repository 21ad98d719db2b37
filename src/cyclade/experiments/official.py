"""Data sets as published: which files, where they come from, where they are looked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cyclade.experiments.errors import DataError
from cyclade.experiments.formats import OfficialFile, read, unpacked


@dataclass(frozen=True)
class Download:
    """One file to fetch: its addresses, tried in turn, and its checksum as pooch writes it."""

    name: str
    urls: tuple[str, ...]
    known_hash: str

    @property
    def archive(self) -> bool:
        """Whether the files are packed in it."""
        return self.name.endswith((".tar", ".tar.gz", ".tgz"))


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

    def contents(self, name: str, root: Path) -> dict[str, tuple[bytes, Path]]:
        """The checked content of every file, and where it was. `name` is for the error."""
        places = self.locate(root)
        missing = [file for file, place in places.items() if place is None]
        if missing:
            raise DataError(
                f"{name}: {', '.join(missing)} not found below {root}. Fetch the data with "
                f"`cyclade data {name} --data-dir {root}`, or put the official files into "
                f"{root / self.folder}"
            )
        contents = {}
        for file in self.files:
            place = places[file.name]
            assert place is not None
            content = read(place)
            if not file.name.endswith(".gz"):  # the checksum is of what is in it
                content = unpacked(content, place)
            file.check(place, content)
            contents[file.name] = (unpacked(content, Path(file.name)), place)
        return contents


def data_folder(data_dir: str | Path | None) -> Path:
    """The folder given; else ``$CYCLADE_DATA``; else ``cyclade`` in the user's cache."""
    if data_dir is not None:
        return Path(data_dir)
    if os.environ.get("CYCLADE_DATA"):
        return Path(os.environ["CYCLADE_DATA"])
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "cyclade"
