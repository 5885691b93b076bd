"""Channels as a client of Beamwright wants them, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import pathlib
import re
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import grpc
import grpc.aio

from . import _wire
from ._answers import error_of_call
from ._calls import seconds
from ._errors import ArgumentTypeError, ClientClosedError, Code, ForkError, RpcError, invalid, make_error
from ._version import __version__

DEFAULT_PORT = 8001
_SCHEMES = ("unix", "unix-abstract", "dns", "ipv4", "ipv6", "vsock")
# Read by gRPC when it is imported.
_FORK_SUPPORT = os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "").lower() in {"1", "true", "yes", "on"}


def dialled(address: str) -> str:
    """The address with the default port where it has no port, as gRPC takes it."""
    if not isinstance(address, str):
        raise ArgumentTypeError(f"address is {type(address).__name__}; text is expected: host:port")
    if not address or re.search(r"\s|[\x00-\x1f]", address):
        raise invalid("address", f"{address!r} is empty or has white space; write host:port")
    bracket = address.startswith("[")
    has_port = not address.endswith("]") if bracket else ":" in address
    target = address if has_port else f"{address}:{DEFAULT_PORT}"
    host, _, port = target.rpartition(":")
    if "://" in address and not address.startswith(_SCHEMES):
        raise invalid("address", f"{address!r} is a URL; write host:port, the port of gRPC (8001)")
    is_uri = host in _SCHEMES or (not bracket and re.search("[:/]", host))
    if not is_uri and not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise invalid("address", f"{address!r} has no port from 1 to 65535; write host:port")
    return target


def is_local(address: str) -> bool:
    """Whether what is sent there stays on this machine."""
    return (
        address.startswith(("unix:", "unix-abstract:", "127.", "[::1]", "localhost:")) or address == "localhost"
    )


def _content(value: str | os.PathLike[str] | bytes | None, argument: str) -> bytes | None:
    """A file's content, or the bytes themselves."""
    if value is None or isinstance(value, bytes):
        return value
    try:
        return pathlib.Path(value).read_bytes()
    except OSError as error:
        raise type(error)(error.errno, f"{argument}: {error.strerror}", os.fspath(value)) from None


def _bearer(token: str | None, token_file: str | os.PathLike[str] | None) -> str | None:
    if token is not None and token_file is not None:
        raise invalid("token", "token and token_file exclude each other")
    if token_file is not None:
        token = (_content(token_file, "token_file") or b"").decode("ascii", "replace")
    if token is None:
        return None
    token = token.strip()
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise invalid("token", "a token is one word of printable ASCII")
    return token


def _service_config(value: Mapping[str, Any] | str | os.PathLike[str] | None) -> str | None:
    """A gRPC service config as JSON text, of a mapping or a file."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        if not isinstance(value, (str, os.PathLike)):
            raise ArgumentTypeError(
                f"service_config is {type(value).__name__}; a mapping or the path of a file is expected"
            )
        try:
            value = json.loads(_content(value, "service_config") or b"")
        except ValueError as error:
            raise invalid("service_config", f"not JSON: {error}") from None
        if not isinstance(value, Mapping):
            raise invalid("service_config", "not a JSON object")
    try:
        return json.dumps(dict(value))
    except (TypeError, ValueError) as error:
        raise invalid("service_config", f"cannot be written as JSON: {error}") from None


def _within(argument: str, value: Any, low: float, high: float, whole: bool = True) -> Any:
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise ArgumentTypeError(f"{argument} is {value!r}; a {'whole ' if whole else ''}number is expected")
    if not low <= value <= high:
        raise invalid(argument, f"{value} is outside [{low}, {high}]")
    return value


class Settings:
    """A client's settings, checked."""

    def __init__(
        self,
        address: str | None,
        *,
        timeout: float,
        tls: bool,
        tls_ca: str | os.PathLike[str] | bytes | None,
        tls_cert: str | os.PathLike[str] | bytes | None,
        tls_key: str | os.PathLike[str] | bytes | None,
        tls_server_name: str | None,
        token: str | None,
        token_file: str | os.PathLike[str] | None,
        metadata: Mapping[str, str] | None,
        connections: int,
        max_attempts: int,
        retry_when_full: bool,
        service_config: Mapping[str, Any] | str | os.PathLike[str] | None,
        keepalive: float,
        max_receive_bytes: int,
    ) -> None:
        if address is None:  # else nothing: what is meant for one server is not sent to another
            environment = os.environ
            address = environment.get("BEAMWRIGHT_SERVER") or "localhost"
            if token is None and token_file is None:
                token_file = environment.get("BEAMWRIGHT_TOKEN_FILE") or None
            tls_ca = tls_ca or environment.get("BEAMWRIGHT_TLS_CA") or None
            if tls_cert is None and tls_key is None:
                tls_cert = environment.get("BEAMWRIGHT_TLS_CERT") or None
                tls_key = environment.get("BEAMWRIGHT_TLS_KEY") or None
            tls_server_name = tls_server_name or environment.get("BEAMWRIGHT_TLS_SERVER_NAME") or None
            tls = tls or environment.get("BEAMWRIGHT_TLS", "").lower() in {"1", "true", "yes", "on"}

        self.address = dialled(address)
        self.timeout = timeout
        seconds(timeout, timeout)
        self.connections = _within("connections", connections, 1, 64)
        _within("max_attempts", max_attempts, 1, 5)
        _within("keepalive", keepalive, 2, 86400, whole=False)
        _within("max_receive_bytes", max_receive_bytes, 1, 2**31 - 1)
        if (tls_cert is None) != (tls_key is None):
            raise invalid("tls_cert", "tls_cert and tls_key: give both or neither")
        self.tls = bool(tls or tls_ca or tls_cert)
        self._pems = (
            _content(tls_ca, "tls_ca"),
            _content(tls_key, "tls_key"),
            _content(tls_cert, "tls_cert"),
        )
        bearer = _bearer(token, token_file)
        if bearer and not self.tls and not is_local(self.address):
            raise invalid("token", "a token is not sent over a network in clear text; use TLS (tls_ca)")
        headers = dict(metadata or {})
        if bearer:
            headers["authorization"] = f"Bearer {bearer}"
        for name, value in headers.items():
            if not re.fullmatch(r"[0-9a-z_.-]+", name) or not isinstance(value, str):
                raise invalid("metadata", f"{name!r}: names are in lower case, values are text")
        self.metadata = tuple(headers.items())
        self.max_attempts = max_attempts
        self.retried_codes = (Code.UNAVAILABLE, *([Code.RESOURCE_EXHAUSTED] if retry_when_full else []))
        self.options = self._channel_options(tls_server_name, keepalive, max_receive_bytes)
        self.options += self._balancing(_service_config(service_config))

    def _balancing(self, service_config: str | None) -> list[tuple[str, Any]]:
        """How calls are spread over addresses and tried again."""
        if service_config is not None:
            return [
                ("grpc.service_config", service_config),
                ("grpc.enable_retries", 1),
                # gRPC's own name for it: `perAttemptRecvTimeout` is read only with this.
                ("grpc.experimental.enable_hedging", 1),
            ]
        # Decoding has no effect but its answer, so that trying again is safe. gRPC waits as long as
        # the server asks for; the throttle keeps retries from drowning a server in trouble, and lets
        # pass what a server that dies may have in flight. Health is left out: it asks how things are
        # now. So are streams: with a retry policy, a stream whose server dies may wait for ever, beyond
        # its deadline (gRPC 1.51 to 1.81); _retries.py starts those again that had not begun.
        config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
        if self.max_attempts > 1:
            config["retryThrottling"] = {"maxTokens": 500, "tokenRatio": 0.1}
            config["methodConfig"] = [
                {
                    "name": [
                        {"service": "beamwright.v1.DecodeService"},
                        {"service": "beamwright.v1.ModelService"},
                        {"service": "beamwright.v1.TranslateService"},
                    ],
                    "retryPolicy": {
                        "maxAttempts": self.max_attempts,
                        "initialBackoff": "0.05s",
                        "maxBackoff": "1s",
                        "backoffMultiplier": 2,
                        "retryableStatusCodes": [code.name for code in self.retried_codes],
                    },
                },
                {
                    "name": [
                        {"service": "beamwright.v1.DecodeService", "method": "StreamDecode"},
                        {"service": "beamwright.v1.TranslateService", "method": "StreamTranslate"},
                    ]
                },
            ]
        return [
            ("grpc.service_config", json.dumps(config)),
            ("grpc.enable_retries", int(self.max_attempts > 1)),
        ]

    def _channel_options(
        self,
        tls_server_name: str | None,
        keepalive: float,
        max_receive_bytes: int,
    ) -> list[tuple[str, Any]]:
        patience = int(min(keepalive, 20) * 1000)
        options: list[tuple[str, Any]] = [
            ("grpc.primary_user_agent", f"beamwright-python/{__version__}"),
            ("grpc.max_receive_message_length", max_receive_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.keepalive_time_ms", int(keepalive * 1000)),
            ("grpc.keepalive_timeout_ms", patience),
            # Newer gRPC waits a minute for the answer to a ping, whatever is said above.
            ("grpc.http2.ping_timeout_ms", patience),
            # A server that was down is found again quickly: gRPC's own waits grow to two minutes.
            ("grpc.max_reconnect_backoff_ms", 5_000),
            # Channels with equal arguments would share their connections.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_channelz", 0),
        ]
        if is_local(self.address):
            options.append(("grpc.enable_http_proxy", 0))
        if tls_server_name:
            options.append(("grpc.ssl_target_name_override", tls_server_name))
        return options

    def open_channel(self) -> grpc.Channel:
        """A channel for threads."""
        if not self.tls:
            return grpc.insecure_channel(self.address, self.options)
        return grpc.secure_channel(self.address, grpc.ssl_channel_credentials(*self._pems), self.options)

    def open_aio_channel(self) -> grpc.aio.Channel:
        """A channel for the event loop that runs."""
        if not self.tls:
            return grpc.aio.insecure_channel(self.address, self.options)
        return grpc.aio.secure_channel(self.address, grpc.ssl_channel_credentials(*self._pems), self.options)

    def error_of(self, error: Any) -> RpcError:
        """The exception for one of gRPC's."""
        code = error.code()
        return error_of_call(
            code.value[0] if code else 2, error.details(), error.trailing_metadata(), self.address
        )


def _stubs(channel: Any) -> dict[_wire.Method, Any]:
    """The methods of a channel."""
    return {
        method: _kind_of_call(channel, method)(
            method.path,
            request_serializer=_serialize,
            response_deserializer=method.response.FromString,
        )
        for method in _wire.METHODS
    }


def _kind_of_call(channel: Any, method: _wire.Method) -> Any:
    if method.takes_stream:
        return channel.stream_stream
    return channel.unary_stream if method.streams else channel.unary_unary


def _serialize(message: Any) -> bytes:
    return message.SerializeToString()  # type: ignore[no-any-return]


# The process in which gRPC was started by a client of this package.
_started_in: int | None = None
_open: weakref.WeakSet[Connection | AioConnection] = weakref.WeakSet()
# Channels of the process that this one was forked from: to close them would disturb it.
_inherited: list[Any] = []


def _start(supports_fork: bool) -> int:
    """Notes that gRPC is used from here on; ForkError where it can't be."""
    global _started_in
    process = os.getpid()
    if _started_in not in {None, process} and not (supports_fork and _FORK_SUPPORT):
        raise ForkError(
            f"this process ({process}) was forked from one in which a Beamwright client had been used "
            f"({_started_in}), and gRPC does not survive that. "
            + (
                "Start processes by 'spawn' (multiprocessing.get_context('spawn')), use no client before "
                "they are forked, or set GRPC_ENABLE_FORK_SUPPORT=1 before Python starts."
                if supports_fork
                else "Use Client in forked processes, or start them by 'spawn'."
            )
        )
    _started_in = process
    return process


def _after_fork() -> None:
    for connection in list(_open):
        connection.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Connection:
    """Channels that calls take turns on. Thread-safe; opened by the first call of a process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._channels: list[grpc.Channel] = []
        self._turns: Any = None
        self._closed = False
        _open.add(self)

    def forget(self) -> None:
        """Drops what was inherited by a fork."""
        _inherited.append((self._channels, self._turns))
        self._lock = threading.Lock()
        self._channels = []
        self._turns = None

    def stub(self, method: _wire.Method) -> Any:
        """What calls the method."""
        turns = self._turns
        if turns is None or self._closed:
            turns = self._open_channels()
        return next(turns)[method]

    def call(self, method: _wire.Method, request: Any, timeout: float | None) -> Any:
        """The answer, or the exception of the call that failed."""
        stub = self.stub(method)
        try:
            return stub(request, timeout=timeout, metadata=self.settings.metadata)
        except grpc.RpcError as error:
            raise self._failure(error) from None
        except ValueError:  # gRPC's word for it, if it was closed this very moment
            if self._closed:
                raise ClientClosedError("this client is closed; make a new one") from None
            raise

    def begin(self, method: _wire.Method, request: Any, timeout: float | None) -> Any:
        """A call under way, which `finish` waits for."""
        return self.stub(method).future(request, timeout=timeout, metadata=self.settings.metadata)

    def finish(self, call: Any) -> Any:
        """As `call`, of a call that `begin` sent."""
        try:
            return call.result()
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            raise self._failure(error) from None

    def _failure(self, error: grpc.RpcError | grpc.FutureCancelledError) -> Exception:
        # gRPC cancels calls when a channel is closed.
        if self._closed:
            return ClientClosedError("this client was closed while it was called")
        if isinstance(error, grpc.RpcError):
            return self.settings.error_of(error)
        return make_error(Code.CANCELLED, "the call was cancelled")

    def _open_channels(self) -> Any:
        with self._lock:
            if self._closed:
                raise ClientClosedError("this client is closed; make a new one")
            if self._turns is None:
                _start(supports_fork=True)
                self._channels = [self.settings.open_channel() for _ in range(self.settings.connections)]
                self._turns = itertools.cycle([_stubs(channel) for channel in self._channels])
            return self._turns

    def close(self) -> None:
        """Ends what is under way; calls from here on raise ClientClosedError."""
        with self._lock:
            self._closed = True
            channels, self._channels, self._turns = self._channels, [], None
        for channel in channels:
            channel.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed


class AioConnection:
    """The same for the event loop that runs; another loop gets other channels."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._channels: list[grpc.aio.Channel] = []
        self._turns: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        _open.add(self)

    def forget(self) -> None:
        """Drops what was inherited by a fork."""
        _inherited.append((self._channels, self._turns))
        self._channels, self._turns, self._loop = [], None, None

    def stub(self, method: _wire.Method) -> Any:
        """What calls the method."""
        if self._closed:
            raise ClientClosedError("this client is closed; make a new one")
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            _start(supports_fork=False)
            self._channels = [self.settings.open_aio_channel() for _ in range(self.settings.connections)]
            self._turns = itertools.cycle([_stubs(channel) for channel in self._channels])
            self._loop = loop
        return next(self._turns)[method]

    async def call(self, method: _wire.Method, request: Any, timeout: float | None) -> Any:
        """The answer, or the exception of the call that failed."""
        return await self.finish(self.begin(method, request, timeout))

    def begin(self, method: _wire.Method, request: Any, timeout: float | None) -> Any:
        """A call under way, which `finish` waits for."""
        return self.stub(method)(request, timeout=timeout, metadata=self.settings.metadata)

    async def finish(self, call: Any) -> Any:
        """As `call`, of a call that `begin` sent."""
        try:
            return await call
        except (grpc.RpcError, asyncio.CancelledError) as error:
            # gRPC cancels calls when a channel is closed.
            if self._closed:
                raise ClientClosedError("this client was closed while it was called") from None
            if isinstance(error, grpc.RpcError):
                raise self.settings.error_of(error) from None
            raise

    async def close(self) -> None:
        """Ends what is under way; calls from here on raise ClientClosedError."""
        self._closed = True
        channels, self._channels, self._turns = self._channels, [], None
        if self._loop is asyncio.get_running_loop():
            for channel in channels:
                await channel.close(None)
        self._loop = None

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed
