"""The Debian package: the programs as the ordinary build links them, with Debian's libraries, and a service."""

import email.utils
import gzip
import os
import re
import shutil
import subprocess

import common
import manual

CONTROL = """\
Package: beamwright
Version: {version}
Architecture: amd64
Maintainer: The maintainers of Beamwright <maintainers@beamwright.example>
Installed-Size: {size}
Depends: {depends}
Suggests: libcld2-0
Section: net
Priority: optional
Description: beam-search decoding of recurrent sequence models
 A server for grapheme-to-phoneme, transliteration, handwriting and
 translation models with recurrent decoders, over gRPC and HTTP, its command
 line, and an English model. The service `beamwright` answers on this machine
 alone until /etc/beamwright/server.conf says otherwise.
"""
CHANGELOG = """\
beamwright ({version}) unstable; urgency=medium

  * What changed: /usr/share/doc/beamwright/CHANGELOG.md.

 -- The maintainers of Beamwright <maintainers@beamwright.example>  {date}
"""


def programs(root):
    return [root / "usr/bin" / name for name in common.PROGRAMS] + [root / "usr/lib/beamwright" / common.MODULE]


def dependencies(root, work):
    """What the programs ask for, as dpkg-shlibdeps finds it."""
    (work / "debian").mkdir(parents=True, exist_ok=True)
    (work / "debian/control").write_text("Source: beamwright\n\nPackage: beamwright\nArchitecture: amd64\n")
    found = subprocess.run(["dpkg-shlibdeps", "-O", *programs(root)], cwd=work, check=True, text=True, capture_output=True).stdout
    return re.search(r"^shlibs:Depends=(.*)$", found, re.MULTILINE)[1]


def put(source, target, mode=0o644):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def make(work, out):
    root, sources = work / "deb", common.ROOT / "deploy"
    shutil.rmtree(root, ignore_errors=True)
    common.install(common.DYNAMIC, root / "usr")
    common.check_hardening(*programs(root))
    put(sources / "systemd/beamwright.service", root / "lib/systemd/system/beamwright.service")
    put(sources / "systemd/server.conf", root / "etc/beamwright/server.conf")
    put(sources / "debian/copyright", root / "usr/share/doc/beamwright/copyright")
    (root / "usr/share/doc/beamwright/LICENSE").unlink()
    changelog = CHANGELOG.format(version=common.VERSION, date=email.utils.formatdate(common.epoch()))
    (root / "usr/share/doc/beamwright/changelog.gz").write_bytes(gzip.compress(changelog.encode(), 9, mtime=0))
    manual.write(root / "usr/bin", root / "usr/share/man")
    (root / "var/lib/beamwright/models").mkdir(parents=True)
    size = sum(path.stat().st_size for path in common.files_of(root)) // 1024
    depends = f"{dependencies(root, work / 'shlibs')}, libsndfile1, adduser"  # the second is loaded, not linked
    control = CONTROL.format(version=common.VERSION, size=size, depends=depends)
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(control)
    (root / "DEBIAN/conffiles").write_text("/etc/beamwright/server.conf\n")
    for script in ("postinst", "prerm", "postrm"):
        put(sources / "debian" / script, root / "DEBIAN" / script, 0o755)
    for path in [root, *root.rglob("*")]:
        if path.is_dir() or path.parent.name != "DEBIAN":
            path.chmod(0o755 if path.is_dir() else common.mode_of(path))
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, out / f"beamwright_{common.VERSION}_amd64.deb"],
        check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(common.epoch())})
