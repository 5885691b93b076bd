"""TLS, client certificates and tokens against the real server."""

import asyncio
import hashlib
import subprocess

import pytest
from conftest import MODEL

import beamwright


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A server that asks for certificates and tokens, and the folder of its files."""
    folder = tmp_path_factory.mktemp("secured")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(folder, "req", "-x509", *curve, "-days", "2", "-subj", "/CN=test-ca", "-keyout", "ca.key", "-out", "ca.crt")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for name in ("server", "client"):
        openssl(folder, "req", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "2", "-out", f"{name}.crt", "-extfile", "names")  # fmt: skip
    (folder / "token").write_text("sesame\n")
    digest = hashlib.sha256(b"sesame").hexdigest()
    (folder / "tokens").write_text(f'tokens {{ name: "me" sha256: "{digest}" roles: ROLE_DECODE }}\n')
    with beamwright.serve(
        MODEL,
        warm_up=False,
        tls_cert=folder / "server.crt",
        tls_key=folder / "server.key",
        tls_client_ca=folder / "ca.crt",
        auth_token_file=folder / "tokens",
    ) as server:
        yield server, folder


@pytest.fixture
def files(secured):
    folder = secured[1]
    return {
        "tls_ca": folder / "ca.crt",
        "tls_cert": folder / "client.crt",
        "tls_key": folder / "client.key",
        "token_file": folder / "token",
    }


def test_with_all_of_it(secured, files):
    with secured[0].client(**files) as client:
        assert client.decode("cat").text == "K AE1 T"
    contents = {name: files[name].read_bytes() for name in ("tls_ca", "tls_cert", "tls_key")}
    with secured[0].client(**contents, token="sesame") as client:
        assert client.decode("cat").text == "K AE1 T"

    async def main():
        async with secured[0].async_client(**files) as aio:
            return (await aio.decode("cat")).text

    assert asyncio.run(main()) == "K AE1 T"


def test_the_environment(secured, files, monkeypatch):
    monkeypatch.setenv("BEAMWRIGHT_SERVER", secured[0].address)
    for name, path in files.items():
        monkeypatch.setenv(f"BEAMWRIGHT_{name.upper()}", str(path))
    with beamwright.Client() as client:
        assert client.decode("cat").text == "K AE1 T"


def test_wrong_tokens(secured, files):
    del files["token_file"]
    with secured[0].client(**files, token="simsalabim") as client:
        with pytest.raises(beamwright.UnauthenticatedError) as caught:
            client.decode("cat")
        assert caught.value.reason == "BAD_CREDENTIALS"
        assert "simsalabim" not in str(caught.value)


def test_without_certificate_or_trust(secured, files):
    for arguments in ({"tls_ca": files["tls_ca"]}, {"tls": True}, {}):
        with secured[0].client(**arguments, timeout=60, max_attempts=1) as client:
            with pytest.raises(beamwright.UnavailableError, match="TLS"):
                client.decode("cat")


def test_another_name_than_the_certificates(secured, files):
    with secured[0].client(**files, tls_server_name="elsewhere", max_attempts=1) as client:
        with pytest.raises(beamwright.UnavailableError):
            client.decode("cat")
    with secured[0].client(**files, tls_server_name="localhost") as client:
        assert client.decode("cat").text
