"""Fetching the official files, with their checksums."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from cyclade.experiments.data import check_name, verify
from cyclade.experiments.errors import DataError
from cyclade.experiments.official import OFFICIAL, Download, data_folder, locate


def fetch(name: str, data_dir: str | Path | None = None, *, progress: bool = False) -> Path | None:
    """Make sure the data set is there, whole; download what is missing from the official source.

    Returns the folder of the files; None for digits, which comes with scikit-learn. A file that is
    there but damaged is an error that names it: nothing of the user's is overwritten.
    """
    check_name(name)
    if name not in OFFICIAL:
        return None
    root = data_folder(data_dir)
    if all(locate(name, root).values()):
        return verify(name, root)
    target = root / OFFICIAL[name].folder
    for download in OFFICIAL[name].downloads:
        if name == "mnist" and locate(name, root)[download.name.removesuffix(".gz")] is not None:
            continue
        if name == "mnist":
            _retrieve(download, target, progress)
        else:
            archive = root / download.name
            given = archive.exists()
            _retrieve(download, root, progress)
            _unpack(archive, name, target)
            if not given:
                archive.unlink()
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


def _unpack(archive: Path, name: str, target: Path) -> None:
    """The files of the data set, and nothing else, out of a tar archive."""
    wanted = {file.name for file in OFFICIAL[name].files}
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as tar:
            for member in tar:
                base = Path(member.name).name
                stream = tar.extractfile(member) if member.isfile() and base in wanted else None
                if stream is not None:
                    _write(target / base, stream.read())
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(
            f"{archive} cannot be unpacked: {error}. Delete it and try again"
        ) from error


def _write(path: Path, content: bytes) -> None:
    """The whole file or none of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    Path(temporary).chmod(0o644)
    os.replace(temporary, path)


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
