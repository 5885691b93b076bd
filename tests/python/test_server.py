"""serve(): ready when it returns, gone when it should be, and errors that say what to do."""

import asyncio
import multiprocessing
import os
import pathlib
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from conftest import MODEL, run_python

import beamwright
from beamwright import ServerError, _programs

START = """
import os, sys, threading, beamwright
server = None
def start():
    global server
    server = beamwright.serve(sys.argv[1], warm_up=False)
"""


def gone(pid, seconds=120):
    """Whether a process ends in that time (a zombie has no parent here and has ended)."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def test_ready_when_it_returns_and_gone_after(tmp_path):
    with beamwright.serve(MODEL, warm_up=False, http_address="127.0.0.1:0", metrics_address="127.0.0.1:0") as server:
        pid = server.pid
        with server.client() as client:
            assert client.decode("cat").text == "K AE1 T"
        for address, path in ((server.http_address, "v1/models"), (server.metrics_address, "readyz")):
            with socket.create_connection(address.rsplit(":", 1), 120) as probe:
                probe.sendall(f"GET /{path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
                assert b" 200 " in probe.recv(100)
        assert "ready on" in server.log
        assert server.running
        assert f"pid {pid}" in repr(server)
    assert gone(pid)
    assert not server.running
    assert server.returncode == 0
    assert "exit code 0" in repr(server)
    server.stop()


def test_the_end_of_the_script_ends_it():
    pid = int(run_python(START + "start(); print(server.pid)", MODEL))
    assert gone(pid)


def test_an_exception_ends_it():
    done = subprocess.run(
        [sys.executable, "-c", START + "start(); print(server.pid, flush=True); 1 / 0", str(MODEL)],
        capture_output=True,
        text=True,
    )
    assert "ZeroDivisionError" in done.stderr
    assert gone(int(done.stdout))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_is_gone_with_a_parent_that_is_killed(how):
    code = START + "start(); print(server.pid, flush=True); threading.Event().wait()"
    with subprocess.Popen([sys.executable, "-c", code, str(MODEL)], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        assert not gone(pid, 0.1)
        parent.send_signal(how)
        assert gone(pid)


def test_it_outlives_the_thread_that_asked_for_it():
    code = START + """
thread = threading.Thread(target=start)
thread.start(); thread.join()
with server.client() as client:
    print(client.decode("cat").text)
"""
    assert run_python(code, MODEL) == "K AE1 T\n"


def test_an_interrupt_does_not_reach_it():
    """Ctrl-C goes to the whole group of processes of a terminal."""
    code = START + """
import shutil
import signal
start()
try:
    os.killpg(0, signal.SIGINT)
    threading.Event().wait(60)
except KeyboardInterrupt:
    pass
with server.client() as client:
    print(client.decode("cat").text)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(MODEL)], capture_output=True, text=True, start_new_session=True
    )
    assert done.stdout == "K AE1 T\n", done.stderr


def test_a_forked_child_leaves_it_alone():
    code = START + """
start()
if os.fork() == 0:
    server.stop()
    sys.exit(0)
os.wait()
with server.client() as client:
    print(client.decode("cat").text)
"""
    assert run_python(code, MODEL) == "K AE1 T\n"


def test_wrong_paths(tmp_path):
    with pytest.raises(ServerError, match="the model folder .*nowhere does not exist"):
        beamwright.serve(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(ServerError, match="is not a folder"):
        beamwright.serve(tmp_path / "file")
    with pytest.raises(ServerError, match=r"exit code 1 .*a model is a folder that holds them") as caught:
        beamwright.serve(tmp_path)
    assert "holds neither model.textproto nor a version folder" in str(caught.value)
    assert "holds neither" in caught.value.log
    with pytest.raises(beamwright.ArgumentTypeError, match="no model"):
        beamwright.serve()
    with pytest.raises(beamwright.ArgumentTypeError, match="path of a folder"):
        beamwright.serve(3)


def test_a_port_in_use(server):
    with pytest.raises(ServerError, match="its port is taken: leave the address out") as caught:
        beamwright.serve(MODEL, address=server.address)
    assert "Address already in use" in caught.value.log


def test_the_environment_is_for_other_servers(monkeypatch):
    """BEAMWRIGHT_TLS_CERT is a client's certificate, and a flag of the server's."""
    for name in ("TLS_CA", "TLS_CERT", "TLS_KEY", "TOKEN_FILE", "MODEL_REPOSITORY"):
        monkeypatch.setenv(f"BEAMWRIGHT_{name}", "/nowhere")
    with beamwright.serve(MODEL, warm_up=False) as server, server.client() as client:
        assert client.decode("cat").text == "K AE1 T"


def test_a_setting_that_there_is_not():
    with pytest.raises(ServerError, match="no-such-flag"):
        beamwright.serve(MODEL, no_such_flag=3)


def test_a_server_that_does_not_get_ready(tmp_path):
    program = tmp_path / "beamwright-server"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    with pytest.raises(ServerError, match=r"not ready within 0.3 s; serve\(timeout="):
        beamwright.serve(MODEL, program=program, timeout=0.3)


@pytest.mark.of_the_build
def test_where_the_program_is(tmp_path, monkeypatch):
    monkeypatch.delenv("BEAMWRIGHT_SERVER_PROGRAM")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_programs, "_checkout", lambda: None)
    with pytest.raises(ServerError, match=r"not found. Build it .*name it by BEAMWRIGHT_SERVER_PROGRAM"):
        beamwright.serve(MODEL)
    program = tmp_path / "beamwright-server"
    program.write_text("#!/bin/sh\nexit 9\n")
    with pytest.raises(ServerError, match="may not be executed"):
        beamwright.serve(MODEL, program=program)
    program.chmod(0o755)
    assert _programs.find("beamwright-server") == program
    with pytest.raises(ServerError, match="exit code 9"):
        beamwright.serve(MODEL)
    monkeypatch.setenv("BEAMWRIGHT_SERVER_PROGRAM", str(tmp_path / "other"))
    with pytest.raises(ServerError, match="BEAMWRIGHT_SERVER_PROGRAM: there is no file"):
        beamwright.serve(MODEL)
    with pytest.raises(ServerError, match="is a folder"):
        beamwright.serve(MODEL, program=tmp_path)
    packaged = tmp_path / "bin"
    packaged.mkdir()
    (packaged / "beamwright-server").touch()
    monkeypatch.setattr(_programs, "_FOLDER", packaged)
    assert _programs.find("beamwright-server") == packaged / "beamwright-server"


@pytest.mark.of_the_build
def test_a_package_that_pip_installed_from_a_checkout_finds_what_it_built(tmp_path, monkeypatch):
    root = tmp_path / "a checkout"
    (root / "build" / "bin").mkdir(parents=True)
    (root / "build" / "bin" / "beamwright-server").write_text("#!/bin/sh\nexit 8\n")
    (root / "build" / "bin" / "beamwright-server").chmod(0o755)
    installed = tmp_path / "site-packages"
    source = pathlib.Path(beamwright.__file__).resolve().parents[2]
    shutil.copytree(source, root / "client" / "python")
    run = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", installed]
    subprocess.run([*run, root / "client" / "python"], check=True)
    code = "import beamwright; beamwright.serve('.')"
    environment = {**os.environ, "PATH": "/nowhere", "PYTHONPATH": str(installed)}
    del environment["BEAMWRIGHT_SERVER_PROGRAM"]
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert "ended with exit code 8" in done.stderr
    (root / "build" / "bin" / "beamwright-server").unlink()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert "the program beamwright-server was not found" in done.stderr


@pytest.mark.of_the_build
def test_the_model_of_a_wheel_is_found_where_there_is_no_such_folder(tmp_path, monkeypatch):
    package = tmp_path / "_programs"
    (package / "bin").mkdir(parents=True)
    (package / "models").mkdir()
    (package / "models" / "g2p-en").symlink_to(pathlib.Path(MODEL).resolve())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ServerError, match="models/g2p-en does not exist"):
        beamwright.serve("models/g2p-en")
    monkeypatch.setattr(_programs, "_FOLDER", package / "bin")
    for name in ("models/g2p-en", "g2p-en"):
        with beamwright.serve(name, warm_up=False) as server, server.client() as client:
            assert client.decode("cat").text == "K AE1 T"
    for name in ("other/g2p-en", "models/p2g-en"):
        with pytest.raises(ServerError, match="does not exist"):
            beamwright.serve(name)
    (tmp_path / "models" / "g2p-en").mkdir(parents=True)  # a folder of one's own goes first, whatever is in it
    with pytest.raises(ServerError, match="model"):
        beamwright.serve("models/g2p-en")


@pytest.mark.of_the_build
def test_the_command_line(server, tmp_path):
    programs = pathlib.Path(os.environ["BEAMWRIGHT_SERVER_PROGRAM"]).parent
    command = [sys.executable, "-m", "beamwright", "decode", "--server", server.address, "cat"]
    environment = {**os.environ, "BEAMWRIGHT_PROGRAM": str(programs / "beamwright")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "K AE1 T" in done.stdout
    copy = tmp_path / "beamwright"  # not in a checkout
    shutil.copytree(pathlib.Path(beamwright.__file__).parent, copy)
    environment = {**os.environ, "PATH": "/nowhere", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "the program beamwright was not found" in done.stderr


def test_several_models_and_a_repository():
    with beamwright.serve(repository=MODEL.parent, warm_up=False, golden_requests=0) as server:
        with server.client(model="p2g-en") as client:
            folders = {folder.parent.name for folder in MODEL.parent.glob("*/1")}
            assert {model.name for model in client.models()} == folders
            assert client.decode("K AE1 T").text


FORK = """
import os, sys, beamwright
def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            print(work(), flush=True)
        except beamwright.BeamwrightError as error:
            print(type(error).__name__, error, flush=True)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
client = beamwright.Client(sys.argv[1])
"""


def test_a_client_that_was_not_used_before_a_fork(server):
    code = FORK + """
child(lambda: client.decode("cat").text)
print(client.decode("cat").text)
"""
    assert run_python(code, server.address) == "K AE1 T\nK AE1 T\n"


def test_a_client_that_was_used_before_a_fork(server):
    code = FORK + """
client.decode("cat")
many = client.decode_many(["cat"] * 99, batch_size=1)
next(many)
child(lambda: client.decode("cat").text)
child(lambda: beamwright.Client(sys.argv[1]).decode("cat").text)
child(lambda: next(many))
print(client.decode("cat").text, len(list(many)))
"""
    first, second, third, last = run_python(code, server.address).splitlines()
    for line in (first, second):
        assert line.startswith("ForkError this process")
        assert "spawn" in line
        assert "GRPC_ENABLE_FORK_SUPPORT=1" in line
    assert third.startswith("ForkError an iterator")
    assert last == "K AE1 T 98"


def test_a_forked_child_ends_by_itself(server):
    """Its interpreter takes the inherited channels down with it, which must neither hang nor disturb the parent."""
    code = FORK + """
client.decode("cat")
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        client.close()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print(client.decode("cat").text)
"""
    assert run_python(code, server.address) == "K AE1 T\n"


def test_forks_that_grpc_supports(server):
    code = FORK + """
client.decode("cat")
for _ in range(3):
    child(lambda: client.decode("cat").text)
print(client.decode("cat").text)
"""
    assert run_python(code, server.address, GRPC_ENABLE_FORK_SUPPORT="1") == "K AE1 T\n" * 4


def test_asyncio_and_a_fork(server):
    code = FORK + """
import asyncio
aio = beamwright.AsyncClient(sys.argv[1])
asyncio.run(aio.decode("cat"))
child(lambda: asyncio.run(aio.decode("cat")).text)
"""
    out = run_python(code, server.address, GRPC_ENABLE_FORK_SUPPORT="1")
    assert out.startswith("ForkError")
    assert "Use Client" in out


def _decode_there(address):
    with beamwright.Client(address) as client:
        return client.decode("cat")


def test_spawned_processes(server, client):
    with pytest.raises(TypeError, match="make one there, Client"):
        pickle.dumps(client)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_decode_there, (server.address,)) == client.decode("cat")


def test_async_client_of_a_server(server):
    async def main():
        async with server.async_client(timeout=120) as aio:
            return (await aio.decode("cat")).text

    assert asyncio.run(main()) == "K AE1 T"
