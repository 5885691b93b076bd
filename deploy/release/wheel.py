"""The wheel: the Python client, and with it the portable programs and the default model."""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile

import common

# glibc 2.34: deploy/portable/check.sh sees to it.
TAG = "py3-none-manylinux_2_34_x86_64"
ENTRY_POINTS = """\
[console_scripts]
beamwright = beamwright.__main__:main
beamwright-graph = beamwright.__main__:graph
beamwright-server = beamwright.__main__:server
"""


def pure_wheel(work, source="client/python"):
    """What setuptools makes of a copy of the sources, unpacked."""
    sources, built, folder = work / "python", work / "pure", work / "wheel"
    for old in (sources, built, folder):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(common.ROOT / source, sources, ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", built, sources],
        check=True, env={**os.environ, "SOURCE_DATE_EPOCH": str(common.epoch())})
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder


def record(folder, path):
    """The line of RECORD for a file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
    return f"{path.relative_to(folder)},sha256={digest},{path.stat().st_size}\n"


def write_record(folder, info):
    """RECORD, which comes last in the wheel; returns it."""
    listed = info / "RECORD"
    lines = [record(folder, path) for path in common.files_of(folder) if path != listed]
    listed.write_text("".join(lines) + f"{listed.relative_to(folder)},,\n")
    return listed


def make(staged, work, out):
    folder = pure_wheel(work)
    package, info = folder / "beamwright", next(folder.glob("*.dist-info"))
    shutil.copytree(staged / "bin", package / "_programs/bin", dirs_exist_ok=True)
    shutil.copytree(staged / "lib/beamwright", package / "_programs/lib", dirs_exist_ok=True)
    shutil.copytree(staged / "share/beamwright/models", package / "_programs/models")
    shutil.copytree(staged / "share/doc/beamwright/licences", info / "licenses/bundled")
    shutil.copyfile(staged / "share/doc/beamwright/LICENSE", info / "licenses/LICENSE")
    (info / "sboms").mkdir()
    shutil.copyfile(staged / "share/doc/beamwright/sbom.spdx.json", info / "sboms/beamwright.spdx.json")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: beamwright-release\nRoot-Is-Purelib: false\nTag: {TAG}\n")
    common.write_zip(folder, out / f"beamwright-{common.VERSION}-{TAG}.whl", write_record(folder, info))
