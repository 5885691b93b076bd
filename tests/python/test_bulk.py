"""decode_many: order, laziness, errors in their places."""

import asyncio
import itertools
import sys
import threading

import grpc
import numpy as np
import pytest
from conftest import FakeServer, details, echo, fail

import beamwright
from beamwright import Code, _wire


def test_answers_come_in_order_and_equal_single_ones(client, words):
    answers = list(client.decode_many(words[:100], batch_size=7, beam_size=2))
    assert [answer.source for answer in answers] == words[:100]
    assert answers[50] == client.decode(words[50], beam_size=2)
    assert list(client.decode_many([])) == []
    assert list(client.decode_many(iter(words[:3]), batch_size=1, max_in_flight=1)) == answers[:0] + [
        client.decode(word) for word in words[:3]
    ]


def test_takes_no_more_than_it_needs(client, words):
    taken = 0

    def endless():
        nonlocal taken
        for word in itertools.cycle(words):
            taken += 1
            yield word

    answers = client.decode_many(endless(), batch_size=4, max_in_flight=3)
    assert taken == 0
    next(answers)
    assert taken <= 12
    for _ in range(20):
        next(answers)
    assert taken <= 21 + 12
    answers.close()


def test_one_at_a_time_waits_for_the_consumer(client):
    """A source may depend on the answer before."""
    answered = []

    def sources():
        yield "cat"
        for _ in range(3):
            assert answered
            yield "dog" if answered[-1].source == "cat" else "cat"

    for answer in client.decode_many(sources(), batch_size=1, max_in_flight=1):
        answered.append(answer)
    assert [answer.source for answer in answered] == ["cat", "dog", "cat", "dog"]


def test_errors_stand_in_their_places(client):
    mixed = ["cat", "", "dog", 3.5, [1, 10**6], None, "cow", "\ud800"]
    results = list(client.decode_many(mixed, on_error="return", batch_size=4))
    assert [type(result).__name__ for result in results] == [
        "Decoded",
        "InvalidArgumentError",
        "Decoded",
        "ArgumentTypeError",
        "InvalidArgumentError",
        "ArgumentTypeError",
        "Decoded",
        "InvalidArgumentError",
    ]
    assert results[1].index == 1
    assert results[4].index == 4
    assert results[4].violations[0].maximum == 29
    assert results[7].index == 7
    assert "source 3" in str(results[3])


def test_a_batch_of_nothing_but_faults(client):
    for faults in (["", ""], [None, 2.5]):
        results = list(client.decode_many(["cat", *faults, "dog"], on_error="return", batch_size=1))
        assert [isinstance(result, beamwright.Decoded) for result in results] == [True, False, False, True]
        together = list(client.decode_many(faults, on_error="return"))
        assert all(isinstance(result, beamwright.BeamwrightError) for result in together)


def test_the_first_fault_is_raised_in_its_place(client):
    answers = client.decode_many(["cat", "", "dog"])
    assert next(answers).text == "K AE1 T"
    with pytest.raises(beamwright.InvalidArgumentError, match="source 1: .*is empty") as caught:
        next(answers)
    assert caught.value.index == 1


def test_what_fails_every_call_ends_it(client):
    for on_error in ("raise", "return"):
        with pytest.raises(beamwright.NotFoundError):
            list(client.decode_many(["cat"] * 100, model="nowhere", on_error=on_error))
        with pytest.raises(beamwright.InvalidArgumentError, match="beam_size"):
            list(client.decode_many(["cat"] * 100, beam_size=500, on_error=on_error))


def test_arguments_are_checked_before_anything_is_sent(client):
    with pytest.raises(beamwright.ArgumentTypeError, match="decode takes one source"):
        client.decode_many("cat")
    with pytest.raises(beamwright.InvalidArgumentError, match="batch_size"):
        client.decode_many(["cat"], batch_size=0)
    with pytest.raises(beamwright.InvalidArgumentError, match="on_error"):
        client.decode_many(["cat"], on_error="ignore")
    with pytest.raises(beamwright.ArgumentTypeError, match="did you mean beam_size"):
        client.decode_many(["cat"], beamsize=3)
    with pytest.raises(beamwright.ArgumentTypeError, match="iterable"):
        client.decode_many(3)


def test_sources_beyond_a_mebibyte_go_out_earlier():
    sizes = []

    def answer(request, *_):
        sizes.append(len(request.sources))
        response = _wire.DecodeResponse()
        for _source in request.sources:
            response.results.add().decoded.SetInParent()
        return response

    with FakeServer(answer) as fake, beamwright.Client(fake.address) as client:
        frames = [np.zeros((1000, 80), np.float32)] * 10
        assert len(list(client.decode_many(frames))) == 10
    assert max(sizes) == 4


def test_sources_that_the_server_had_no_room_to_tell_of():
    def answer(_request, context, _call):
        errors = _wire.SourceErrors(num_left_out=1)
        error = errors.errors.add()
        error.error.code = 3
        error.error.message = "first"
        error.sources.add(first=0, count=2)
        fail(context, grpc.StatusCode.INVALID_ARGUMENT, "all failed", errors)

    with FakeServer(answer) as fake, beamwright.Client(fake.address) as client:
        results = list(client.decode_many(["a", "b", "c"], on_error="return"))
        assert [result.message for result in results] == ["first", "first", "all failed"]
        assert [result.index for result in results] == [0, 1, 2]


def test_a_call_that_failed_gives_its_error_to_its_sources():
    def answer(request, context, call):
        if call == 1:
            context.abort(grpc.StatusCode.INTERNAL, "oops")
        return echo(request)

    with FakeServer(answer) as fake, beamwright.Client(fake.address) as client:
        sources = [str(i) for i in range(6)]
        results = list(
            client.decode_many(sources, batch_size=2, max_in_flight=1, on_error="return")
        )
        assert [isinstance(one, beamwright.InternalError) for one in results] == [True] * 2 + [False] * 4
        assert [one.text for one in results[2:]] == sources[2:]


def test_a_server_that_gives_too_few_results():
    def answer(*_):
        return _wire.DecodeResponse()

    with FakeServer(answer) as fake, beamwright.Client(fake.address) as client:
        with pytest.raises(beamwright.InternalError, match="0 results for 2 sources"):
            list(client.decode_many(["a", "b"]))
        with pytest.raises(beamwright.InternalError, match="0 results for one source"):
            client.decode("a")


def test_leaving_early_cancels_what_is_under_way():
    release, all_here = threading.Event(), threading.Event()
    cancelled = threading.Semaphore(0)

    def answer(request, context, _call):
        if request.sources[0].text == "0":
            all_here.wait(60)
        else:
            context.add_callback(cancelled.release)
            all_here.set()
            release.wait(60)
        return echo(request)

    with FakeServer(answer) as fake, beamwright.Client(fake.address) as client:
        answers = client.decode_many([str(i) for i in range(9)], batch_size=1, max_in_flight=3)
        next(answers)
        answers.close()
        assert cancelled.acquire(timeout=60)
        release.set()


def test_progress(client, capsys, monkeypatch):
    assert len(list(client.decode_many(["cat"] * 5, progress=True))) == 5
    assert "5/5" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.warns(UserWarning, match="pip install tqdm"):
        answers = client.decode_many(["cat"], progress=True)
    assert len(list(answers)) == 1


def refusing(times, code, wait):
    """Refuses the odd sources of the first `times` calls, asking the client to try again."""

    def answer(request, _context, call):
        response = echo(request)
        for place, source in enumerate(request.sources):
            if call <= times and int(source.text) % 2:
                error = response.results[place].error
                error.ParseFromString(details(code, "come back", _wire.RetryInfo(retry_delay=wait)))
        return response

    return FakeServer(answer)


def everything(address, **arguments):
    with beamwright.Client(address, **arguments) as client:
        return list(client.decode_many(["0", "1", None, "2", "3"], on_error="return"))


async def everything_async(address, **arguments):
    async with beamwright.AsyncClient(address, **arguments) as client:
        return [one async for one in client.decode_many(["0", "1", None, "2", "3"], on_error="return")]


SOON = {"nanos": 1_000_000}


@pytest.mark.parametrize("run", [everything, lambda *a, **k: asyncio.run(everything_async(*a, **k))])
def test_sources_that_are_asked_to_come_back(run):
    with refusing(2, Code.UNAVAILABLE, SOON) as fake:
        answers = run(fake.address)
        assert [getattr(one, "source", None) for one in answers] == ["0", "1", None, "2", "3"]
        assert [getattr(one, "text", None) for one in answers] == ["0", "1", None, "2", "3"]
        assert fake.calls == 3
    with refusing(9, Code.UNAVAILABLE, SOON) as fake:
        # The second time none has an answer here but results all the same, as of an old server.
        answers = run(fake.address)
        assert [type(one).__name__ for one in answers[:2]] == ["Decoded", "UnavailableError"]
        assert (answers[1].index, answers[4].index) == (1, 4)
        assert fake.calls == 3
    with refusing(9, Code.RESOURCE_EXHAUSTED, SOON) as fake:
        assert isinstance(run(fake.address)[1], beamwright.ResourceExhaustedError)
        assert fake.calls == 1
    with refusing(1, Code.RESOURCE_EXHAUSTED, SOON) as fake:
        assert run(fake.address, retry_when_full=True)[4].text == "3"
    with refusing(1, Code.UNAVAILABLE, {"seconds": 99}) as fake:
        assert isinstance(run(fake.address)[1], beamwright.UnavailableError)
        assert fake.calls == 1
    with refusing(1, Code.UNAVAILABLE, SOON) as fake:
        assert isinstance(run(fake.address, max_attempts=1)[1], beamwright.UnavailableError)
