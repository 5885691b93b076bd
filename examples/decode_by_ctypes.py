#!/usr/bin/env python3
"""Decodes words in process through the C interface, with nothing but ctypes and protobuf.

    decode_by_ctypes.py build/lib/libbeamwright.so models/g2p-en hello world

The package `beamwright` does all of this: `beamwright.Model("models/g2p-en").decode("hello")`. This shows what another
language has to do. Messages come from the protos by protoc, which leaves the descriptors in a file.
"""

import ctypes
import pathlib
import subprocess
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PROTOS = pathlib.Path(__file__).resolve().parents[1] / "proto"


class Buffer(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("message", ctypes.c_char_p),
                ("reserved", ctypes.c_void_p))  # fmt: skip


def messages(*names):
    command = ["protoc", f"-I{PROTOS}", "--include_imports", "--descriptor_set_out=/dev/stdout", "beamwright/v1/decode.proto"]
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout).file:
        pool.AddSerializedFile(file.SerializeToString())
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"beamwright.v1.{name}")) for name in names]


def taken(library, code, buffer):
    """What a function left in its buffer; exits with the message of a failure."""
    content, message = ctypes.string_at(buffer.data, buffer.size), buffer.message
    library.beamwright_buffer_free(ctypes.byref(buffer))
    if code != 0:
        sys.exit(message.decode())
    return content


def main():
    library = ctypes.CDLL(sys.argv[1])  # lets go of the GIL during calls
    library.beamwright_decode.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_void_p)
    library.beamwright_free.argtypes = (ctypes.c_void_p,)
    request_type, response_type = messages("DecodeRequest", "DecodeResponse")

    model, buffer = ctypes.c_void_p(), Buffer()
    taken(library, library.beamwright_load(sys.argv[2].encode(), None, ctypes.byref(model), ctypes.byref(buffer)), buffer)
    for word in sys.argv[3:]:
        request = request_type()
        request.sources.add().text = word
        content = request.SerializeToString()
        code = library.beamwright_decode(model, content, len(content), 10000, ctypes.byref(buffer))
        response = response_type.FromString(taken(library, code, buffer))
        print(word, response.results[0].decoded.hypotheses[0].text, sep="\t")
    library.beamwright_free(model)


if __name__ == "__main__":
    main()
