"""Triton Inference Server with a Python backend: the same search behind its dynamic batcher.

    /usr/bin/python3 -m venv build/venv-triton && build/venv-triton/bin/pip install -r bench/requirements-triton.txt
    build/venv-triton/bin/python bench/peers/triton_server.py --bundle DIR --grpc-port 8001

Model `decode`: source_ids INT32 [sources, length] in; ids INT32 [sources, n_best, steps] and scores FP32
[sources, n_best] out, as in our own Open Inference Protocol. All sources of a batch have one length, which is
what Triton's dynamic batcher puts together without ragged batches.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402
from pytriton.decorators import batch  # noqa: E402
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor  # noqa: E402
from pytriton.triton import Triton, TritonConfig  # noqa: E402

from peers.numpy_search import Search  # noqa: E402


def infer_function(args: argparse.Namespace) -> object:
    search = Search(args.bundle, args.beam, 1)

    @batch
    def infer(source_ids: np.ndarray) -> dict[str, np.ndarray]:
        answers = search.decode(source_ids.tolist(), [args.steps] * len(source_ids), args.beam)
        return {"ids": np.array([answer.tokens for answer in answers], np.int32),
                "scores": np.array([answer.log_probs for answer in answers], np.float32)}
    return infer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--grpc-port", type=int, default=8001)
    parser.add_argument("--http-port", type=int, default=8000)
    parser.add_argument("--metrics-port", type=int, default=8002)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--delay-us", type=int, default=0, help="how long a batch waits for company")
    parser.add_argument("--instances", type=int, default=1)
    args = parser.parse_args()
    config = TritonConfig(http_address="127.0.0.1", http_port=args.http_port, grpc_address="127.0.0.1",
                          grpc_port=args.grpc_port, metrics_port=args.metrics_port)
    with Triton(config=config) as triton:
        triton.bind(
            model_name="decode", infer_func=[infer_function(args) for _ in range(args.instances)],
            inputs=[Tensor(name="source_ids", dtype=np.int32, shape=(-1,))],
            outputs=[Tensor(name="ids", dtype=np.int32, shape=(-1, -1)),
                     Tensor(name="scores", dtype=np.float32, shape=(-1,))],
            config=ModelConfig(max_batch_size=args.batch,
                               batcher=DynamicBatcher(max_queue_delay_microseconds=args.delay_us)))
        triton.serve()


if __name__ == "__main__":
    main()
