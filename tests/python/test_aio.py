"""Calls of AsyncClient against the real server."""

import asyncio

import pytest
from conftest import FakeServer, echo

import beamwright


def test_every_call(server, client):
    async def main():
        async with server.async_client() as aio:
            assert await aio.decode("recurrent", n_best=3) == client.decode("recurrent", n_best=3)
            assert await aio.score("read", "R EH1 D") == client.score("read", "R EH1 D")
            assert await aio.align("read", "R EH1 D") == client.align("read", "R EH1 D")
            assert await aio.models() == client.models()
            assert await aio.describe() == client.describe()
            assert await aio.health() is beamwright.Health.SERVING
            updates = [update async for update in aio.stream("recurrent")]
            assert updates[-1].result.text == "R IY0 K ER1 AH0 N T"
            async with aio.stream("cat") as stream:
                assert (await stream.result()).text == "K AE1 T"
            with pytest.raises(beamwright.InvalidArgumentError, match="beam_size"):
                await aio.decode("cat", beam_size=1000)
            with pytest.raises(beamwright.InvalidArgumentError):
                async for _ in aio.stream(""):
                    pass

    asyncio.run(main())


def test_many(server, client, words):
    expected = list(client.decode_many(words[:60]))

    async def produce():
        for word in words[:60]:
            await asyncio.sleep(0)
            yield word

    async def main():
        async with server.async_client() as aio:
            assert [answer async for answer in aio.decode_many(words[:60], batch_size=7)] == expected
            assert [answer async for answer in aio.decode_many(produce())] == expected
            results = [one async for one in aio.decode_many(["cat", "", 3.5], on_error="return")]
            [wrong] = [one async for one in aio.decode_many([3.5], on_error="return")]  # no call is sent
            assert isinstance(wrong, beamwright.ArgumentTypeError)
            assert [getattr(one, "index", None) for one in results] == [None, 1, None]
            with pytest.raises(beamwright.InvalidArgumentError, match="source 1"):
                _ = [one async for one in aio.decode_many(["cat", "", "dog"])]
            with pytest.raises(beamwright.NotFoundError):
                _ = [one async for one in aio.decode_many(["cat"], model="nowhere")]
            with pytest.raises(beamwright.ArgumentTypeError, match="iterable"):
                aio.decode_many(3)
            left = aio.decode_many(words)
            await anext(left)
            await left.aclose()

    asyncio.run(main())


def test_many_at_once(server, client, words):
    async def main():
        async with server.async_client() as aio:
            return await asyncio.gather(*(aio.decode(word) for word in words[:40]))

    assert asyncio.run(main()) == [client.decode(word) for word in words[:40]]


def test_one_loop_after_another(server):
    aio = server.async_client()
    for _ in range(3):
        assert asyncio.run(aio.decode("cat")).text == "K AE1 T"


def test_a_task_that_is_cancelled():
    async def main():
        with FakeServer(lambda request, *_: echo(request)) as fake:
            async with beamwright.AsyncClient(fake.address) as aio:
                task = asyncio.create_task(aio.decode("x"))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (await aio.decode("y")).text == "y"

    asyncio.run(main())


def test_closed(server):
    async def main():
        aio = server.async_client()
        await aio.decode("cat")
        await aio.close()
        await aio.close()
        with pytest.raises(beamwright.ClientClosedError, match="make a new one"):
            await aio.decode("cat")
        assert "closed" in repr(aio)

    asyncio.run(main())
