"""perf_analyzer, kind triton: unary, asynchronous and streaming over gRPC, and HTTP, with the server's statistics
beside its own figures."""

import csv
import json
import pathlib
import tempfile

import served
import tool

# Parameters it can set over gRPC alone.
GRPC = ["-i", "grpc", "--request-parameter", "beam_size:5:int", "--request-parameter", "n_best:1:int"]
WAYS = {
    "unary": GRPC,
    "async": [*GRPC, "--async"],
    "stream": [*GRPC, "--async", "--streaming"],
    "http": ["-i", "http"],
}


def main():
    tool.path("perf_analyzer")
    with tempfile.TemporaryDirectory() as folder, served.server() as (grpc, http, _):
        scratch = pathlib.Path(folder)
        data = {"data": [{"source_text": [word]} for word in served.WORDS]}
        (scratch / "data.json").write_text(json.dumps(data))
        for way, arguments in WAYS.items():
            address = http if way == "http" else grpc
            output = tool.run(
                "perf_analyzer", "-m", "g2p-en", "-u", address, *arguments,
                "--input-data", scratch / "data.json", "--shape", "source_text:1",
                "--concurrency-range", "4:4", "--measurement-mode", "count_windows", "--measurement-request-count", 100,
                "--stability-percentage", 999,  # a figure is not what is tested
                "-f", scratch / f"{way}.csv")
            with (scratch / f"{way}.csv").open() as file:
                row = next(csv.DictReader(file))
            served.check(float(row["Inferences/Second"]) > 0, output)
            # The server's share, from ModelStatistics.
            served.check("compute infer" in output and float(row["Server Compute Infer"]) > 0, output)
            print(f"perf_analyzer {way}: {row['Inferences/Second']} inferences/s")


if __name__ == "__main__":
    main()
