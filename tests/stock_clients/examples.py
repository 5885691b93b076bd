"""The examples of client code in Python, Go, C++ and for curl: each says what the command line does."""

import os
import pathlib
import subprocess
import sys

import served
import tool

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "examples" / "clients"
WORDS = ["recurrent", "cat"]


def main():
    go = tool.path("go-example/decode")
    with served.server() as (grpc, http, _):
        best = [answer[0][0] for answer in served.expected(grpc, WORDS, beam_size=8, n_best=1)]
        programs = {
            "Python": (grpc, [sys.executable, CLIENTS / "decode.py"]),
            "Go": (grpc, [go]),
            "C++": (grpc, [pathlib.Path(sys.argv[1]) / "beamwright-example-decode"]),
            "curl": (http, ["sh", CLIENTS / "decode.sh"]),
        }
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "client" / "python" / "src"))
        for language, (address, command) in programs.items():
            done = subprocess.run([*map(str, command), address, *WORDS], capture_output=True, text=True,
                                  env=environment, timeout=120)
            served.check(done.returncode == 0 and done.stdout.splitlines() == best,
                         f"{language}: {done.stdout}{done.stderr}, expected {best}")
            print(f"example in {language}: good")


if __name__ == "__main__":
    main()
