"""libbeamwright.so by ctypes: include/beamwright/beamwright.h has the whole interface.

ctypes lets go of the GIL while it calls, so that Python's other threads run while one decodes.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pathlib
import threading
from typing import Any

from . import _answers, _programs, _wire
from ._errors import ClientClosedError, EngineError, ForkError
from ._version import __version__

LIBRARY_VARIABLE = "BEAMWRIGHT_LIBRARY"
_NAME = "libbeamwright.so.1"
_ABI = 1
_FORKED = "FORKED"


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("message", ctypes.c_char_p),
        ("reserved", ctypes.c_void_p),
    )


class _Options(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("num_threads", ctypes.c_int32),
        ("max_rows", ctypes.c_int32),
        ("precision", ctypes.c_char_p),
        ("golden_requests", ctypes.c_int32),
    )


def _packaged() -> pathlib.Path | None:
    """The library as the package beamwright-engine brings it."""
    found = importlib.util.find_spec("beamwright_engine")
    if found is None or found.origin is None:
        return None
    path = pathlib.Path(found.origin).with_name(_NAME)
    return path if path.is_file() else None


def library_path() -> str:
    """What is loaded: named by BEAMWRIGHT_LIBRARY, else of beamwright-engine, else built in this package's
    checkout, else where the loader looks.
    """
    if value := os.environ.get(LIBRARY_VARIABLE):
        if not pathlib.Path(value).is_file():
            raise EngineError(f"{LIBRARY_VARIABLE}: there is no file {value}")
        return str(pathlib.Path(value).resolve())
    return str(_packaged() or _programs.built(f"lib/{_NAME}") or _NAME)


def _open(path: str) -> ctypes.CDLL:
    try:
        # What it needs is looked up in its own libraries first: TensorFlow shows its protobuf to everybody.
        return ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
    except OSError as error:
        raise EngineError(
            f"the library for decoding in process cannot be loaded ({error}). Install the release's file "
            f"beamwright_engine-{__version__}-py3-none-manylinux_2_34_x86_64.whl, or name a build's library by "
            f"{LIBRARY_VARIABLE} (build/lib/{_NAME})."
        ) from None


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    if library.beamwright_abi_version() != _ABI:
        raise EngineError(
            f"{library._name} has version {library.beamwright_abi_version()} of the C interface, and this "
            f"package needs {_ABI}: take both of the same version"
        )
    library.beamwright_version.restype = ctypes.c_char_p
    library.beamwright_load.argtypes = (
        ctypes.c_char_p,
        ctypes.POINTER(_Options),
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(_Buffer),
    )
    for name in ("decode", "score", "align"):
        getattr(library, f"beamwright_{name}").argtypes = (
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_int64,
            ctypes.POINTER(_Buffer),
        )
    library.beamwright_describe.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Buffer))
    library.beamwright_buffer_free.argtypes = (ctypes.POINTER(_Buffer),)
    library.beamwright_buffer_free.restype = None
    library.beamwright_free.argtypes = (ctypes.c_void_p,)
    library.beamwright_free.restype = None
    return library


_loaded: ctypes.CDLL | None = None
_loading = threading.Lock()


def library() -> ctypes.CDLL:
    """The library, loaded once in a process."""
    global _loaded
    if _loaded is None:
        with _loading:
            if _loaded is None:
                _loaded = _declare(_open(library_path()))
    return _loaded


def version() -> str:
    """The library's version."""
    return str(library().beamwright_version().decode())


def _taken(buffer: _Buffer, code: int) -> bytes:
    """What a call left in its buffer, which is freed; raises what the call failed with."""
    content = ctypes.string_at(buffer.data, buffer.size) if buffer.size else b""
    message = (buffer.message or b"").decode("utf-8", "replace")
    library().beamwright_buffer_free(ctypes.byref(buffer))
    if code == 0:
        return content
    status = _wire.Status.FromString(content)
    if not status.code:  # no memory for details
        status = _wire.Status(code=code, message=message)
    error = _answers.error_of_status(status)
    if error.reason == _FORKED:
        raise ForkError(error.message)
    raise error


class Handle:
    """A loaded model, for any number of threads. Closing it waits for the calls that are under way."""

    def __init__(
        self, path: str, threads: int, max_rows: int, precision: str | None, golden_requests: int
    ) -> None:
        self._process = os.getpid()
        self._pointer: ctypes.c_void_p | None = None
        self._idle = threading.Condition()
        self._running = 0
        options = _Options(
            ctypes.sizeof(_Options),
            threads,
            max_rows,
            None if precision is None else precision.encode(),
            golden_requests,
        )
        pointer, error = ctypes.c_void_p(), _Buffer()
        code = library().beamwright_load(
            os.fsencode(path), ctypes.byref(options), ctypes.byref(pointer), ctypes.byref(error)
        )
        _taken(error, code)
        self._pointer = pointer

    def call(self, name: str, request: Any, response: Any, timeout_ms: int) -> Any:
        """One of decode, score, align: request and answer are messages."""
        content = request.SerializeToString()
        return response.FromString(self._run(f"beamwright_{name}", content, len(content), timeout_ms))

    def describe(self) -> Any:
        """The message ModelDescription."""
        return _wire.ModelDescription.FromString(self._run("beamwright_describe"))

    def _run(self, function: str, *arguments: Any) -> bytes:
        if os.getpid() != self._process:  # a lock of the parent's may be held for ever
            raise ForkError(
                "this process was forked from the one that loaded the model, and the threads that decode do "
                "not survive a fork; start processes by 'spawn' or 'forkserver', and load the model there"
            )
        with self._idle:
            if self._pointer is None:
                raise ClientClosedError("this model is closed; load it again")
            pointer = self._pointer
            self._running += 1
        buffer = _Buffer()
        try:
            code = getattr(library(), function)(pointer, *arguments, ctypes.byref(buffer))
            return _taken(buffer, code)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._pointer is None

    def close(self) -> None:
        """Frees the model after its last use."""
        if os.getpid() != self._process:
            return
        with self._idle:
            pointer, self._pointer = self._pointer, None
            while self._running:
                self._idle.wait()
        if pointer is not None:
            library().beamwright_free(pointer)
