#!/usr/bin/env python3
"""Data of tests that is one archive in the repository, tests/NAME.tar.gz, and many files where tests read them. The build
unpacks every archive into build/test-data/NAME (tests/CMakeLists.txt); scripts call unpacked(NAME).

Usage: archives.py unpack|pack FOLDER...   (FOLDER.tar.gz becomes FOLDER, to look at and change; and the way back)
"""

import atexit
import functools
import gzip
import pathlib
import shutil
import sys
import tarfile
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]


def extract(archive, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as files:
        files.extractall(folder)


def archive_of(folder):
    return folder.with_name(folder.name + ".tar.gz")


def unpack(folder):
    """FOLDER.tar.gz stays until the folder is packed."""
    extract(archive_of(folder), folder)


def pack(folder):
    """The folder becomes FOLDER.tar.gz. The same files give the same bytes."""
    with archive_of(folder).open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                member = tarfile.TarInfo(path.relative_to(folder).as_posix())
                member.size = path.stat().st_size
                with path.open("rb") as content:
                    archive.addfile(member, content)
    shutil.rmtree(folder)


@functools.cache
def unpacked(name):
    """The files of tests/NAME.tar.gz, or of every archive of the folder tests/NAME, while this process runs."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="beamwright-test-data-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if (TESTS / name).is_dir():
        for archive in (TESTS / name).glob("*.tar.gz"):
            extract(archive, folder / archive.name.removesuffix(".tar.gz"))
    else:
        extract(archive_of(TESTS / name), folder)
    return folder


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("pack", "unpack"):
        sys.exit(__doc__)
    for argument in sys.argv[2:]:
        {"pack": pack, "unpack": unpack}[sys.argv[1]](pathlib.Path(argument))
