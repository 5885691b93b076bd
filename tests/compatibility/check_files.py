#!/usr/bin/env python3
"""Starts a server with the files of earlier releases: settings, a bundle, a policy of versions, tokens and tenants.

Usage: check_files.py BIN. The files are those of */ in the folder of this script; the bundle's graphs, which have not changed, come from
models/, and the MANIFEST.sha256 of that time is held against them. Every setting must have its old value, the golden
requests of the bundle their old answers, and a word is decoded with the token, over TLS, by the label.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "models/g2p-en/1"
SETTING = re.compile(r"^([a-z-]+) = (.*)$", re.MULTILINE)
# Of 0.1, and gone: files that do not use them are still read.
PORT_FILES = re.compile(r'^((?:http-|metrics-|admin-)?port-file) = ".*"$', re.MULTILINE)
GONE = {"channelz-address", "port-file", "http-port-file", "metrics-port-file", "admin-port-file"}


def lay_out(release, folder):
    """The files as the settings name them; the settings."""
    shutil.copytree(MODEL, folder / "links")
    shutil.copytree(release / "models", folder / "models")
    for file in MODEL.iterdir():
        if not (folder / "models/g2p-en/1" / file.name).exists():
            (folder / "models/g2p-en/1" / file.name).symlink_to(folder / "links" / file.name)
    for name in ("tokens.textproto", "tenants.textproto"):
        shutil.copy(release / name, folder)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "tls.key",
                    "-out", folder / "tls.crt"], check=True, capture_output=True)
    settings = folder / "server.conf"
    text = PORT_FILES.sub(r'\1 = ""', (release / "server.conf").read_text(encoding="utf-8"))
    settings.write_text(text.replace("FOLDER", str(folder)), encoding="utf-8")
    return settings


def check_values(server, settings):
    done = subprocess.run([server, "--config", settings, "--print-config"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    now = dict(SETTING.findall(done.stdout))
    for name, value in SETTING.findall(settings.read_text(encoding="utf-8")):
        assert name in GONE or now.get(name) == value, f"{name} was {value} and is {now.get(name)}"


def check_served(programs, settings, folder):
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([programs / "beamwright-server", "--config", settings, "--ports-file", folder / "ports"],
                                  stdout=log, stderr=log)
    try:
        until = time.monotonic() + 120
        while not (folder / "ports").exists():
            assert server.poll() is None and time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.05)
        (folder / "token").write_text("secret")
        address = f"localhost:{dict(map(str.split, (folder / 'ports').read_text().splitlines()))['grpc']}"
        command = [programs / "beamwright", "decode", "--server", address, "--model", "g2p-en", "--version", "stable",
                   "--tls-ca", folder / "tls.crt", "--tls-cert", folder / "tls.crt", "--tls-key", folder / "tls.key",
                   "--token-file", folder / "token", "recurrent"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert "R IY0 K ER1 AH0 N T" in done.stdout, f"{done.stdout}{done.stderr}{(folder / 'log').read_text()}"
        server.terminate()
        assert server.wait(60) == 0, (folder / "log").read_text()
    finally:
        server.kill()
        server.wait()


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    releases = sorted(path.parent for path in HERE.glob("*/server.conf"))
    assert releases, "there are no releases to compare with"
    for release in releases:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            settings = lay_out(release, folder)
            check_values(programs / "beamwright-server", settings)
            check_served(programs, settings, folder)
    print(f"served with the files of {[release.name for release in releases]}")


if __name__ == "__main__":
    main()
