"""Checking the official files, and fetching them. This needs no torch."""

from __future__ import annotations

import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any

from cyclade.experiments.datasets import find
from cyclade.experiments.errors import DataError, FolderError
from cyclade.experiments.official import Download, Official, check_hash, data_folder
from cyclade.files.reading import read
from cyclade.files.writing import write

LARGEST = 2**32  # bytes of a download


def verify(name: str, data_dir: str | Path | None = None) -> Path | None:
    """Read and check every file; returns the folder they are in, None for an embedded set."""
    official = find(name).official
    if official is None:
        return None
    root = data_folder(data_dir)
    official.contents(name, root)
    return official.places(name, root)[0].parent


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
    for download in official.downloads:
        if download.name.endswith(".tar.gz"):
            archive = root / download.name
            given = archive.exists()
            _retrieve(download, root, progress)
            _unpack(archive, official, root / official.folder)
            if not given:
                archive.unlink()
        elif not any(there.get(key) for key in (download.name, download.name.removesuffix(".gz"))):
            _retrieve(download, root / official.folder, progress)
    return verify(name, root)


def _read(path: Path) -> bytes:
    try:
        return read(path, LARGEST)
    except FolderError as error:
        raise DataError(str(error)) from error


def _retrieve(download: Download, folder: Path, progress: bool) -> None:
    """One download, from the first address that gives the right file."""
    path = folder / download.name
    if path.exists():  # the user's own
        check_hash(path, download.hash, _read(path))
        return
    try:
        pooch: Any = import_module("pooch")
    except ImportError as error:
        raise DataError(
            f"fetching needs pooch: pip install pooch. Or put the file of {download.urls[0]} "
            f"({download.hash}) into {folder}"
        ) from error
    pooch.get_logger().setLevel("ERROR")
    reasons = []
    for url in download.urls:
        bar = _Progress() if progress else False
        try:
            pooch.retrieve(url, download.hash, download.name, folder, progressbar=bar)
            return
        except Exception as error:  # pooch passes on whatever its downloaders raise
            reasons.append(f"{url}: {str(error).splitlines()[0] if str(error) else repr(error)}")
    raise DataError(
        f"{download.name} could not be fetched ({'; '.join(reasons)}). Fetch it by other means "
        f"({download.hash}) and put it, unpacked if it is a tar file, into {folder}"
    )


def _unpack(archive: Path, official: Official, target: Path) -> None:
    """The files of the data set, and nothing else, out of a tar archive."""
    try:
        with tarfile.open(archive) as tar:
            for file in official.files:
                stream = tar.extractfile(f"{official.folder}/{file.name}")
                if stream is not None:
                    write(target / file.name, stream.read(file.size + 1))
    except FolderError as error:
        raise DataError(str(error)) from error
    except (KeyError, tarfile.TarError, EOFError, OSError) as error:
        raise DataError(
            f"{archive} cannot be unpacked: {error}. Delete it and try again"
        ) from error


class _Progress:
    """A progress bar as pooch takes one, drawn by rich."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

        self.total = 0  # pooch sets it
        self._bar = Progress(BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._task = self._bar.add_task("", total=None)
        self._bar.start()

    def update(self, amount: int) -> None:
        """So many bytes more."""
        self._bar.update(self._task, total=self.total, advance=amount)

    def reset(self) -> None:
        """From the beginning."""
        self._bar.reset(self._task)

    def close(self) -> None:
        """The end."""
        self._bar.stop()
