"""The folders that tarball, wheel and image are made of."""

import shutil

import bundled
import common
import manual
import sbom


def document(folder, programs, maps):
    """Checks the programs, and adds licences and bill of materials of what is in them."""
    files = [folder / "bin" / name for name in programs] + [folder / "lib/beamwright" / common.MODULE]
    common.output(common.ROOT / "deploy/portable/check.sh", *files)
    common.check_hardening(*files)
    documents = folder / "share/doc/beamwright"
    bundled.write_licences(documents / "licences", maps)
    (documents / "bundled.txt").write_text(bundled.table(maps))
    sbom.write(documents / "sbom.spdx.json", files, maps)


def stage(work):
    """Portable programs, manual pages, model, licences, bill of materials and service files: work/beamwright-VERSION-...; returns it."""
    folder = work / f"beamwright-{common.VERSION}-linux-x86_64"
    common.install(common.PORTABLE, folder)
    manual.write(folder / "bin", folder / "share/man")
    document(folder, common.PROGRAMS, bundled.PROGRAMS)
    (folder / "share/beamwright/systemd").mkdir()
    for name in ("beamwright.service", "server.conf"):
        shutil.copyfile(common.ROOT / "deploy/systemd" / name, folder / "share/beamwright/systemd" / name)
    return folder


def stage_image(work):
    """For an image: server and command line as one program with two names, model, licences and bill of materials."""
    folder = work / "image"
    common.install(common.PORTABLE, folder)
    for name in common.PROGRAMS:
        (folder / "bin" / name).unlink()
    server, client, _ = common.PROGRAMS
    common.output("strip", "-o", folder / "bin" / server, common.PORTABLE / "bin" / common.BOTH)
    (folder / "bin" / client).symlink_to(server)
    for name in ("bash-completion", "fish", "zsh"):
        shutil.rmtree(folder / "share" / name)
    document(folder, (server,), bundled.IMAGE)


def make_tarball(staged, out):
    common.write_tar(staged, out / f"{staged.name}.tar.gz")
    shutil.copyfile(staged / "share/doc/beamwright/sbom.spdx.json", out / f"{staged.name}.spdx.json")
