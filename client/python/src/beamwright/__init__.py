"""Client of Beamwright, a server that decodes recurrent sequence models by beam search.

    import beamwright

    with beamwright.Client("localhost:8001") as client:
        print(client.decode("recurrent", beam_size=5, n_best=3))

gRPC, protobuf and NumPy are imported when they are first needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._errors import (
    ArgumentTypeError,
    BeamwrightError,
    CallCancelledError,
    ClientClosedError,
    Code,
    DeadlineExceededError,
    EngineError,
    ExportError,
    FailedPreconditionError,
    FieldViolation,
    ForkError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    RpcError,
    ServerError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from ._options import DecodeOptions, ScoreOptions
from ._types import (
    Alignment,
    Decoded,
    DecoderInputs,
    Features,
    FinishReason,
    Health,
    Hotword,
    HotwordsLike,
    Hypothesis,
    LatticeStep,
    MemberPart,
    ModelDescription,
    ModelSummary,
    Picture,
    Recognition,
    RecognizedSegment,
    RecognizeUpdate,
    Scored,
    ScoredTarget,
    ScorerPart,
    SourceLike,
    StableTokens,
    Streaming,
    StreamUpdate,
    TargetLike,
    TensorInfo,
    TopTokens,
    Translation,
    WithInputs,
    Word,
)
from ._version import __version__

if TYPE_CHECKING:
    from ._aio import AsyncClient, AsyncDecodeStream, AsyncRecognizeStream
    from ._bundles import Bundle
    from ._client import Client, DecodeStream, RecognizeStream
    from ._keras import from_keras
    from ._model import Model
    from ._onnx import from_onnx
    from ._server import Server, serve
    from ._torch import from_torch
    from ._transformers import from_transformers

_LATER = {
    "AsyncClient": "_aio",
    "AsyncDecodeStream": "_aio",
    "AsyncRecognizeStream": "_aio",
    "Bundle": "_bundles",
    "Client": "_client",
    "DecodeStream": "_client",
    "Model": "_model",
    "RecognizeStream": "_client",
    "Server": "_server",
    "from_keras": "_keras",
    "from_onnx": "_onnx",
    "from_torch": "_torch",
    "from_transformers": "_transformers",
    "serve": "_server",
}

__all__ = [
    "Alignment",
    "ArgumentTypeError",
    "AsyncClient",
    "AsyncDecodeStream",
    "AsyncRecognizeStream",
    "BeamwrightError",
    "Bundle",
    "CallCancelledError",
    "Client",
    "ClientClosedError",
    "Code",
    "DeadlineExceededError",
    "DecodeOptions",
    "DecodeStream",
    "Decoded",
    "DecoderInputs",
    "EngineError",
    "ExportError",
    "FailedPreconditionError",
    "Features",
    "FieldViolation",
    "FinishReason",
    "ForkError",
    "Health",
    "Hotword",
    "HotwordsLike",
    "Hypothesis",
    "InternalError",
    "InvalidArgumentError",
    "LatticeStep",
    "MemberPart",
    "Model",
    "ModelDescription",
    "ModelSummary",
    "NotFoundError",
    "PermissionDeniedError",
    "Picture",
    "Recognition",
    "RecognizeStream",
    "RecognizeUpdate",
    "RecognizedSegment",
    "ResourceExhaustedError",
    "RpcError",
    "ScoreOptions",
    "Scored",
    "ScoredTarget",
    "ScorerPart",
    "Server",
    "ServerError",
    "SourceLike",
    "StableTokens",
    "StreamUpdate",
    "Streaming",
    "TargetLike",
    "TensorInfo",
    "TopTokens",
    "Translation",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "WithInputs",
    "Word",
    "__version__",
    "from_keras",
    "from_onnx",
    "from_torch",
    "from_transformers",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
