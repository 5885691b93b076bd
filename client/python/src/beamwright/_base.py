"""What both clients are made of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _calls
from ._connection import AioConnection, Connection, Settings
from ._errors import ArgumentTypeError

Path = str | os.PathLike[str]


class BaseClient:
    """Settings of a client and the model that it asks for."""

    _connection: Connection | AioConnection

    def __init__(
        self,
        address: str | None = None,
        *,
        model: str | None = None,
        version: str | int | None = None,
        timeout: float = 30.0,
        tls: bool = False,
        tls_ca: Path | bytes | None = None,
        tls_cert: Path | bytes | None = None,
        tls_key: Path | bytes | None = None,
        tls_server_name: str | None = None,
        token: str | None = None,
        token_file: Path | None = None,
        metadata: Mapping[str, str] | None = None,
        connections: int = 1,
        max_attempts: int = 3,
        retry_when_full: bool = False,
        service_config: Mapping[str, Any] | Path | None = None,
        keepalive: float = 60.0,
        max_receive_bytes: int = 64 << 20,
    ) -> None:
        """`address` is "host:port", "host" (port 8001), "[::1]:8001", "unix:/path" or another target of
        gRPC's; without it the environment's BEAMWRIGHT_SERVER, then "localhost:8001". The network is
        first used by the first call: a server that is down makes calls fail with UnavailableError, and
        later ones succeed once it is up.

        Args:
            address: Where the server listens for gRPC.
            model: The model of calls that name none. It may be left out where only one is served.
            version: Its version, or a label of it; None is the newest one that is served.
            timeout: Seconds that a call may take; math.inf is no limit. The server stops working for
                a call whose time is up.
            tls: Speak TLS. Set by itself where one of the files below is given.
            tls_ca: Whom to believe about the server, as a file (PEM) or its bytes. None: the
                authorities that gRPC brings.
            tls_cert: The client's certificate, if the server asks for one, in the same form.
            tls_key: Its private key, in the same form.
            tls_server_name: The name in the server's certificate, where it is not the host's.
            token: A bearer token. It is sent over TLS or to this machine, never in clear text over a
                network.
            token_file: A file that holds the token.
            metadata: Headers of every call, as `{"beamwright-priority": "1"}`.
            connections: Connections that calls take turns on, 1 to 64. One carries a few thousand calls
                a second.
            max_attempts: Tries of a call that finds the server unavailable, 1 (no retries) to 5, 50 ms
                to 1 s apart or as long as the server asks for.
            retry_when_full: Try again as well when the server's queue is full, after the wait that it
                names.
            service_config: A gRPC service config, as a mapping or a file (JSON), that takes the place of
                balancing and retries as set here, such as those in deploy/grpc for a fleet: max_attempts
                and retry_when_full then count only for single sources of decode_many and for streams.
            keepalive: Seconds between pings of a connection with calls in flight, 2 to 86400. A server
                that does not answer one within as long again, 20 s at most, is given up.
            max_receive_bytes: The largest answer that is taken.

        Without an address, what else is left out is read from BEAMWRIGHT_TLS, BEAMWRIGHT_TLS_CA,
        BEAMWRIGHT_TLS_CERT, BEAMWRIGHT_TLS_KEY, BEAMWRIGHT_TLS_SERVER_NAME and BEAMWRIGHT_TOKEN_FILE, too, as
        by the command line. With an address nothing is: a token of one server is not sent to another.

        Calls raise RpcError, or the class of its code (docs/python.md, 'Errors').
        """
        self._settings = Settings(
            address,
            timeout=timeout,
            tls=tls,
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_server_name=tls_server_name,
            token=token,
            token_file=token_file,
            metadata=metadata,
            connections=connections,
            max_attempts=max_attempts,
            retry_when_full=retry_when_full,
            service_config=service_config,
            keepalive=keepalive,
            max_receive_bytes=max_receive_bytes,
        )
        self._model = model
        self._version = version
        self._connection = self._connect()

    @property
    def address(self) -> str:
        """The address as dialled: with the default port where none was given."""
        return self._settings.address

    def __repr__(self) -> str:
        closed = ", closed" if self._connection.closed else ""
        return f"{type(self).__name__}({self.address!r}{closed})"

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(
            f"a client does not go to another process: make one there, {type(self).__name__}({self.address!r})"
        )

    def _connect(self) -> Connection | AioConnection:
        raise NotImplementedError

    def _version_of(self, version: str | int | None) -> str | int | None:
        return self._version if version is None else version

    def _decode_request(
        self,
        call: str,
        model: str | None,
        version: str | int | None,
        options: Mapping[str, Any],
        request: Any = None,
    ) -> Any:
        return _calls.decode_request(call, model or self._model, self._version_of(version), options, request)
