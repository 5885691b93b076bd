"""A server for the scripts of this folder: SCRIPT BIN MODEL."""

import contextlib
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

# The command line's own answer for these words is what the clients' answers are held against.
WORDS = ["recurrent", "cat", "internationalization"]


def expected(grpc, words=None, beam_size=5, n_best=3):
    """What `beamwright decode --json` says: for each word its hypotheses (text, tokens, score)."""
    import json
    done = subprocess.run(
        [pathlib.Path(sys.argv[1]) / "beamwright", "decode", "--server", grpc, "--json",
         "--beam-size", str(beam_size), "--n-best", str(n_best), *(words or WORDS)],
        check=True, capture_output=True, text=True)
    results = [json.loads(line)["result"]["decoded"]["hypotheses"]
               for line in done.stdout.splitlines()]
    return [[(h["text"], h["tokens"], h["score"]) for h in result] for result in results]


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def check_answer(texts, ids, scores, lengths, counts, answers):
    """Tensors (as nested lists, texts as bytes or str) against expected()."""
    for row, hypotheses in enumerate(answers):
        check(counts[row][0] == len(hypotheses), f"num_hypotheses of source {row}")
        for rank, (text, tokens, score) in enumerate(hypotheses):
            got = texts[row][rank]
            got = got.decode() if isinstance(got, bytes) else got
            check(got == text, f"text {got!r}, expected {text!r}")
            check(scores[row][rank] == score, f"score {scores[row][rank]}, expected {score}")
            check(lengths[row][rank] == len(tokens), "length")
            padded = list(ids[row][rank])
            check(padded[:len(tokens)] == tokens and set(padded[len(tokens):]) <= {-1}, "ids")


@contextlib.contextmanager
def server(*arguments):
    """Yields (gRPC address, HTTP address, process); process.metrics is where probes and metrics are, process.websocket the port."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        log = scratch / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [pathlib.Path(sys.argv[1]) / "beamwright-server", "--model-path", sys.argv[2],
                 "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0",
                 "--metrics-address", "127.0.0.1:0", "--admin-address", "none",
                 "--ports-file", scratch / "ports", *arguments],
                stdout=output, stderr=subprocess.STDOUT)
        try:
            until = time.monotonic() + 120
            while not (scratch / "ports").exists():
                check(process.poll() is None and time.monotonic() < until, log.read_text())
                time.sleep(0.05)
            ports = dict(map(str.split, (scratch / "ports").read_text().splitlines()))
            process.metrics = "127.0.0.1:" + ports["metrics"]
            process.websocket = ports.get("websocket")
            yield f"127.0.0.1:{ports['grpc']}", f"127.0.0.1:{ports['http']}", process
            process.send_signal(signal.SIGINT)
            check(process.wait(60) == 0, f"exit code {process.returncode}\n{log.read_text()}")
        finally:
            process.kill()
            process.wait()
