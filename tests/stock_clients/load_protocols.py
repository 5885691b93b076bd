"""beamwright load-test over every protocol it speaks, with answers checked, versions and metrics recorded: against this
server, which is one that speaks all of them."""

import json
import pathlib
import subprocess
import sys
import tempfile

import served


def load_test(address, *arguments, code=0):
    done = subprocess.run(
        [pathlib.Path(sys.argv[1]) / "beamwright", "load-test", "--server", address, "--warmup", "0", "--json",
         *map(str, arguments)], capture_output=True, text=True, timeout=240)
    served.check(code is None or done.returncode == code, f"{arguments}: {done.returncode} {done.stdout} {done.stderr}")
    return json.loads(done.stdout) if done.stdout else done.stderr


def infer_line(word):
    return {"infer": {"inputs": [{"name": "source_text", "datatype": "BYTES", "shape": [1, 1], "data": [word]}],
                      "parameters": {"beam_size": 3}}}


def main():
    with tempfile.TemporaryDirectory() as folder, served.server() as (grpc, http, process):
        scratch = pathlib.Path(folder)
        answers = served.expected(grpc, beam_size=5, n_best=1)
        golden = scratch / "golden.jsonl"
        golden.write_text("\n".join(
            json.dumps({"source": word, "hypotheses": [{"text": answer[0][0], "tokens": answer[0][1]}]})
            for word, answer in zip(served.WORDS, answers)))
        bodies = scratch / "bodies.jsonl"
        bodies.write_text("\n".join(json.dumps(infer_line(word)) for word in served.WORDS))
        for protocol, address in (("native", grpc), ("rest", http), ("infer-grpc", grpc), ("infer-http", http)):
            run = load_test(address, "--model", "g2p-en", "--protocol", protocol, "--mix", golden, "--requests", 60,
                            "--concurrency", 6, "--beam-size", 5, "--metrics", process.metrics)
            served.check(run["answered_calls"] == 60 and run["checked_answers"] == 60 and run["wrong_answers"] == 0, run)
            served.check(run["server"]["name"] == "beamwright" and run["server"]["version"], run["server"])
            served.check(run["server"]["model"].startswith("g2p-en 1"), run["server"])
            sources = sum(value for name, value in run["server_metrics"].items()
                          if name.startswith("beamwright_sources_total{"))
            served.check(sources == 60, run["server_metrics"])
            # An error of the server keeps its code, whatever carried it.
            run = load_test(address, "--model", "none", "--protocol", protocol, "--requests", 5, "a", code=1)
            served.check(run["failed_calls"] == {"NOT_FOUND": 5}, run["failed_calls"])
            if protocol.startswith("infer"):
                run = load_test(address, "--model", "g2p-en", "--protocol", protocol, "--mix", bodies, "--requests", 30)
                served.check(run["answered_calls"] == 30, run)
            print(f"load-test over {protocol}: good")
        # A missing server is reported, and a page is not taken for a server.
        run = load_test("127.0.0.1:1", "--protocol", "rest", "--model", "m", "--requests", 2000, "a", code=1)
        served.check(run["gave_up"] and run["failed_calls"]["UNAVAILABLE"] >= 1000, run)
        run = load_test(http, "--model", "g2p-en/../..", "--protocol", "rest", "--requests", 5, "a", code=1)
        served.check(run["answered_calls"] == 0, run)
        # A promise that any server keeps, and one that none does.
        found = load_test(grpc, "--find-max-rate", "--slo", "p50<20s,errors<50%", "--rate", "5..10", "--duration", "2s", "a")
        served.check(found["rate"] == 10 and found["confirmed"] and len(found["trials"]) >= 3, found)
        served.check(found["trials"][-1]["clauses"][0]["upper"] <= 0.5, found["trials"][-1])
        none = load_test(grpc, "--find-max-rate", "--slo", "p50<1us", "--rate", "5..10", "--duration", "2s", "a", code=1)
        # On a busy machine the client is late, too.
        served.check(none["rate"] == 0 and none["trials"][0]["verdict"] in ("broken", "client"), none)
        print("load-test --find-max-rate: good")


if __name__ == "__main__":
    main()
