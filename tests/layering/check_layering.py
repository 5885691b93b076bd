#!/usr/bin/env python3
"""Checks the direction of includes: a folder may include only what its line below allows.

Usage: check_layering.py [ROOT]. Prints file:line of each offence and exits with 1 if there is one. A
folder that is not in the table is an offence too, so that a new one gets its line. A header that says
'Private to FOLDER/' or 'Private to FILE.cc' is included from there alone. Sources of a folder compile in groups
(beamwright_group, cmake/beamwright.cmake), so two of them must not define one name in their anonymous namespaces.
"""

import pathlib
import re
import sys

OPS_GRAPH = ["ops/base", "ops/tensor", "ops/graph"]
OPS_LOOP = [*OPS_GRAPH, "ops/kernels", "ops/compile", "ops/passes", "ops/loop"]
OPS = [*OPS_LOOP, "ops/decoder", "ops/import"]
# The parts of the engine that know no request.
ENGINE_PARTS = [*OPS, "proto", "engine/status", "engine/grammar", "engine/search", "engine/search/frames", "engine/fusion",
                "engine/bundle", "engine/sound", "engine/picture"]
REQUEST = [*ENGINE_PARTS, "engine/model", "engine/request"]
# What others see of the engine: its API, models, and what a caller says of a request.
ENGINE = [*REQUEST, "engine", "include/beamwright"]
SERVING = [*ENGINE, "server/access", "server/serving"]

# A folder's own files are always allowed. "proto" is generated messages,
# "grpc" the RPC library and generated services.
ALLOWED = {
    "ops/base": [],
    "ops/tensor": ["ops/base"],
    "ops/numpy": ["ops/base", "ops/tensor"],
    # Files of sound: for the program and for servers.
    "ops/audio": ["ops/base"],
    "ops/graph": ["ops/base", "ops/tensor"],
    "ops/kernels": OPS_GRAPH,
    "ops/import": [*OPS_GRAPH, "ops/kernels"],
    "ops/compile": [*OPS_GRAPH, "ops/kernels"],
    "ops/passes": [*OPS_GRAPH, "ops/kernels", "ops/compile"],
    "ops/loop": [*OPS_GRAPH, "ops/kernels", "ops/compile", "ops/passes"],
    "ops/decoder": OPS_LOOP,
    # Errors as data, below all that makes one.
    "engine/status": ["ops/base", "proto"],
    # Texts as automata over bytes: no token is chosen here.
    "engine/grammar": ["ops/base"],
    "engine/search": ["ops/base", "engine/grammar"],
    # Searches over frames use the plain parts of the search over tokens: processors, tries, scorers' weights.
    "engine/search/frames": ["ops/base", "engine/grammar", "engine/search"],
    "engine/fusion": ["ops/base"],
    "engine/bundle": [*OPS_GRAPH, "ops/import", "proto", "engine/status", "engine/bundle/sentencepiece"],
    "engine/bundle/sentencepiece": [],
    # From samples to features: a library next to models.
    "engine/sound": ["ops/base", "proto", "engine/status", "engine/bundle"],
    # From PNG and JPEG files to what encoders read.
    "engine/picture": ["ops/base", "ops/tensor", "proto", "engine/status"],
    "engine/model": ENGINE_PARTS,
    "engine/request": [*ENGINE_PARTS, "engine/model"],
    "engine/options": REQUEST,
    "engine/queue": REQUEST,
    "engine/beam": [*REQUEST, "engine/options"],
    "engine/frames": [*REQUEST, "engine/options"],
    "engine/schedule": [*REQUEST, "engine/queue"],
    "engine": [*REQUEST, "engine/options", "engine/queue", "engine/beam", "engine/frames", "engine/schedule",
               "include/beamwright"],
    # Public headers: the engine's, and the C interface, which includes nothing of the project.
    "include/beamwright": [*REQUEST, "engine/options"],
    # The program beamwright-graph: what it does with a graph, and with a bundle, which it checks as the server
    # loads it.
    "tools/graph": [*OPS, "ops/numpy"],
    "tools/bundle": [*ENGINE, "ops/numpy", "tools/graph"],
    "tools": ["ops/base", "tools/graph", "tools/bundle"],
    "server/access": ENGINE,
    # What every protocol needs knows none: gRPC stays in server/rpc, HTTP in server/http. Grammars are compiled in
    # turns of clients, as the engine's queue has them; a language is heard without the bundle's options.
    "server/serving": [*ENGINE, "engine/queue", "engine/options", "server/access"],
    # Texts into sentences and back: above serving, below the protocols that translate.
    "server/translate": SERVING,
    "server/oip": SERVING,
    "server/rpc": [*SERVING, "server/oip", "server/translate", "grpc"],
    "server/http": [*SERVING, "server/oip", "server/translate", "ops/audio"],
    # Requests, replies and access of HTTP, which a WebSocket begins as.
    "server/websocket": [*SERVING, "server/http"],
    "server": [*SERVING, "server/oip", "server/rpc", "server/http", "server/websocket", "grpc"],
    # The engine behind a C interface.
    "library": ENGINE,
    # ops/base is the status helpers; a client links nothing else of the server's code.
    "client": ["ops/base", "proto", "grpc"],
    "client/load": ["ops/base", "proto", "grpc", "client"],
    # The program reads tensors from NumPy's files, and sound.
    "client/cli": ["ops/base", "ops/tensor", "ops/numpy", "ops/audio", "proto", "grpc", "client", "client/load"],
    "client/examples": ["client", "proto"],
}

TOPS = ("ops", "engine", "server", "tools", "client", "library", "include")
PRIVATE = re.compile(r"Private to (?:the )?([a-z_0-9]+(?:/[a-z_0-9]+)*(?:/|\.cc))")
INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')


def layer_of(path):
    """The layer that an include path belongs to; None for other libraries."""
    if path.endswith(".grpc.pb.h"):
        return "grpc"
    if path == "include/beamwright/client.h":  # the client's API, not the engine's
        return "client"
    if path.endswith(".pb.h") or path.startswith("google/protobuf/"):
        return "proto"
    top = path.split("/")[0]
    if top in ("grpc", "grpcpp"):
        return "grpc"
    if top in TOPS:
        return str(pathlib.PurePosixPath(path).parent)
    return None


def offences(root):
    for top in TOPS:
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


def may_include(name, owner, header):
    """Whether the file `name` is `owner`, a folder or a source that `header` says it is private to."""
    path = pathlib.PurePosixPath(name)
    if owner.endswith(".cc"):
        return path.stem in (pathlib.PurePosixPath(owner).stem, pathlib.PurePosixPath(header).stem)
    return f"/{owner}" in f"/{path.parent}/"


def private_offences(root):
    owners = {}
    sources = [file for top in TOPS for file in sorted((root / top).rglob("*")) if file.suffix in (".h", ".cc")]
    for file in sources:
        if file.suffix == ".h":
            comment = file.read_text(encoding="utf-8").split("#ifndef")[0].replace("\n// ", " ")
            match = PRIVATE.search(comment)
            if match:
                owners[file.relative_to(root).as_posix()] = match[1]
    for file in sources:
        name = file.relative_to(root).as_posix()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            owner = match and owners.get(match[1])
            if owner and not may_include(name, owner, match[1]):
                yield f"{name}:{number}: {match[1]} is private to {owner}"


# Names that an anonymous namespace defines, but for functions, which may be overloads.
DEFINITION = re.compile(
    r"(?:struct|class|enum class|enum) (\w+) [{:f]|using (\w+) =|(?:constexpr|thread_local|const) [^()=;{]*?(\w+)(?:\[\w*\])* *[={;]"
)
FUNCTION = re.compile(r"(?=\w)[\w:<>,&*\[\] ]+?[ &*](\w+)\(")
ANONYMOUS = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.DOTALL | re.MULTILINE)


def definitions(text):
    """(name, line, is_function) of what the anonymous namespaces of a source define."""
    for block in ANONYMOUS.findall(text):
        for line in block.splitlines():
            if match := DEFINITION.match(line):
                yield match[1] or match[2] or match[3], line, False
            elif match := FUNCTION.match(line):
                yield match[1], line, True


def twice_defined(root):
    for top in TOPS:
        for folder in sorted({file.parent for file in (root / top).rglob("*.cc")}):
            cmake = folder / "CMakeLists.txt"
            if not cmake.exists() or re.search(r"beamwright_library\(\w+ ALONE", cmake.read_text(encoding="utf-8")):
                continue
            known = {}
            for file in sorted(folder.glob("*.cc")):
                for name, line, is_function in set(definitions(file.read_text(encoding="utf-8"))):
                    for other, other_line, other_is_function in known.get(name, []):
                        alias = line.startswith("using ") and line == other_line
                        if not (is_function and other_is_function) and not alias and other != file:
                            yield f"{file.relative_to(root)}:1: defines {name}, as {other.name} does: they may compile as one source"
                    known.setdefault(name, []).append((file, line, is_function))


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = [*offences(root), *private_offences(root), *twice_defined(root)]
    print("\n".join(found) or "every include points downward")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
