"""The messages of the protos, in a separate pool.

Others may have registered files of the same names (google/rpc/status.proto, the health protocol)
with protobuf's default pool; there the second one to come fails.
"""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_POOL = descriptor_pool.DescriptorPool()
for _file in descriptor_pb2.FileDescriptorSet.FromString(
    pathlib.Path(__file__).with_name("_descriptors.binpb").read_bytes()
).file:
    _POOL.AddSerializedFile(_file.SerializeToString())


def _message(name: str) -> Any:
    descriptor = _POOL.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    factory: Any = message_factory.MessageFactory(_POOL)  # protobuf 4.21
    return factory.GetPrototype(descriptor)


DecodeRequest = _message("beamwright.v1.DecodeRequest")
DecodeResponse = _message("beamwright.v1.DecodeResponse")
StreamDecodeRequest = _message("beamwright.v1.StreamDecodeRequest")
StreamDecodeResponse = _message("beamwright.v1.StreamDecodeResponse")
RecognizeConfig = _message("beamwright.v1.RecognizeConfig")
RecognizeRequest = _message("beamwright.v1.RecognizeRequest")
RecognizeResponse = _message("beamwright.v1.RecognizeResponse")
ScoreRequest = _message("beamwright.v1.ScoreRequest")
ScoreResponse = _message("beamwright.v1.ScoreResponse")
AlignRequest = _message("beamwright.v1.AlignRequest")
AlignResponse = _message("beamwright.v1.AlignResponse")
Source = _message("beamwright.v1.Source")
TranslateRequest = _message("beamwright.v1.TranslateRequest")
TranslateResponse = _message("beamwright.v1.TranslateResponse")
ListModelsRequest = _message("beamwright.v1.ListModelsRequest")
ListModelsResponse = _message("beamwright.v1.ListModelsResponse")
DescribeModelRequest = _message("beamwright.v1.DescribeModelRequest")
ModelDescription = _message("beamwright.v1.ModelDescription")
HealthCheckRequest = _message("grpc.health.v1.HealthCheckRequest")
HealthCheckResponse = _message("grpc.health.v1.HealthCheckResponse")
Status = _message("google.rpc.Status")
SourceErrors = _message("beamwright.v1.SourceErrors")
ErrorInfo = _message("google.rpc.ErrorInfo")
RetryInfo = _message("google.rpc.RetryInfo")
BadRequest = _message("google.rpc.BadRequest")


class Method(NamedTuple):
    """A method of a service, and the message that it answers."""

    path: str
    response: Any
    streams: bool = False
    takes_stream: bool = False


DECODE = Method("/beamwright.v1.DecodeService/Decode", DecodeResponse)
STREAM_DECODE = Method("/beamwright.v1.DecodeService/StreamDecode", StreamDecodeResponse, True)
RECOGNIZE = Method("/beamwright.v1.RecognizeService/Recognize", RecognizeResponse, True, True)
SCORE = Method("/beamwright.v1.DecodeService/Score", ScoreResponse)
ALIGN = Method("/beamwright.v1.DecodeService/Align", AlignResponse)
TRANSLATE = Method("/beamwright.v1.TranslateService/Translate", TranslateResponse)
LIST_MODELS = Method("/beamwright.v1.ModelService/ListModels", ListModelsResponse)
DESCRIBE_MODEL = Method("/beamwright.v1.ModelService/DescribeModel", ModelDescription)
HEALTH = Method("/grpc.health.v1.Health/Check", HealthCheckResponse)
METHODS = (DECODE, STREAM_DECODE, RECOGNIZE, SCORE, ALIGN, TRANSLATE, LIST_MODELS, DESCRIBE_MODEL, HEALTH)
