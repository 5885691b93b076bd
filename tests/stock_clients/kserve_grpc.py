"""KServe's InferenceGRPCClient and InferenceRESTClient."""

import asyncio
import logging

import grpc
import numpy
from kserve import InferInput, InferRequest
from kserve.inference_client import InferenceGRPCClient, InferenceRESTClient, RESTConfig

import served

MODEL = "g2p-en"
OUTPUTS = ("text", "ids", "scores", "lengths", "num_hypotheses")
PARAMETERS = {"beam_size": 5, "n_best": 3}


def request(words):
    source = InferInput("source_text", [len(words), 1], "BYTES")
    source.set_data_from_numpy(
        numpy.array([[word.encode()] for word in words], dtype=numpy.object_), binary_data=True)
    return InferRequest(model_name=MODEL, infer_inputs=[source], request_id="k1",
                        parameters=PARAMETERS)


def check_response(response, answers):
    served.check(response.id == "k1", "id")
    tensors = {output.name: output.as_numpy().tolist() for output in response.outputs}
    served.check_answer(*(tensors[name] for name in OUTPUTS), answers)


async def check_grpc(address, answers):
    async with InferenceGRPCClient(address) as client:
        served.check(await client.is_server_live(), "live")
        served.check(await client.is_server_ready(), "ready")
        served.check(await client.is_model_ready(MODEL), "model ready")
        for response in await asyncio.gather(*(client.infer(request(served.WORDS))
                                               for _ in range(32))):
            check_response(response, answers)
        wrong = request(["cat"])
        wrong.model_name = "x"
        try:
            await client.infer(wrong)
        except grpc.RpcError as error:
            served.check(error.code() == grpc.StatusCode.NOT_FOUND, f"{error.code()}")
        else:
            served.check(False, "an unknown model was served")


async def check_rest(address, answers):
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    url = f"http://{address}"
    served.check(await client.is_server_live(url), "live, REST")
    served.check(await client.is_server_ready(url), "ready, REST")
    served.check(await client.is_model_ready(url, MODEL), "model ready, REST")
    check_response(await client.infer(url, request(served.WORDS), model_name=MODEL), answers)
    await client.close()


def main():
    logging.disable(logging.ERROR)  # the client logs the error that is provoked below
    with served.server() as (grpc_address, http_address, _):
        answers = served.expected(grpc_address)
        asyncio.run(check_grpc(grpc_address, answers))
        asyncio.run(check_rest(http_address, answers))
    print("KServe's clients: good")


if __name__ == "__main__":
    main()
