"""The folder that tarball, wheel and image are made of."""

import shutil

import bundled
import common
import manual
import sbom


def stage(work):
    """Portable programs, manual pages, model, licences, bill of materials and service files: work/beamwright-VERSION-...; returns it."""
    folder = work / f"beamwright-{common.VERSION}-linux-x86_64"
    common.install(common.PORTABLE, folder)
    programs = [folder / "bin" / name for name in common.PROGRAMS] + [folder / "lib/beamwright" / common.MODULE]
    common.output(common.ROOT / "deploy/portable/check.sh", *programs)
    manual.write(folder / "bin", folder / "share/man")
    documents = folder / "share/doc/beamwright"
    bundled.write_licences(documents / "licences")
    (documents / "bundled.txt").write_text(bundled.table())
    sbom.write(documents / "sbom.spdx.json", programs)
    (folder / "share/beamwright/systemd").mkdir()
    for name in ("beamwright.service", "server.conf"):
        shutil.copyfile(common.ROOT / "deploy/systemd" / name, folder / "share/beamwright/systemd" / name)
    return folder


def make_tarball(staged, out):
    common.write_tar(staged, out / f"{staged.name}.tar.gz")
    shutil.copyfile(staged / "share/doc/beamwright/sbom.spdx.json", out / f"{staged.name}.spdx.json")
