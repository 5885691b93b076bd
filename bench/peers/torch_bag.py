"""PyTorch's EmbeddingBag, in a separate process: torch comes from the distribution (python3-torch).

    /usr/bin/python3 bench/peers/torch_bag.py ROWS WIDTH INDICES SEGMENTS THREADS SECONDS wall|cpu

Prints the version and the median seconds of a call.
"""

import statistics
import sys
import time

import torch


def main() -> None:
    rows, width, indices, segments, threads = map(int, sys.argv[1:6])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    table = torch.rand(rows, width)
    ids = torch.randint(rows, (indices,))
    offsets = torch.arange(segments) * indices // segments
    now = time.process_time if sys.argv[7] == "cpu" else time.perf_counter
    times = []
    with torch.no_grad():
        torch.nn.functional.embedding_bag(ids, table, offsets, mode="sum")
        end = time.perf_counter() + float(sys.argv[6])
        while time.perf_counter() < end:
            start = now()
            torch.nn.functional.embedding_bag(ids, table, offsets, mode="sum")
            times.append(now() - start)
    print(torch.__version__, statistics.median(times))


if __name__ == "__main__":
    main()
