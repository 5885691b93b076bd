#!/usr/bin/env python3
"""Checks the direction of includes: a folder may include only what its line below allows.

Usage: check_layering.py [ROOT]. Prints file:line of each offence and exits with 1 if there is one. A
folder that is not in the table is an offence too, so that a new one gets its line.
"""

import pathlib
import re
import sys

OPS_GRAPH = ["ops/base", "ops/tensor", "ops/graph"]
OPS_LOOP = [*OPS_GRAPH, "ops/kernels", "ops/compile", "ops/loop"]
OPS = [*OPS_LOOP, "ops/decoder", "ops/import"]
SERVER_ENGINE = [*OPS, "proto", "server/status", "server/search", "server/search/frames", "server/fusion",
                 "server/model", "server/sound"]
ENGINE = ["server/engine/model", "server/engine/request"]
ENGINE_ROOMS = [*ENGINE, "server/engine/asking", "server/engine/queue", "server/engine/beam",
                "server/engine/frames"]
# What others see of the engine: its API, models, and what a caller says of a request.
ENGINE_API = ["server/engine", *ENGINE]
SERVER_SERVING = [*SERVER_ENGINE, *ENGINE_API, "server/access"]

# A folder's own files are always allowed. "proto" is generated messages,
# "grpc" the RPC library and generated services.
ALLOWED = {
    "ops/base": [],
    "ops/tensor": ["ops/base"],
    "ops/numpy": ["ops/base", "ops/tensor"],
    "ops/graph": ["ops/base", "ops/tensor"],
    "ops/kernels": OPS_GRAPH,
    "ops/import": [*OPS_GRAPH, "ops/kernels"],
    "ops/compile": [*OPS_GRAPH, "ops/kernels"],
    "ops/loop": [*OPS_GRAPH, "ops/kernels", "ops/compile"],
    "ops/decoder": OPS_LOOP,
    "ops/tools/picture": [*OPS_GRAPH, "ops/compile"],
    "ops/tools": [*OPS, "ops/numpy", "ops/tools/picture"],
    # The program beamwright-graph: it checks bundles as the server loads them, and makes them.
    "tools": [*SERVER_ENGINE, *ENGINE_API, "ops/numpy", "ops/tools"],
    # Errors as data, below all that makes one.
    "server/status": ["ops/base", "proto"],
    "server/search": ["ops/base"],
    # Searches over frames use the plain parts of the search over tokens: processors, tries, scorers' weights.
    "server/search/frames": ["ops/base", "server/search"],
    "server/fusion": ["ops/base"],
    "server/model": [*OPS_GRAPH, "ops/import", "proto", "server/status", "server/model/sentencepiece"],
    "server/model/sentencepiece": [],
    # From samples to features: a library of its own beside models.
    "server/sound": ["ops/base", "proto", "server/status", "server/model"],
    "server/engine/model": SERVER_ENGINE,
    "server/engine/request": [*SERVER_ENGINE, "server/engine/model"],
    "server/engine/asking": [*SERVER_ENGINE, *ENGINE],
    "server/engine/queue": [*SERVER_ENGINE, *ENGINE],
    "server/engine/beam": [*SERVER_ENGINE, *ENGINE, "server/engine/asking"],
    "server/engine/frames": [*SERVER_ENGINE, *ENGINE, "server/engine/asking"],
    "server/engine": [*SERVER_ENGINE, *ENGINE_ROOMS],
    "server/access": [*SERVER_ENGINE, *ENGINE_API],
    # What every protocol needs knows none: gRPC stays in server/rpc, HTTP in server/http.
    "server/serving": SERVER_SERVING,
    "server/oip": [*SERVER_SERVING, "server/serving"],
    "server/rpc": [*SERVER_SERVING, "server/serving", "server/oip", "grpc"],
    "server/http": [*SERVER_SERVING, "server/serving", "server/oip"],
    # Requests, replies and access of HTTP, which a WebSocket begins as.
    "server/websocket": [*SERVER_SERVING, "server/serving", "server/http"],
    "server": [*SERVER_SERVING, "server/serving", "server/oip", "server/rpc", "server/http", "server/websocket", "grpc"],
    # The engine behind a C interface, which includes nothing of ours.
    "library": [*SERVER_ENGINE, *ENGINE_API, "include/beamwright"],
    "include/beamwright": [],
    # ops/base is the status helpers; a client links nothing else of the server's code.
    "client": ["ops/base", "proto", "grpc"],
    "client/load": ["ops/base", "proto", "grpc", "client"],
    # The program reads tensors from NumPy's files.
    "client/cli": ["ops/base", "ops/tensor", "ops/numpy", "proto", "grpc", "client", "client/load"],
    "client/examples": ["client", "proto"],
}

INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')


def layer_of(path):
    """The layer that an include path belongs to; None for other libraries."""
    if path.endswith(".grpc.pb.h"):
        return "grpc"
    if path.endswith(".pb.h") or path.startswith("google/protobuf/"):
        return "proto"
    top = path.split("/")[0]
    if top in ("grpc", "grpcpp"):
        return "grpc"
    if top in ("ops", "server", "tools", "client", "library", "include"):
        return str(pathlib.PurePosixPath(path).parent)
    return None


def offences(root):
    for top in ("ops", "server", "tools", "client", "library", "include"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in (".h", ".cc"):
                continue
            name = file.relative_to(root).as_posix()
            folder = str(pathlib.PurePosixPath(name).parent)
            if folder not in ALLOWED:
                yield f"{name}:1: folder {folder} has no line in {pathlib.Path(__file__).name}"
                continue
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                layer = match and layer_of(match[1])
                if layer and layer != folder and layer not in ALLOWED[folder]:
                    allowed = ", ".join(ALLOWED[folder]) or "nothing of the project"
                    yield f"{name}:{number}: {folder} includes {match[1]}; allowed: {allowed}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(offences(root))
    print("\n".join(found) or "every include points downward")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
