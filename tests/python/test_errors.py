"""What failures report, which class they have, and what is tried again."""

import asyncio
import copy
import json
import math
import pickle
import socket
import threading
import time

import grpc
import pytest
from conftest import ROOT, FakeServer, echo, fail

import beamwright
from beamwright import Code, _answers, _wire


def test_every_wrong_field_is_named(client):
    with pytest.raises(beamwright.InvalidArgumentError) as caught:
        client.decode("cat", beam_size=500, top_p=3, temperature=0.001)
    error = caught.value
    assert error.code is Code.INVALID_ARGUMENT
    assert error.reason == "INVALID_REQUEST"
    assert error.fields == ("options.beam_size", "options.temperature", "options.top_p")
    assert [(one.minimum, one.maximum) for one in error.violations] == [(1, 256), (0.01, 100), (1e-06, 1)]
    assert isinstance(error, ValueError)
    assert error.source_errors == {}
    with pytest.raises(beamwright.InvalidArgumentError) as caught:
        client.decode("cat", beam_size=100)
    assert caught.value.violations[0].maximum == 64
    with pytest.raises(beamwright.InvalidArgumentError) as caught:
        client.decode("cat", beam_threshold=-1)
    assert (caught.value.violations[0].minimum, caught.value.violations[0].maximum) == (0, None)
    with pytest.raises(beamwright.InvalidArgumentError, match="beam size of 2"):
        client.decode("cat", beam_size=2, n_best=3)


def test_an_error_of_the_source_is_told_from_one_of_the_request(client):
    with pytest.raises(beamwright.InvalidArgumentError, match="is empty") as caught:
        client.decode("")
    assert caught.value.fields == ("sources[0].text",)
    assert set(caught.value.source_errors) == {0}


def test_nothing_left_to_choose(client):
    with pytest.raises(beamwright.FailedPreconditionError):
        client.decode("cat", shortlist="EY1", required_sequences=["B IY1"])


def test_deadlines(client):
    with pytest.raises(beamwright.DeadlineExceededError) as caught:
        client.decode("recurrent" * 12, timeout=0.001)
    assert isinstance(caught.value, TimeoutError)
    release = threading.Event()

    def answer(request, *_):
        release.wait(60)
        return echo(request)

    with FakeServer(answer) as fake, beamwright.Client(fake.address) as slow:
        with pytest.raises(beamwright.DeadlineExceededError, match=f"no answer from {fake.address}"):
            slow.decode("a", timeout=1)
        release.set()
    assert client.decode("cat", timeout=math.inf).text
    for timeout in (0, -1, math.nan):
        with pytest.raises(beamwright.InvalidArgumentError, match=r"above 0 seconds; math\.inf"):
            client.decode("cat", timeout=timeout)
    with pytest.raises(beamwright.ArgumentTypeError, match="seconds"):
        client.decode("cat", timeout="soon")


def test_no_server():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, without a listener
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with beamwright.Client(address, timeout=60) as client:
            for call in (client.models, lambda: list(client.decode_many(["a"], on_error="return"))):
                with pytest.raises(beamwright.UnavailableError, match=f"no server answers at {address}"):
                    call()


def test_what_is_no_server_of_grpc(server):
    """TLS is spoken to one that speaks none, and gRPC to HTTP."""
    with server.client(tls=True, timeout=60, max_attempts=1) as client:
        with pytest.raises(beamwright.UnavailableError, match="does the server speak TLS"):
            client.decode("cat")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"

        def answer():
            while True:
                try:
                    connection = listening.accept()[0]
                except OSError:
                    return
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with beamwright.Client(address, timeout=60, max_attempts=1) as client:
            with pytest.raises(beamwright.UnavailableError, match="no gRPC is spoken .* port of HTTP"):
                client.decode("cat")
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("text", ["DNS resolution failed for x:1: C-ares status", "errors resolving x:1: [lookup"])
def test_a_host_that_is_not_known(text):
    """What gRPC 1.60 and 1.81 say; no test asks a name server."""
    error = _answers.error_of_call(14, text, None, "x:1")
    assert str(error).startswith("UNAVAILABLE: the host of x:1 is not known (")


def test_errors_survive_pickle_and_copy(client):
    with pytest.raises(beamwright.RpcError) as caught:
        client.decode("cat", beam_size=500)
    for other in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert type(other) is type(caught.value)
        assert str(other) == str(caught.value)
        assert other.violations == caught.value.violations
        assert other.code is Code.INVALID_ARGUMENT
    answer = client.decode("cat")
    assert pickle.loads(pickle.dumps(answer)) == answer


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.CANCELLED, beamwright.CallCancelledError),
        (grpc.StatusCode.UNKNOWN, beamwright.RpcError),
        (grpc.StatusCode.NOT_FOUND, beamwright.NotFoundError),
        (grpc.StatusCode.PERMISSION_DENIED, beamwright.PermissionDeniedError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, beamwright.ResourceExhaustedError),
        (grpc.StatusCode.UNIMPLEMENTED, beamwright.UnimplementedError),
        (grpc.StatusCode.INTERNAL, beamwright.InternalError),
        (grpc.StatusCode.UNAUTHENTICATED, beamwright.UnauthenticatedError),
        (grpc.StatusCode.DATA_LOSS, beamwright.RpcError),
    ],
)
def test_classes_by_code(code, kind):
    def answer(_request, context, _call):
        context.abort(code, "why")

    with FakeServer(answer) as fake, beamwright.Client(fake.address) as client:
        with pytest.raises(beamwright.RpcError) as caught:
            client.decode("a")
        assert type(caught.value) is kind
        assert caught.value.code.name == code.name
        assert caught.value.message == "why"
        assert fake.calls == 1


def test_details_of_an_error():
    def answer(_request, context, _call):
        wait = _wire.RetryInfo()
        wait.retry_delay.seconds = 2
        wait.retry_delay.nanos = 500_000_000
        fail(
            context,
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "full",
            _wire.ErrorInfo(reason="TENANT_QUOTA", domain="beamwright", metadata={"tenant": "a"}),
            wait,
        )

    with FakeServer(answer) as fake, beamwright.Client(fake.address) as client:
        with pytest.raises(beamwright.ResourceExhaustedError) as caught:
            client.decode("a")
    assert caught.value.retry_after == 2.5
    assert caught.value.reason == "TENANT_QUOTA"
    assert caught.value.metadata == {"tenant": "a"}


def test_details_that_nobody_can_read():
    def answer(_request, context, _call):
        context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff\xff"),))
        context.abort(grpc.StatusCode.INTERNAL, "a proxy's")

    with FakeServer(answer) as fake, beamwright.Client(fake.address) as client:
        with pytest.raises(beamwright.InternalError, match="a proxy's"):
            client.decode("a")


def failing(times, code=grpc.StatusCode.UNAVAILABLE, pushback=None):
    def answer(request, context, call):
        if call <= times:
            trailers = () if pushback is None else (("grpc-retry-pushback-ms", str(pushback)),)
            fail(context, code, "not now", trailers=trailers)
        return echo(request)

    return FakeServer(answer)


def test_unavailable_is_tried_again():
    with failing(2) as fake, beamwright.Client(fake.address) as client:
        assert client.decode("a").text == "a"
        assert fake.calls == 3
    with failing(3) as fake, beamwright.Client(fake.address) as client:
        with pytest.raises(beamwright.UnavailableError, match="not now"):
            client.decode("a")
        assert fake.calls == 3
    with failing(1) as fake, beamwright.Client(fake.address, max_attempts=1) as client:
        with pytest.raises(beamwright.UnavailableError):
            client.decode("a")
        assert fake.calls == 1

    async def main(address):
        async with beamwright.AsyncClient(address) as aio:
            return (await aio.decode("a")).text

    with failing(2) as fake:
        assert asyncio.run(main(fake.address)) == "a"
        assert fake.calls == 3


def test_the_servers_word_on_waiting_is_heeded():
    with failing(1, pushback=300) as fake, beamwright.Client(fake.address) as client:
        begin = time.monotonic()
        assert client.decode("a").text == "a"
        assert time.monotonic() - begin > 0.25  # a wait of our own would be 0.05 s at most
    with failing(1, pushback=-1) as fake, beamwright.Client(fake.address) as client:
        with pytest.raises(beamwright.UnavailableError):
            client.decode("a")
        assert fake.calls == 1


def test_a_full_server_is_asked_again_only_if_wanted():
    full = grpc.StatusCode.RESOURCE_EXHAUSTED
    with failing(1, full, 10) as fake, beamwright.Client(fake.address) as client:
        with pytest.raises(beamwright.ResourceExhaustedError):
            client.decode("a")
    with failing(1, full, 10) as fake, beamwright.Client(fake.address, retry_when_full=True) as client:
        assert client.decode("a").text == "a"
    with failing(1, full, -1) as fake, beamwright.Client(fake.address, retry_when_full=True) as client:
        with pytest.raises(beamwright.ResourceExhaustedError):
            client.decode("a")
        assert fake.calls == 1


def streams_of(outcomes):
    """A server whose next stream is the next outcome: its code, and whether a message comes before."""
    left = list(outcomes)

    def stream(request, context):
        code, begins = left.pop(0)
        if begins:
            yield _wire.StreamDecodeResponse(model="m")
        if code:
            context.abort(code, "not now")
        yield _wire.StreamDecodeResponse(decoded={"steps": len(left)}, model="m")

    return FakeServer(None, stream), left


UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("outcomes", "left"),
    [
        ([(UNAVAILABLE, False), (UNAVAILABLE, False), (None, True)], 0),  # tried again
        ([(UNAVAILABLE, False)] * 4, 1),  # three tries
        ([(UNAVAILABLE, True), (None, True)], 1),  # what began is not
        ([(grpc.StatusCode.INTERNAL, False), (None, True)], 1),
        ([(grpc.StatusCode.RESOURCE_EXHAUSTED, False), (None, True)], 1),
    ],
)
def test_streams_that_did_not_begin_are_tried_again(outcomes, left):
    async def read(address):
        async with beamwright.AsyncClient(address) as aio:
            return await aio.stream("a").result()

    calls = [lambda address: beamwright.Client(address).stream("a").result()]
    calls.append(lambda address: asyncio.run(read(address)))
    for call in calls:
        fake, kept = streams_of(outcomes)
        with fake:
            if outcomes[-1][0] is None and left == 0:
                assert call(fake.address).steps == 0
            else:
                with pytest.raises(beamwright.RpcError, match="not now"):
                    call(fake.address)
        assert len(kept) == left


def test_no_stream_waits_longer_than_its_timeout():
    """A server that asks for a longer wait than there is time is not waited for, nor asked again."""
    wait = _wire.RetryInfo()
    wait.retry_delay.seconds = 60
    tried = []

    def stream(request, context):
        tried.append(request)
        fail(context, UNAVAILABLE, "not now", wait)
        yield

    with FakeServer(None, stream) as fake, beamwright.Client(fake.address, max_attempts=5) as client:
        with pytest.raises(beamwright.UnavailableError):
            client.stream("a", timeout=50).result()
        assert len(tried) == 1


def test_grpc_is_told_to_retry_no_streams():
    """A stream with a retry policy whose server dies may wait for ever (test_fleet.py saw it)."""
    with beamwright.Client("localhost") as client:
        own = dict(client._settings.options)["grpc.service_config"]
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "deploy" / "grpc").glob("*.json")]
    assert len(files) == 2
    for text in (own, *files):
        streams = [
            one
            for one in json.loads(text)["methodConfig"]
            if {"service": "beamwright.v1.DecodeService", "method": "StreamDecode"} in one["name"]
        ]
        assert len(streams) == 1
        assert "retryPolicy" not in streams[0]


def test_closed(server):
    client = server.client()
    assert client.decode("cat").text
    client.close()
    client.close()
    calls = [
        lambda: client.decode("cat"),
        lambda: list(client.decode_many(["cat"])),
        lambda: client.stream("cat"),
        client.models,
        client.health,
    ]
    for call in calls:
        with pytest.raises(beamwright.ClientClosedError, match="make a new one"):
            call()
    assert "closed" in repr(client)


def test_closed_under_way():
    begun, release = threading.Event(), threading.Event()

    def answer(request, *_):
        begun.set()
        release.wait(60)
        return echo(request)

    with FakeServer(answer) as fake:
        for call in (lambda c: c.decode("a"), lambda c: list(c.decode_many(["a"]))):
            begun.clear()
            client = beamwright.Client(fake.address)
            errors = []

            def work(call=call, client=client, errors=errors):
                try:
                    call(client)
                except beamwright.BeamwrightError as error:
                    errors.append(error)

            thread = threading.Thread(target=work)
            thread.start()
            assert begun.wait(20)
            client.close()
            thread.join(20)
            assert [type(error) for error in errors] == [beamwright.ClientClosedError]
        release.set()


def test_headers_and_name_of_the_client():
    with FakeServer(lambda request, *_: echo(request)) as fake:
        headers = {"beamwright-priority": "1"}
        with beamwright.Client(fake.address, metadata=headers, token="abc") as client:
            client.decode("a")
        assert fake.metadata[0]["beamwright-priority"] == "1"
        assert fake.metadata[0]["authorization"] == "Bearer abc"
        assert fake.metadata[0]["user-agent"].startswith("beamwright-python/")
