"""tritonclient over HTTP, with elements in binary and in JSON; many connections at once."""

import asyncio

import numpy
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

import served

MODEL = "g2p-en"
OUTPUTS = ("text", "ids", "scores", "lengths", "num_hypotheses")
PARAMETERS = {"beam_size": 5, "n_best": 3}


def inputs(words, binary, module=triton):
    tensor = module.InferInput("source_text", [len(words), 1], "BYTES")
    tensor.set_data_from_numpy(
        numpy.array([[word.encode()] for word in words], dtype=numpy.object_), binary_data=binary)
    return [tensor]


def outputs(binary, module=triton):
    return [module.InferRequestedOutput(name, binary_data=binary) for name in OUTPUTS]


def check_result(result, answers):
    served.check_answer(*(result.as_numpy(name).tolist() for name in OUTPUTS), answers)


async def check_asyncio(address, answers):
    async with triton_aio.InferenceServerClient(address, conn_limit=32) as client:
        results = await asyncio.gather(*(
            client.infer(MODEL, inputs(served.WORDS, True), outputs=outputs(True),
                         parameters=PARAMETERS) for _ in range(128)))
        for result in results:
            check_result(result, answers)


def main():
    with served.server("--model-control", "explicit") as (grpc, http, _):
        answers = served.expected(grpc)
        client = triton.InferenceServerClient(http, concurrency=8)
        served.check(client.is_server_live() and client.is_server_ready(), "live and ready")
        served.check(client.is_model_ready(MODEL) and not client.is_model_ready("x"), "model ready")
        served.check(client.get_server_metadata()["name"] == "beamwright", "name")
        served.check(client.get_model_metadata(MODEL)["inputs"][0]["shape"] == [-1, 1], "shape")
        served.check(client.get_model_config(MODEL)["max_batch_size"] > 0, "max_batch_size")
        served.check(client.get_model_repository_index()[0]["state"] == "READY", "index")
        for binary_in in (True, False):
            for binary_out in (True, False):
                result = client.infer(MODEL, inputs(served.WORDS, binary_in), request_id="r1",
                                      outputs=outputs(binary_out), parameters=PARAMETERS)
                served.check(result.get_response()["id"] == "r1", "id")
                check_result(result, answers)
        # No outputs named: all come, binary as the client asks by default.
        check_result(client.infer(MODEL, inputs(served.WORDS, True), parameters=PARAMETERS), answers)
        calls = [client.async_infer(MODEL, inputs(served.WORDS, True), parameters=PARAMETERS)
                 for _ in range(64)]
        for call in calls:
            check_result(call.get_result(), answers)
        for request, status in ((dict(model_name="x", inputs=inputs(["cat"], True)), "404"),
                                (dict(model_name=MODEL, inputs=inputs(["cat"], True),
                                      parameters={"beam": 1}), "400")):
            try:
                client.infer(**request)
            except InferenceServerException as error:
                served.check(error.status() == status, f"{error.status()}, expected {status}")
            else:
                served.check(False, f"{request} succeeded; expected {status}")
        served.check(client.get_log_settings()["log_info"] is True, "log_info")
        changed = client.update_log_settings({"log_info": False})
        served.check(changed["log_info"] is False and changed["log_warning"] is True, changed)
        stats = client.get_inference_statistics(MODEL)["model_stats"][0]
        served.check(stats["inference_count"] >= 3 * 69, "inference_count")
        client.close()
        asyncio.run(check_asyncio(http, answers))
    print("tritonclient over HTTP: good")


if __name__ == "__main__":
    main()
