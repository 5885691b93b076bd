"""A server as a child process, for notebooks, scripts and tests."""

from __future__ import annotations

import atexit
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from . import _programs
from ._errors import ArgumentTypeError, ServerError

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._aio import AsyncClient
    from ._client import Client

Path = str | os.PathLike[str]
# BEAMWRIGHT_SERVER is the address that clients call.
PROGRAM_VARIABLE = "BEAMWRIGHT_SERVER_PROGRAM"
_LOG_SHOWN = 4096
# Becomes the server, after it has asked Linux (PR_SET_PDEATHSIG) to be killed when the thread that
# started it is gone. Not by preexec_fn, which runs Python between fork and exec and may wait there
# for a lock that another thread holds for ever.
_GUARD = """\
import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).prctl(1, 9, 0, 0, 0) != 0 or os.getppid() != int(sys.argv[1]):
    sys.exit("beamwright: the process that wanted a server is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


def serve(
    *models: Path,
    repository: Path | None = None,
    address: str = "127.0.0.1:0",
    program: Path | None = None,
    timeout: float = 120.0,
    **settings: Any,
) -> Server:
    """Starts a server as a child process and returns when it serves.

    The server ends with `stop`, with the with statement that it is used in, and at the latest with
    this process, however that ends: Linux kills it even if this process is killed. Interrupts
    (Ctrl-C, a notebook's stop button) do not reach it.

    Args:
        *models: Folders of models or of bundles. "models/g2p-en", where there is no such folder, is the model
            of the installed package, if it brings one.
        repository: A folder of models.
        address: Where it listens for gRPC: "host:port", where port 0 is a free one, or "unix:/path".
        program: The server program. None: that of the installed package, else the one that the
            environment's BEAMWRIGHT_SERVER_PROGRAM names, else the one that was built in the checkout that the
            package was installed from, else beamwright-server on the path.
        timeout: Seconds in which it must be ready.
        **settings: Any flag of the server, with _ for -: `threads=2`, `max_rows=512`,
            `http_address="127.0.0.1:0"`. HTTP, metrics and operators' listeners are off unless they
            are set here. What the environment says of settings (BEAMWRIGHT_*) does not count.

    Raises:
        ServerError: There is no program or no such folder, or the server ended before it was ready;
            its last lines are in the message.
    """
    if not models and repository is None:
        raise ArgumentTypeError("serve() is given no model; write serve('models/g2p-en')")
    found = (
        _programs.find("beamwright-server", [PROGRAM_VARIABLE])
        if program is None
        else _programs.checked(program, "program")
    )
    arguments = []
    for model in models:
        arguments += ["--model-path", _folder(model)]
    if repository is not None:
        arguments += ["--model-repository", _folder(repository)]
    flags: dict[str, Any] = {
        "http_address": "none",
        "metrics_address": "none",
        "admin_address": "none",
    }
    flags |= {"log_level": "info", **settings, "grpc_address": address}
    for name, value in flags.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        arguments += [f"--{name.replace('_', '-')}={_text(one)}" for one in values]
    return Server(found, arguments, flags, timeout)


def _text(value: Any) -> str:
    """A setting as the command line takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _folder(path: Path) -> str:
    try:
        folder = pathlib.Path(path)
    except TypeError:
        raise ArgumentTypeError(f"a model is {type(path).__name__}; the path of a folder is expected") from None
    if not folder.exists() and (packaged := _programs.model(folder)) is not None:
        return str(packaged)
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise ServerError(f"the model folder {folder} {what} (seen from {pathlib.Path.cwd()})")
    return str(folder.absolute())


class Server:
    """A server that `serve` started. Use it in a with statement, or call `stop`."""

    address: str
    """What clients call: host:port or unix:/path."""
    http_address: str | None
    """Of HTTP, if it was asked for."""
    metrics_address: str | None
    """Of probes and metrics, if they were asked for."""
    pid: int

    def __init__(
        self, program: pathlib.Path, arguments: Sequence[str], flags: dict[str, Any], timeout: float
    ) -> None:
        self._owner = os.getpid()
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the server
        self._ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        with tempfile.TemporaryDirectory(prefix="beamwright-") as folder:
            file = pathlib.Path(folder, "ports")
            self._start([str(program), *arguments, f"--ports-file={file}"])
            try:
                self._wait(file, timeout)
                ports = dict(line.split() for line in file.read_text().splitlines())
            except BaseException:
                self._kill()
                raise

        def address(name: str) -> str | None:
            given = str(flags[f"{name}_address"])
            if given == "none" or given.startswith("unix"):
                return None if given == "none" else given
            host = given.rpartition(":")[0]
            host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
            return f"{host}:{ports[name]}"

        self.address = address("grpc") or ""
        self.http_address = address("http")
        self.metrics_address = address("metrics")
        _running.add(self)

    def _start(self, command: list[str]) -> None:
        """Starts it on a thread that lives as long as it does: Linux watches the thread."""
        if not sys.executable:
            raise ServerError("sys.executable is empty: serve() needs a Python program to start the server")
        # Its flags may be variables, too, and some of them have names of the clients' ones.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BEAMWRIGHT_")}
        guarded = [sys.executable, "-I", "-S", "-c", _GUARD, str(self._owner), *command]
        started = threading.Event()
        failure: list[OSError] = []

        def keep() -> None:
            try:
                self._process = subprocess.Popen(
                    guarded,
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    start_new_session=True,
                    env=environment,
                )
            except OSError as error:
                failure.append(error)
                started.set()
                return
            started.set()
            self._process.wait()
            self._ended.set()

        threading.Thread(target=keep, name="beamwright-server", daemon=True).start()
        started.wait()
        if failure or self._process is None:
            raise ServerError(f"{command[0]} could not be started: {failure[0]}")
        self.pid = self._process.pid

    def _wait(self, ports_file: pathlib.Path, timeout: float) -> None:
        limit = time.monotonic() + timeout
        while not ports_file.exists():
            if self._ended.wait(0.01):
                raise ServerError(
                    f"beamwright-server ended with exit code {self.returncode} before it was ready"
                    + self._hint(),
                    self.log_tail(),
                )
            if time.monotonic() > limit:
                raise ServerError(
                    f"beamwright-server was not ready within {timeout:g} s; serve(timeout=...) gives it longer",
                    self.log_tail(),
                )

    def _hint(self) -> str:
        log = self.log_tail()
        if "Address already in use" in log:
            return "; its port is taken: leave the address out, or give port 0, for a free one"
        if "holds neither model.textproto" in log:
            return "; a model is a folder that holds them (of a folder of models: serve(repository=...))"
        return ""

    @property
    def log(self) -> str:
        """All that it has written so far."""
        return self._read(0)

    def log_tail(self) -> str:
        """The end of that."""
        size = os.fstat(self._log.fileno()).st_size
        text = self._read(max(0, size - _LOG_SHOWN))
        return text if size <= _LOG_SHOWN else text.partition("\n")[2]

    def _read(self, begin: int) -> str:
        descriptor = self._log.fileno()
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, size - begin, begin).decode("utf-8", "replace")

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return not self._ended.is_set()

    @property
    def returncode(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.returncode if self._process else None

    def client(self, **arguments: Any) -> Client:
        """A client of it; arguments as for Client. Close it, or use it in a with statement."""
        from ._client import Client

        return Client(self.address, **arguments)

    def async_client(self, **arguments: Any) -> AsyncClient:
        """The same for asyncio."""
        from ._aio import AsyncClient

        return AsyncClient(self.address, **arguments)

    def stop(self, timeout: float = 10.0) -> None:
        """Ends it: it answers what it has accepted, and is killed after `timeout` seconds.

        In a process that was forked from the one that started it, nothing happens.
        """
        if os.getpid() != self._owner:
            return
        _running.discard(self)
        self._signal(signal.SIGTERM)
        if not self._ended.wait(timeout):
            self._kill()

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._ended.wait()

    def _signal(self, number: int) -> None:
        if self._process is not None and not self._ended.is_set():
            self._process.send_signal(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.running else f"ended with exit code {self.returncode}"
        return f"Server({self.address!r}, {state})"


_running: weakref.WeakSet[Server] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for server in list(_running):
        server.stop()
