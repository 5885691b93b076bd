#!/usr/bin/env python3
"""tritonclient sends a source in several requests: sequence_id, sequence_start, sequence_end; over gRPC, unary and as a stream,
and over HTTP.

Usage: triton_sequences.py BIN MODEL TOOLS
"""

import pathlib
import queue
import sys
import tempfile

import numpy
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from served import check, server
from tritonclient.utils import InferenceServerException

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/frames"))
from served_tones import make_bundle, tones  # noqa: E402

SAYS = [3, 17, 8, 12]
TEXT = "t3 t17 t8 t12"


def pieces(dtype=numpy.float32):
    """(samples, parameters of the sequence) of each request."""
    sound = numpy.array(tones(SAYS), numpy.int16)
    sound = sound if dtype == numpy.int16 else (sound / 32768).astype(dtype)
    parts = numpy.array_split(sound, 5)
    return [(part, dict(sequence_start=i == 0, sequence_end=i == len(parts) - 1)) for i, part in enumerate(parts)]


def inputs(samples, module=triton):
    tensor = module.InferInput("source_audio", [1, len(samples)], "FP32" if samples.dtype == numpy.float32 else "INT16")
    tensor.set_data_from_numpy(samples.reshape(1, -1))
    return [tensor]


def text_of(result):
    return result.as_numpy("text")[0][0].decode()


def refused(client, text, **parameters):
    try:
        client.infer("tones", inputs(pieces()[0][0]), **parameters)
    except InferenceServerException as error:
        check(text in str(error), f"{error} does not say '{text}'")
    else:
        check(False, f"{parameters} were taken; expected '{text}'")


def unary(client, module, number):
    for dtype in (numpy.float32, numpy.int16):
        for samples, parameters in pieces(dtype):
            result = client.infer("tones", inputs(samples, module), sequence_id=number, **parameters)
        check(text_of(result) == TEXT, f"{text_of(result)} instead of {TEXT}")
    # It has ended.
    refused(client, "has not begun, or has ended", sequence_id=number) if module is triton else None


def interleaved(client):
    """Two sequences at once, one of which begins anew in the middle."""
    first, second = pieces(), pieces()
    client.infer("tones", inputs(first[0][0]), sequence_id=1, sequence_start=True)
    for number, parts in ((1, first), (2, second)):
        client.infer("tones", inputs(parts[0][0]), sequence_id=number, sequence_start=True)
    for (one, parameters), (other, _) in zip(first[1:], second[1:]):
        results = [client.infer("tones", inputs(samples), sequence_id=number, sequence_end=parameters["sequence_end"])
                   for number, samples in ((1, one), (2, other))]
    check([text_of(result) for result in results] == [TEXT, TEXT], "two sequences at once")


def stream(client):
    results = queue.Queue()
    client.start_stream(callback=lambda result, error: results.put((result, error)))
    for samples, parameters in pieces():
        client.async_stream_infer("tones", inputs(samples), sequence_id="talk", **parameters)
    answers = [results.get(timeout=60) for _ in pieces()]
    client.stop_stream()
    check(all(error is None for _, error in answers), f"{answers}")
    check(text_of(answers[-1][0]) == TEXT, f"{text_of(answers[-1][0])} instead of {TEXT}")


def described(client):
    """What tools read to know that they may send sequences, and of what."""
    check(client.get_model_config("tones").config.WhichOneof("scheduling_choice") == "sequence_batching", "config")
    names = [tensor.name for tensor in client.get_model_metadata("tones").inputs]
    check(names[:2] == ["source_features", "source_audio"], f"{names}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        make_bundle(pathlib.Path(folder) / "models/tones/1")
        with server("--model-repository", pathlib.Path(folder) / "models") as (grpc, http, _):
            client = triton.InferenceServerClient(grpc)
            described(client)
            unary(client, triton, 7)
            unary(triton_http.InferenceServerClient(http), triton_http, 8)
            interleaved(client)
            stream(client)
            refused(client, "has not begun", sequence_id=99)
            refused(client, "has not begun", sequence_id=99, sequence_end=True)
            whole = numpy.concatenate([samples for samples, _ in pieces()])
            check(text_of(client.infer("tones", inputs(whole))) == TEXT, "a whole source in one request")
            check(text_of(client.infer("tones", inputs(whole), sequence_id=5, sequence_start=True, sequence_end=True)) == TEXT,
                  "a sequence of one request")
    print("sequences are heard: unary, side by side, as a stream and over HTTP")


if __name__ == "__main__":
    main()
