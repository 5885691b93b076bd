#!/usr/bin/env python3
"""Decodes a folder of text files, a source a line, on a Ray cluster; started again, it goes on where it stopped.

    examples/decode_lines_with_ray.py lines/ answers/ --server dns:///replicas.example:8001 --workers 16

Each file becomes a folder of Parquet files in the output, with `_SUCCESS` in it when it is whole: what is not is decoded
anew. A cluster is found by RAY_ADDRESS; without one Ray starts on this machine. With a server on every machine of the
cluster, `--server localhost` lets each worker use its own machine's. docs/scaling.md has figures.
"""

import argparse
import pathlib
import shutil
import time

import ray

import beamwright.ray


def main():
    parser = argparse.ArgumentParser(description="Decodes a folder of text files on a Ray cluster.")
    parser.add_argument("lines", type=pathlib.Path)
    parser.add_argument("answers", type=pathlib.Path)
    parser.add_argument("--server", required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--beam-size", type=int)
    arguments = parser.parse_args()
    ray.init(include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    for part in sorted(arguments.lines.iterdir()):
        folder = arguments.answers / part.name
        if (folder / "_SUCCESS").exists():
            print(f"{part.name}: done before", flush=True)
            continue
        shutil.rmtree(folder, ignore_errors=True)
        begin = time.monotonic()
        # Blocks that all workers share: a file alone is one.
        lines = ray.data.read_text(str(part)).repartition(4 * arguments.workers)
        beamwright.ray.decode(lines, arguments.server, workers=arguments.workers,
                              beam_size=arguments.beam_size).write_parquet(str(folder))
        count = ray.data.read_parquet(str(folder)).count()
        (folder / "_SUCCESS").touch()
        print(f"{part.name}: {count} lines, {count / (time.monotonic() - begin):.0f} a second", flush=True)


if __name__ == "__main__":
    main()
