"""perf_analyzer, kind triton: unary, asynchronous and streaming over gRPC, and HTTP, with the server's statistics
next to perf_analyzer's figures."""

import csv
import json
import pathlib
import re
import sys
import tempfile

import served
import tool

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/frames"))
from served_tones import make_bundle, tones  # noqa: E402

# Parameters it can set over gRPC alone.
GRPC = ["-i", "grpc", "--request-parameter", "beam_size:5:int", "--request-parameter", "n_best:1:int"]
WAYS = {
    "unary": GRPC,
    "async": [*GRPC, "--async"],
    "stream": [*GRPC, "--async", "--streaming"],
    "http": ["-i", "http"],
}


def measure(address, model, data, *arguments):
    """(what it printed, the row of its table) of a short measurement with four sequences or requests at once."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        (scratch / "data.json").write_text(json.dumps({"data": data}))
        output = tool.run(
            "perf_analyzer", "-m", model, "-u", address, *arguments, "--input-data", scratch / "data.json",
            "--concurrency-range", "4:4", "--measurement-mode", "count_windows", "--measurement-request-count", 100,
            "--stability-percentage", 999,  # a figure is not what is tested
            "-f", scratch / "table.csv")
        with (scratch / "table.csv").open() as file:
            return output, next(csv.DictReader(file))


def words():
    data = [{"source_text": [word]} for word in served.WORDS]
    with served.server() as (grpc, http, _):
        for way, arguments in WAYS.items():
            address = http if way == "http" else grpc
            output, row = measure(address, "g2p-en", data, *arguments, "--shape", "source_text:1")
            served.check(float(row["Inferences/Second"]) > 0, output)
            # The server's share, from ModelStatistics.
            served.check("compute infer" in output and float(row["Server Compute Infer"]) > 0, output)
            print(f"perf_analyzer {way}: {row['Inferences/Second']} inferences/s")


def sequences():
    """Recordings in three pieces each: it sends sequences because the model's configuration says that it takes them."""
    sound = [sample / 32768 for sample in tones([3, 17, 8])]
    size = len(sound) // 3
    pieces = [sound[i * size:(i + 1) * size] for i in range(3)]
    data = [[{"source_audio": {"content": piece, "shape": [size]}} for piece in pieces] for _ in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        make_bundle(pathlib.Path(folder) / "models/tones/1")
        with served.server("--model-repository", pathlib.Path(folder) / "models") as (grpc, _, _):
            output, row = measure(grpc, "tones", data, "-i", "grpc", "--async", "--streaming")
    served.check(re.search(r"Sequence count: [1-9]", output) and "[ERROR]" not in output, output)
    print(f"perf_analyzer sequences: {row['Inferences/Second']} inferences/s")


def main():
    tool.path("perf_analyzer")
    words()
    sequences()


if __name__ == "__main__":
    main()
