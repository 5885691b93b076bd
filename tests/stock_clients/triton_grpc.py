"""tritonclient over gRPC: every call, synchronous, asynchronous, asyncio and stream."""

import asyncio
import queue

import numpy
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException

import served

MODEL = "g2p-en"
OUTPUTS = ("text", "ids", "scores", "lengths", "num_hypotheses")
PARAMETERS = {"beam_size": 5, "n_best": 3}


def inputs(words, module=triton):
    tensor = module.InferInput("source_text", [len(words), 1], "BYTES")
    tensor.set_data_from_numpy(numpy.array([[word.encode()] for word in words], dtype=numpy.object_))
    return [tensor]


def check_result(result, answers):
    served.check_answer(*(result.as_numpy(name).tolist() for name in OUTPUTS), answers)


def check_description(client):
    served.check(client.is_server_live() and client.is_server_ready(), "live and ready")
    served.check(client.is_model_ready(MODEL) and client.is_model_ready(MODEL, "1"), "model ready")
    served.check(not client.is_model_ready("x"), "a model that there isn't is not ready")
    served.check("statistics" in client.get_server_metadata().extensions, "extensions")
    metadata = client.get_model_metadata(MODEL)
    config = client.get_model_config(MODEL).config
    served.check({i.name for i in config.input} == {i.name for i in metadata.inputs}, "inputs")
    served.check({o.name for o in config.output} == {o.name for o in metadata.outputs}, "outputs")
    served.check(list(metadata.inputs[0].shape) == [-1, 1], "input shape")
    index = client.get_model_repository_index()
    served.check([(m.name, m.state) for m in index.models] == [(MODEL, "READY")], "index")


def check_errors(client):
    for request, code in (
            (dict(model_name="x", inputs=inputs(["cat"])), "StatusCode.NOT_FOUND"),
            (dict(model_name=MODEL, inputs=inputs(["cat"]), parameters={"beam": 1}),
             "StatusCode.INVALID_ARGUMENT"),
            (dict(model_name=MODEL, inputs=inputs(["cat"]), timeout=1),
             "StatusCode.DEADLINE_EXCEEDED")):
        try:
            client.infer(**request)
        except InferenceServerException as error:
            served.check(error.status() == code, f"{error.status()}, expected {code}")
        else:
            served.check(False, f"{request} succeeded; expected {code}")


def check_stream(client, answers):
    results = queue.Queue()
    client.start_stream(callback=lambda result, error: results.put((result, error)))
    for i in range(50):
        client.async_stream_infer(MODEL if i != 20 else "x", inputs(served.WORDS),
                                  request_id=str(i), parameters=PARAMETERS,
                                  enable_empty_final_response=True)
    for i in range(50):
        result, error = results.get(timeout=60)
        if i == 20:
            served.check(error is not None and "unknown model" in str(error), "error in the stream")
            continue
        served.check(error is None, str(error))
        response = result.get_response()
        served.check(response.id == str(i), f"id {response.id}, expected {i}")
        served.check(response.parameters["triton_final_response"].bool_param, "final response")
        check_result(result, answers)
    client.stop_stream()


async def check_asyncio(address, answers):
    async with triton_aio.InferenceServerClient(address) as client:
        served.check(await client.is_server_ready(), "ready, asyncio")
        results = await asyncio.gather(*(
            client.infer(MODEL, inputs(served.WORDS, triton_aio), parameters=PARAMETERS)
            for _ in range(64)))
        for result in results:
            check_result(result, answers)

        async def requests():
            for i in range(20):
                yield {"model_name": MODEL, "inputs": inputs(served.WORDS, triton_aio),
                       "request_id": str(i), "parameters": PARAMETERS}

        count = 0
        async for result, error in client.stream_infer(requests()):
            served.check(error is None, str(error))
            check_result(result, answers)
            count += 1
        served.check(count == 20, f"{count} answers of a stream of 20")


def check_log_settings(client):
    settings = client.get_log_settings(as_json=True)["settings"]
    served.check(settings["log_info"] == {"bool_param": True}, settings)
    changed = client.update_log_settings({"log_verbose_level": 1}, as_json=True)["settings"]
    served.check(changed["log_verbose_level"] == {"uint32_param": 1}, changed)
    client.update_log_settings({"log_verbose_level": 0})
    try:
        client.update_log_settings({"log_file": "elsewhere"})
        served.check(False, "log_file was changed")
    except InferenceServerException as error:
        served.check(error.status() == "StatusCode.UNIMPLEMENTED", error)


def main():
    with served.server("--model-control", "explicit") as (grpc, _, _):
        answers = served.expected(grpc)
        with triton.InferenceServerClient(grpc) as client:
            check_description(client)
            result = client.infer(MODEL, inputs(served.WORDS), request_id="r 1",
                                  parameters=PARAMETERS, priority=1, client_timeout=60)
            served.check(result.get_response().id == "r 1", "id")
            check_result(result, answers)
            asked = client.infer(MODEL, inputs(served.WORDS), parameters=PARAMETERS,
                                 outputs=[triton.InferRequestedOutput("text")])
            served.check(asked.as_numpy("scores") is None, "an output that was not asked for")
            calls = queue.Queue()
            for _ in range(64):
                client.async_infer(MODEL, inputs(served.WORDS), parameters=PARAMETERS,
                                   callback=lambda result, error: calls.put((result, error)))
            for _ in range(64):
                result, error = calls.get(timeout=60)
                served.check(error is None, str(error))
                check_result(result, answers)
            check_errors(client)
            check_log_settings(client)
            check_stream(client, answers)
            statistics = client.get_inference_statistics(MODEL).model_stats[0]
            served.check(statistics.inference_count >= 3 * 115, "inference_count")
            served.check(statistics.inference_stats.fail.count == 1, "fail.count: the call that was late")
        asyncio.run(check_asyncio(grpc, answers))
    print("tritonclient over gRPC: good")


if __name__ == "__main__":
    main()
