"""What all parts of a release share: where things are, the version, and archives that are the same every time."""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PORTABLE = ROOT / "build-portable"
DYNAMIC = ROOT / "build-package"
LIBRARIES = ROOT / "build" / "portable-libraries"
VERSION = re.search(r"^project\(beamwright VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
PROGRAMS = ("beamwright-server", "beamwright", "beamwright-graph")
BOTH = "beamwright-both"  # the first two as one, for the image
MODULE = "libbeamwright_sentencepiece.so"
LIBRARY = "libbeamwright.so.1"


def output(*command):
    return subprocess.run([str(part) for part in command], check=True, text=True, stdout=subprocess.PIPE).stdout


def git(*arguments):
    # The folder may belong to another user than root, who makes images.
    return output("git", "-c", f"safe.directory={ROOT}", "-C", ROOT, *arguments).strip()


def commit():
    return git("rev-parse", "HEAD")


def epoch():
    """The time that files of a release bear: that of the commit, or what SOURCE_DATE_EPOCH says."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct"))


def install(build, prefix, component="programs"):
    """A component of a build, without symbols."""
    shutil.rmtree(prefix, ignore_errors=True)
    output("cmake", "--install", build, "--prefix", prefix, "--component", component, "--strip")


def check_hardening(*files):
    output(ROOT / "deploy/release/check_hardening.sh", ROOT, *files)


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def mode_of(path):
    return 0o755 if os.access(path, os.X_OK) else 0o644


def write_source_tar(out):
    """The files of the commit, as git writes them: beamwright-VERSION-source.tar.gz."""
    files = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "archive", f"--prefix=beamwright-{VERSION}/", "HEAD"],
                           check=True, stdout=subprocess.PIPE).stdout
    (out / f"beamwright-{VERSION}-source.tar.gz").write_bytes(gzip.compress(files, 9, mtime=0))


def write_tar(folder, archive):
    """folder as archive (.tar.gz), owned by root, with the commit's time."""
    with archive.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=epoch()) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in [folder, *sorted(folder.rglob("*"))]:
                entry = tar.gettarinfo(path, str(path.relative_to(folder.parent)))
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = "root"
                entry.mtime = epoch()
                entry.mode = 0o755 if entry.isdir() else mode_of(path)
                with path.open("rb") if entry.isreg() else open(os.devnull, "rb") as content:
                    tar.addfile(entry, content if entry.isreg() else None)


def write_zip(folder, archive, last):
    """The same as zip; `last` is the file that comes last."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(files_of(folder), key=lambda path: (path == last, path)):
            entry = zipfile.ZipInfo(str(path.relative_to(folder)), time.gmtime(epoch())[:6])
            entry.external_attr = (0o100000 | mode_of(path)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, path.read_bytes())
