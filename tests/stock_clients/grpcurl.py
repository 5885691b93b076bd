"""grpcurl, by reflection alone: services, a decode, health, errors with their codes, and load reports, which other
clients take out of the trailer before anybody sees them."""

import base64
import json

import served
import tool


LOAD_REPORT = "endpoint-load-metrics-bin: "


def trailer_of(address, method, request):
    """All that grpcurl prints of a call, with its trailer."""
    return tool.run("grpcurl", "-v", "-plaintext", "-d", json.dumps(request), address, method)


def check_load_reports(address, request):
    infer = {"model_name": "g2p-en",
             "inputs": [{"name": "source_text", "datatype": "BYTES", "shape": [1, 1],
                         "contents": {"bytes_contents": [base64.b64encode(b"cat").decode()]}}]}
    for method, body in (("beamwright.v1.DecodeService/Decode", request),
                         ("beamwright.v1.DecodeService/StreamDecode",
                          {"model": "g2p-en", "source": {"text": "cat"}}),
                         ("inference.GRPCInferenceService/ModelInfer", infer),
                         ("inference.GRPCInferenceService/ModelStreamInfer", infer),
                         ("beamwright.v1.DecodeService/Score",
                          {"model": "g2p-en", "sources": [{"source": {"text": "cat"},
                                                           "targets": [{"text": "K AE1 T"}]}]})):
        trailer = trailer_of(address, method, body)
        report = trailer.partition(LOAD_REPORT)[2].split()
        # The message has the name of a metric as plain text.
        served.check(report and b"queue" in base64.b64decode(report[0] + "=="), f"{method}: {trailer}")
    with served.server("--load-reports", "false") as (silent, _, _):
        served.check(LOAD_REPORT not in trailer_of(silent, "beamwright.v1.DecodeService/Decode", request),
                     "a load report that was not wanted")


def main():
    tool.path("grpcurl")
    with served.server() as (address, _, _):
        answers = served.expected(address)
        listed = tool.run("grpcurl", "-plaintext", address, "list").split()
        for service in ("beamwright.v1.DecodeService", "beamwright.v1.ModelService",
                        "inference.GRPCInferenceService", "grpc.health.v1.Health"):
            served.check(service in listed, f"{service} in {listed}")
        described = tool.run("grpcurl", "-plaintext", address, "describe",
                             "beamwright.v1.DecodeOptions")
        served.check("beam_size" in described, described)
        request = {"model": "g2p-en", "sources": [{"text": word} for word in served.WORDS],
                   "options": {"beam_size": 5, "n_best": 3}}
        decoded = json.loads(tool.run("grpcurl", "-plaintext", "-d", json.dumps(request), address,
                                      "beamwright.v1.DecodeService/Decode"))
        for result, hypotheses in zip(decoded["results"], answers, strict=True):
            got = [(h["text"], h["tokens"], h["score"]) for h in result["decoded"]["hypotheses"]]
            served.check(got == hypotheses, f"{got}, expected {hypotheses}")
        health = json.loads(tool.run("grpcurl", "-plaintext", "-d", '{"service": "g2p-en"}', address,
                                     "grpc.health.v1.Health/Check"))
        served.check(health == {"status": "SERVING"}, health)
        check_load_reports(address, request)
        # grpcurl ends with 64 plus the status code.
        tool.run("grpcurl", "-plaintext", "-d", '{"model": "none", "sources": [{"text": "a"}]}',
                 address, "beamwright.v1.DecodeService/Decode", code=64 + 5)
        tool.run("grpcurl", "-plaintext", "-d", '{"model": "g2p-en"}', address,
                 "beamwright.v1.DecodeService/Decode", code=64 + 3)
    print("grpcurl: good")


if __name__ == "__main__":
    main()
