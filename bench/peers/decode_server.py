"""A decode server as a team would write it in Python: grpc.aio, dynamic batching, ONNX Runtime, NumPy.

    build/venv-peers/bin/python bench/peers/decode_server.py --bundle DIR --port 8001 [--processes 2]

It speaks beamwright.v1.DecodeService, so that the same load generator drives it and us, for bundles of
bench/random_bundle.py. Calls wait until the decoder is free; then all that wait (after at most --window
ms for company) are sorted by source length, so that neighbours need little padding, and decoded in batches
of at most --batch sources. While one batch runs, the next gathers. With --processes N the kernel spreads
connections over N of them.
"""

import argparse
import asyncio
import importlib
import math
import multiprocessing
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import grpc  # noqa: E402
from grpc_tools import protoc  # noqa: E402

from peers.numpy_search import Answer, Search  # noqa: E402

PROTO = Path(__file__).resolve().parents[2] / "proto"


def stubs() -> tuple[object, object]:
    """The messages and services of beamwright/v1/decode.proto, generated."""
    folder = tempfile.mkdtemp(prefix="beamwright-stubs-")
    files = ["beamwright/v1/decode.proto", "beamwright/v1/rule.proto", "google/rpc/status.proto"]
    if protoc.main(["protoc", f"-I{PROTO}", f"-I{Path(protoc.__file__).parent / '_proto'}",
                    f"--python_out={folder}", f"--grpc_python_out={folder}", *files]) != 0:
        raise RuntimeError("protoc failed")
    sys.path.insert(0, folder)
    return (importlib.import_module("beamwright.v1.decode_pb2"),
            importlib.import_module("beamwright.v1.decode_pb2_grpc"))


@dataclass
class Request:
    source: list[int]
    steps: int
    n_best: int
    answer: asyncio.Future


class Batcher:
    """Gathers requests while the decoder works on others."""

    def __init__(self, search: Search, batch: int, window: float) -> None:
        self.search = search
        self.batch = batch
        self.window = window
        self.waiting: list[Request] = []
        self.arrived = asyncio.Event()
        self.worker = ThreadPoolExecutor(1)

    async def decode(self, source: list[int], steps: int, n_best: int) -> Answer:
        request = Request(source, steps, n_best, asyncio.get_running_loop().create_future())
        self.waiting.append(request)
        self.arrived.set()
        return await request.answer

    async def run(self) -> None:
        while True:
            await self.arrived.wait()
            if self.window > 0 and len(self.waiting) < self.batch:
                await asyncio.sleep(self.window)
            taken, self.waiting = self.waiting, []
            self.arrived.clear()
            taken.sort(key=lambda request: len(request.source))
            for start in range(0, len(taken), self.batch):
                await self.decode_batch(taken[start:start + self.batch])

    async def decode_batch(self, requests: list[Request]) -> None:
        n_best = max(request.n_best for request in requests)
        try:
            answers = await asyncio.get_running_loop().run_in_executor(
                self.worker, self.search.decode, [request.source for request in requests],
                [request.steps for request in requests], n_best)
        except Exception as error:  # the callers get it; the server goes on
            for request in requests:
                if not request.answer.done():
                    request.answer.set_exception(error)
            return
        for request, answer in zip(requests, answers):
            if not request.answer.done():  # its caller may have gone
                request.answer.set_result(answer)


def fill(answer: Answer, n_best: int, result: object) -> None:
    for tokens, log_prob in zip(answer.tokens[:n_best], answer.log_probs):
        hypothesis = result.decoded.hypotheses.add(log_prob=log_prob, score=log_prob)
        hypothesis.tokens.extend(tokens)
        hypothesis.text = " ".join(map(str, tokens))


async def serve(args: argparse.Namespace) -> None:
    messages, services = stubs()
    batcher = Batcher(Search(args.bundle, args.beam, args.threads), args.batch, args.window / 1e3)

    class Service(services.DecodeServiceServicer):
        async def Decode(self, request: object, context: grpc.aio.ServicerContext) -> object:
            options = request.options
            n_best = max(1, options.n_best)
            if options.beam_size not in (0, args.beam) or n_best > args.beam:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the beam is {args.beam}")
            sources = [list(source.ids.ids) or [int(token) for token in source.text.split()]
                       for source in request.sources]
            answers = await asyncio.gather(*(
                batcher.decode(source, options.max_length or math.ceil(
                    options.max_length_factor * len(source)) + options.max_length_offset, n_best)
                for source in sources))
            response = messages.DecodeResponse(model=args.bundle.name)
            for answer in answers:
                fill(answer, n_best, response.results.add())
            return response

    server = grpc.aio.server(options=[("grpc.so_reuseport", 1)])
    services.add_DecodeServiceServicer_to_server(Service(), server)
    if server.add_insecure_port(f"127.0.0.1:{args.port}") == 0:
        raise RuntimeError(f"cannot listen on port {args.port}")
    await server.start()
    print("ready", flush=True)
    await batcher.run()


def process(args: argparse.Namespace) -> None:
    asyncio.run(serve(args))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="most sources decoded together")
    parser.add_argument("--window", type=float, default=1, help="ms a lonely request waits for company")
    parser.add_argument("--threads", type=int, default=1, help="of ONNX Runtime, in each process")
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    others = [multiprocessing.get_context("spawn").Process(target=process, args=(args,), daemon=True)
              for _ in range(args.processes - 1)]
    for other in others:
        other.start()
    try:
        process(args)
    except KeyboardInterrupt:
        pass
    finally:
        for other in others:
            other.terminate()


if __name__ == "__main__":
    main()
