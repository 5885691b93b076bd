"""The package as it is shipped: generated files, types, style, sdist and wheel."""

import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest
from conftest import ROOT, run_python

import beamwright

FOLDER = ROOT / "client" / "python"


def run(*command, cwd=FOLDER):
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_generated_files_are_those_of_the_protos():
    run("generate.py", "--check")


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


def test_types(mypy_cache):
    run("-m", "mypy", "--cache-dir", mypy_cache)


def test_style():
    run("-m", "ruff", "check", "--no-cache", ".")
    run("-m", "ruff", "format", "--no-cache", "--check", ".")


USE = '''
import beamwright

def use(client: beamwright.Client, server: beamwright.Server) -> None:
    answer = client.decode("cat", beam_size=5, length_penalty="pow", hotwords={"A": 2})
    reveal_type(answer.best.attention)
    for one in client.decode_many(["cat"], on_error="return"):
        reveal_type(one)
    for each in client.decode_many([[1, 2]]):
        reveal_type(each)
    options: beamwright.DecodeOptions = {"beam_size": 3}
    client.stream("cat", **options)
    client.decode("cat", beam_size="five")
    client.decode("cat", length_penalty="power")
    client.decode("cat", beamsize=5)
    client.score("cat", "K", beam_size=5)
'''


def test_type_checkers_know_the_options(mypy_cache, tmp_path):
    (tmp_path / "use.py").write_text(USE)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.10", "--cache-dir", mypy_cache, tmp_path / "use.py"],
        env={**os.environ, "MYPYPATH": str(FOLDER / "src")},
        capture_output=True,
        text=True,
    )
    lines = [re.sub(r"^.*?use\.py:", "", line) for line in done.stdout.splitlines()]
    notes = [line for line in lines if "Revealed" in line]
    assert "ndarray" in notes[0]
    assert "floating" in notes[0]
    assert "Decoded" in notes[1]
    assert "BeamwrightError" in notes[1]
    assert "BeamwrightError" not in notes[2]
    errors = [line.split(":")[0] for line in lines if " error: " in line]
    assert errors == ["13", "14", "15", "16"], done.stdout


def test_the_version_is_that_of_the_repository():
    cmake = (ROOT / "CMakeLists.txt").read_text()
    assert f"project(beamwright VERSION {beamwright.__version__} " in cmake


def test_everything_public_is_there_and_imports_cost_little():
    for name in beamwright.__all__:
        assert getattr(beamwright, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = beamwright.nothing
    heavy = run_python("import sys, beamwright; print(sorted({'grpc', 'numpy', 'google.protobuf'} & set(sys.modules)))")
    assert heavy == "[]\n"
    heavy = run_python("import sys, beamwright; beamwright.Client('x'); print('numpy' in sys.modules)")
    assert heavy == "False\n"


def test_beside_others_that_register_the_same_protos():
    """google/rpc/status.proto and the health protocol are in many packages, not always alike."""
    code = """
from google.protobuf import descriptor_pb2, descriptor_pool
for name in ("google/rpc/status.proto", "grpc/health/v1/health.proto", "beamwright/v1/decode.proto"):
    other = descriptor_pb2.FileDescriptorProto(name=name, package="another")
    descriptor_pool.Default().AddSerializedFile(other.SerializeToString())
import beamwright._wire
print(beamwright._wire.Status(code=3).code)
"""
    assert run_python(code) == "3\n"


@pytest.mark.parametrize("implementation", ["python"])
def test_other_implementations_of_protobuf(server, implementation):
    code = "import sys, beamwright; print(beamwright.Client(sys.argv[1]).decode('cat', attention='soft').text)"
    out = run_python(code, server.address, PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=implementation)
    assert out == "K AE1 T\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An sdist, and the wheel that is built of it."""
    folder = tmp_path_factory.mktemp("dist")
    source = folder / "source"
    source.mkdir()
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."],
        cwd=FOLDER, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    files = files or [str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()]
    for name in files:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((FOLDER / name).read_bytes())
    run("-m", "build", "--no-isolation", "--outdir", folder, source, cwd=folder)
    return folder


def test_the_wheel_works_without_the_repository(built, server, tmp_path):
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"beamwright-{beamwright.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path)
    for name in ("py.typed", "_descriptors.binpb", "_options.py", "_programs/__init__.py"):
        assert f"beamwright/{name}" in names
    metadata = next(tmp_path.glob("*.dist-info/METADATA")).read_text()
    for line in ("Requires-Python: >=3.10", "Requires-Dist: grpcio>=", "Requires-Dist: protobuf"):
        assert line in metadata
    code = "import sys, beamwright; print(beamwright.__file__, beamwright.Client(sys.argv[1]).decode('cat').text)"
    out = run_python(code, server.address, PYTHONPATH=str(tmp_path))
    assert out == f"{tmp_path}/beamwright/__init__.py K AE1 T\n"


def test_the_sdist_has_what_the_wheel_needs(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {pathlib.PurePath(*pathlib.PurePath(name).parts[1:]).as_posix() for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "src/beamwright/_descriptors.binpb", "src/beamwright/py.typed"} <= names


def test_a_wheel_can_bring_programs(built, tmp_path):
    """Files in _programs/bin are packed and found."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data") if sys.version_info >= (3, 12) else archive.extractall(tmp_path)
    (folder,) = tmp_path.glob("beamwright-*")
    programs = folder / "src" / "beamwright" / "_programs" / "bin"
    programs.mkdir()
    (programs / "beamwright-server").write_text("#!/bin/sh\n")
    (programs / "beamwright-server").chmod(0o755)
    run("-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, folder, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.getinfo("beamwright/_programs/bin/beamwright-server")
        assert packed.external_attr >> 16 & 0o111, "it may not be executed"
