"""Checking the official files, and fetching them. This needs no torch."""

from __future__ import annotations

import hashlib
import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any

from cyclade.experiments import storage
from cyclade.experiments.datasets import find
from cyclade.experiments.errors import DataError, FolderError
from cyclade.experiments.official import Download, Official, data_folder


def verify(name: str, data_dir: str | Path | None = None) -> Path | None:
    """Read and check every file; returns the folder they are in, None for an embedded set."""
    official = find(name).official
    if official is None:
        return None
    contents = official.contents(name, data_folder(data_dir))
    return next(iter(contents.values()))[1].parent


def fetch(name: str, data_dir: str | Path | None = None, *, progress: bool = False) -> Path | None:
    """Make sure the data set is there, whole; download what is missing from the official source.

    Returns the folder of the files; None for digits, which comes with scikit-learn. A file that is
    there but damaged is an error that names it: nothing of the user's is overwritten.
    """
    official = find(name).official
    if official is None:
        return None
    root = data_folder(data_dir)
    there = official.locate(root)
    if all(there.values()):
        return verify(name, root)
    target = root / official.folder
    for download in official.downloads:
        if download.archive:
            archive = root / download.name
            given = archive.exists()
            _retrieve(download, root, progress)
            _unpack(archive, official, target)
            if not given:
                archive.unlink()
        elif not any(there.get(key) for key in (download.name, download.name.removesuffix(".gz"))):
            _retrieve(download, target, progress)
    return verify(name, root)


def _retrieve(download: Download, folder: Path, progress: bool) -> None:
    """One download, from the first address that gives the right file."""
    if (folder / download.name).exists():
        _check(folder / download.name, download.known_hash)
        return
    try:
        pooch: Any = import_module("pooch")
    except ImportError as error:
        raise DataError(
            f"fetching needs pooch: pip install pooch. Or put the file of {download.urls[0]} "
            f"({download.known_hash}) into {folder}"
        ) from error
    pooch.get_logger().setLevel("ERROR")
    reasons = []
    for url in download.urls:
        try:
            pooch.retrieve(
                url,
                known_hash=download.known_hash,
                fname=download.name,
                path=folder,
                progressbar=_Progress() if progress else False,
            )
            return
        except Exception as error:  # pooch passes on whatever its downloaders raise
            reasons.append(f"{url}: {str(error).splitlines()[0] if str(error) else repr(error)}")
    raise DataError(
        f"{download.name} could not be fetched ({'; '.join(reasons)}). Fetch it by other means "
        f"({download.known_hash}) and put it, unpacked if it is a tar file, into {folder}"
    )


def _check(path: Path, known_hash: str) -> None:
    """A file that was there before must be the right one."""
    algorithm, _, wanted = known_hash.partition(":")
    with path.open("rb") as stream:
        digest = hashlib.new(algorithm, usedforsecurity=False)
        while piece := stream.read(1 << 20):
            digest.update(piece)
    found = digest.hexdigest()
    if found != wanted:
        raise DataError(
            f"{path} is damaged: its {algorithm} is {found}, the official one is {wanted}. "
            "Delete it and fetch it again (`cyclade data`)"
        )


def _unpack(archive: Path, official: Official, target: Path) -> None:
    """The files of the data set, and nothing else, out of a tar archive."""
    wanted = {file.name for file in official.files}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                base = Path(member.name).name
                stream = tar.extractfile(member) if member.isfile() and base in wanted else None
                if stream is not None:
                    storage.write(target / base, stream.read())
    except FolderError as error:
        raise DataError(str(error)) from error
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(
            f"{archive} cannot be unpacked: {error}. Delete it and try again"
        ) from error


class _Progress:
    """A progress bar as pooch takes one, drawn by rich."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

        self._bar = Progress(BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._task = self._bar.add_task("", total=None)
        self._bar.start()

    @property
    def total(self) -> int:
        """The bytes to come, as pooch sets it."""
        return int(self._bar.tasks[0].total or 0)

    @total.setter
    def total(self, value: int) -> None:
        self._bar.update(self._task, total=value)

    def update(self, amount: int) -> None:
        """So many bytes more."""
        self._bar.advance(self._task, amount)

    def reset(self) -> None:
        """From the beginning."""
        self._bar.reset(self._task, total=self.total)

    def close(self) -> None:
        """The end."""
        self._bar.stop()
