"""ghz: a load of both protocols by reflection, every call answered OK."""

import json

import served
import tool

CALLS = 400


def main():
    tool.path("ghz")
    with served.server() as (address, _, _):
        calls = {
            "beamwright.v1.DecodeService/Decode":
                {"model": "g2p-en", "sources": [{"text": "recurrent"}]},
            "inference.GRPCInferenceService/ModelInfer":
                {"model_name": "g2p-en",
                 "inputs": [{"name": "source_text", "datatype": "BYTES", "shape": ["1"],
                             "contents": {"bytes_contents": ["cmVjdXJyZW50"]}}]},
        }
        for method, request in calls.items():
            report = json.loads(tool.run(
                "ghz", "--insecure", "--call", method, "-d", json.dumps(request), "-n", CALLS,
                "-c", 16, "--connections", 4, "--count-errors", "-O", "json", address))
            served.check(report["statusCodeDistribution"] == {"OK": CALLS},
                         f"{method}: {report['statusCodeDistribution']}")
            print(f"ghz: {method}: {report['rps']:.0f} calls/s")


if __name__ == "__main__":
    main()
