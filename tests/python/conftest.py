"""A real server for all tests, and one in Python that fails on demand."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import pathlib
import subprocess
import sys

import grpc
import pytest

import beamwright
from beamwright import _wire

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from archives import unpacked  # noqa: E402, F401

MODEL = ROOT / "models" / "g2p-en"
WORDS = (MODEL / "words-test.txt").read_text(encoding="utf-8").split("\n")[:-1]


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "of_the_build: needs a build's programs and the source, a compiler or protoc, not just the wheels"
    )


@pytest.fixture(scope="session")
def server():
    with beamwright.serve(MODEL, threads=1, forecast_deadlines=False) as running:
        yield running


@pytest.fixture(scope="session")
def client(server):
    with server.client() as client:
        yield client


@pytest.fixture
def words():
    return WORDS


def run_python(code, *arguments, **environment):
    """Runs a program with the package; its standard output. A test fails with what it wrote."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def details(code, message, *protos):
    """A google.rpc.Status, serialised, with details."""
    status = _wire.Status(code=code, message=message)
    for proto in protos:
        detail = status.details.add()
        detail.type_url = "type.googleapis.com/" + proto.DESCRIPTOR.full_name
        detail.value = proto.SerializeToString()
    return status.SerializeToString()


class FakeServer(grpc.GenericRpcHandler):
    """Answers Decode by a function (request, context, number of the call) -> DecodeResponse.

    And StreamDecode by a generator function (request, context) of StreamDecodeResponses.
    """

    def __init__(self, answer, stream=None):
        self._count = itertools.count(1)
        self.calls = 0
        self.metadata = []
        self._answer = answer
        self._stream = stream
        self._server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)]
        )
        self._server.add_generic_rpc_handlers([self])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def service(self, handler_call_details):
        if handler_call_details.method == "/beamwright.v1.DecodeService/StreamDecode":
            return grpc.unary_stream_rpc_method_handler(
                self._stream,
                request_deserializer=_wire.StreamDecodeRequest.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
        if handler_call_details.method != "/beamwright.v1.DecodeService/Decode":
            return None
        return grpc.unary_unary_rpc_method_handler(
            self._decode,
            request_deserializer=_wire.DecodeRequest.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    def _decode(self, request, context):
        call = next(self._count)
        self.calls = max(self.calls, call)
        self.metadata.append(dict(context.invocation_metadata()))
        return self._answer(request, context, call)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.stop(None)


def echo(request, *_):
    """Decodes a text into itself."""
    response = _wire.DecodeResponse(model="echo", version="1")
    for source in request.sources:
        response.results.add().decoded.hypotheses.add(text=source.text)
    return response


def fail(context, code, message, *protos, trailers=()):
    """Ends a call of the fake server with details."""
    context.set_trailing_metadata(
        (*trailers, ("grpc-status-details-bin", details(code.value[0], message, *protos)))
    )
    context.abort(code, message)
