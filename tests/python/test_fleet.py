"""Two replicas behind one client, and what it does when one of them is harmed."""

import asyncio
import concurrent.futures
import json
import os
import signal

import pytest
from conftest import MODEL, ROOT, WORDS

import beamwright

# Some of these take a second, so that they do not end before something happens.
LONG = {"min_length": 100, "max_length": 100, "beam_size": 32}
CONFIG = ROOT / "deploy" / "grpc" / "round_robin.json"


@pytest.fixture
def replicas():
    # Calls that a busy machine keeps waiting are answered all the same.
    settings = {"threads": 1, "forecast_deadlines": False, "drain_delay": "0", "drain_timeout": "120s"}
    with beamwright.serve(MODEL, **settings) as one, beamwright.serve(MODEL, **settings) as other:
        yield one, other
        for server in (one, other):
            if server.running:
                os.kill(server.pid, signal.SIGCONT)


def both(replicas):
    """The target of gRPC that has both addresses."""
    return "ipv4:" + ",".join(server.address for server in replicas)


def impatient(seconds):
    """The service config of deploy/grpc with another time for an attempt."""
    config = json.loads(CONFIG.read_text(encoding="utf-8"))
    # Round robin may give a call to the same replica again and again, here three times at most.
    config["methodConfig"][0]["retryPolicy"] |= {"perAttemptRecvTimeout": f"{seconds}s", "maxAttempts": 5}
    return config


def decode_all(client, words, after_the_first):
    """Texts of words that threads ask for; `after_the_first` is called while they do."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(client.decode, word, timeout=120) for word in words]
        next(concurrent.futures.as_completed(calls))
        after_the_first()
        return [call.result().text for call in calls]


def test_a_replica_that_is_killed_costs_no_call(replicas):
    words = WORDS[:200]
    with beamwright.Client(both(replicas)) as client:
        expected = [answer.text for answer in client.decode_many(words, batch_size=10)]
        assert decode_all(client, words, lambda: os.kill(replicas[0].pid, signal.SIGKILL)) == expected
        # What comes later goes to the other one alone.
        assert [answer.text for answer in client.decode_many(words, batch_size=10)] == expected


def test_nor_one_that_is_drained(replicas):
    words = WORDS[:200]
    with beamwright.Client(both(replicas), service_config=CONFIG) as client:
        expected = [answer.text for answer in client.decode_many(words, batch_size=10)]
        assert decode_all(client, words, lambda: replicas[0].stop(150)) == expected
    assert replicas[0].returncode == 0


def test_the_same_for_asyncio(replicas):
    words = WORDS[:100]

    async def run():
        async with beamwright.AsyncClient(both(replicas), service_config=impatient(20)) as client:
            expected = [(await client.decode(word)).text for word in words]
            calls = [asyncio.ensure_future(client.decode(word, timeout=120)) for word in words]
            await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            os.kill(replicas[1].pid, signal.SIGKILL)
            assert [answer.text for answer in await asyncio.gather(*calls)] == expected

    asyncio.run(run())


@pytest.mark.parametrize(
    "arguments",
    [{"service_config": impatient(4)}, {"keepalive": 2}],
    ids=["time of an attempt", "keepalive"],
)
def test_a_replica_that_is_frozen(replicas, arguments):
    with beamwright.Client(both(replicas), timeout=120, **arguments) as client:
        # Until both connections are open.
        expected = {client.decode("recurrent").text for _ in range(4)}
        os.kill(replicas[0].pid, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            calls = [pool.submit(client.decode, "recurrent") for _ in range(6)]
            assert {call.result().text for call in calls} == expected


def read(stream):
    """The stable tokens of a stream, and its answer, or None if its replica died."""
    stable = []
    try:
        for update in stream:
            stable += [token for one in update.stable for token in one.tokens]
            if update.result:
                return stable, update.result
    except beamwright.UnavailableError:
        pass
    return stable, None


def test_streams_whose_replica_dies_are_told_and_go_on_elsewhere(replicas):
    with replicas[0].client(timeout=120) as client, replicas[1].client(timeout=120) as other:
        streams = [client.stream("recurrent", provisional=True, **LONG) for _ in range(4)]
        next(streams[0])
        os.kill(replicas[0].pid, signal.SIGKILL)
        ends = [read(stream) for stream in streams]
        assert any(result is None for _, result in ends)
        whole = other.decode("recurrent", **LONG)
        for stable, result in ends:
            assert whole.tokens[: len(stable)] == tuple(stable)
            assert result is None or result.tokens == whole.tokens
        known = max((stable for stable, _ in ends), key=len)[:50]
        rest = other.stream("recurrent", target_prefix=known or None, **LONG).result()
        assert rest.tokens[: len(known)] == tuple(known)


def test_streams_end_while_their_replica_drains(replicas):
    with replicas[0].client(timeout=120) as client, replicas[1].client(timeout=120) as other:
        streams = [client.stream("recurrent", provisional=True, **LONG) for _ in range(4)]
        for stream in streams:
            next(stream)  # its search runs: a call that only waits is refused as unavailable
        # One signal and no second, which would end it at once.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            stopped = pool.submit(replicas[0].stop, 150)
            ends = [read(stream)[1] for stream in streams]
        expected = other.decode("recurrent", **LONG).tokens
        assert [result.tokens for result in ends if result] == [expected] * 4
        with pytest.raises(beamwright.UnavailableError):
            client.decode("cat", timeout=60)
        stopped.result()
    assert replicas[0].returncode == 0


@pytest.mark.parametrize(
    ("config", "kind", "message"),
    [
        (3, beamwright.ArgumentTypeError, "service_config is int"),
        ("/nowhere.json", FileNotFoundError, "service_config: No such file"),
        ({"a": {1}}, beamwright.InvalidArgumentError, "cannot be written as JSON"),
    ],
)
def test_service_configs_that_are_none(config, kind, message):
    with pytest.raises(kind, match=message):
        beamwright.Client("localhost", service_config=config)


def test_files_that_are_no_service_config(tmp_path):
    file = tmp_path / "config.json"
    for text, message in {"{": "not JSON", "[]": "not a JSON object"}.items():
        file.write_text(text, encoding="utf-8")
        with pytest.raises(beamwright.InvalidArgumentError, match=message):
            beamwright.Client("localhost", service_config=file)
