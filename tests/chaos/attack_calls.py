"""What the attacks of attack_list.py send, and how: messages, files, connections."""

import base64
import functools
import http.client
import io
import json
import random
import shutil
import socket
import struct
import subprocess
import threading
import zipfile
import zlib
from dataclasses import dataclass
from typing import Callable

from attacks import ROOT

try:
    import grpc
except ImportError:  # enough for attacks.py --list
    grpc = None

MIB = 1 << 20
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "multipart/form-data; boundary=X"}
URL = {"Content-Type": "application/x-www-form-urlencoded"}
SLOW = "(.*[AB].*){490}"  # takes a tenth of a second to compile


@dataclass
class Attack:
    name: str
    covers: tuple  # calls of the role table
    run: Callable  # (server, number of the thread, stop) -> what was answered; called again and again
    threads: int = 4
    arguments: tuple = ()
    honest: int = 0  # clients that ask for work that any client may ask for


def make_models(programs, folder):
    """A repository: words to sounds, speech by frames and token by token, pictures, translation, prompts."""
    import language_model
    import marian_files
    from archives import unpacked

    for name in ("g2p-en", "digits-en"):
        (folder / name).symlink_to(ROOT / "models" / name)
    (folder / "marian").mkdir()
    marian_files.write(folder / "marian", "enfr")
    language_model.make_model(programs, folder / "marian", folder / "bird" / "1")
    shutil.copytree(ROOT / "models/digits-en/1", folder / "written/1", ignore=shutil.ignore_patterns("MANIFEST*"))
    config = folder / "written/1/model.textproto"
    lines = config.read_text().replace('name: "digits-en"', 'name: "written" rewrite { model: "g2p-en" }')
    config.unlink()  # read-only where the sources are
    config.write_text(lines)
    for name, files in (
        ("whisper_speech", [unpacked("e2e/exports/whisper_speech") / "optimum" / name for name in ("encoder_model.onnx", "decoder_model_merged.onnx")]),
        ("trocr_picture", [unpacked("e2e/exports/trocr_picture") / "optimum" / name for name in ("encoder_model.onnx", "decoder_with_past_model.onnx")]),
        ("enfr", ["model.enfr.intgemm.alphas.bin", "--source-vocabulary", "vocab.enfr.spm", "--target-vocabulary", "vocab.enfr.spm"]),
    ):  # fmt: skip
        (folder / name).mkdir()
        subprocess.run([programs / "beamwright-graph", "init", *files, "--out", folder / name / "1", "--name", name],
                       cwd=folder / "marian", check=True, stdout=subprocess.DEVNULL)  # fmt: skip


# Protobuf's wire format: field numbers of the protos.
def varint(value):
    data = b""
    while value >= 128:
        data, value = data + bytes([value & 127 | 128]), value >> 7
    return data + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(message):
    """The values of a message by the numbers of their fields."""
    found, at = {}, 0

    def read():
        nonlocal at
        value, shift = 0, 0
        while True:
            value, at = value | (message[at] & 127) << shift, at + 1
            if message[at - 1] < 128:
                return value
            shift += 7

    while at < len(message):
        key = read()
        kind = key & 7
        size = read() if kind == 2 else {1: 8, 5: 4}.get(kind, 0)
        value = read() if kind == 0 else message[at : at + size]
        at += size
        found.setdefault(key >> 3, []).append(value)
    return found


def source(text="recurrent"):
    return field(3, field(1, text))


def decode_request(sources, options=b"", model="g2p-en"):
    return field(1, model) + sources + field(4, options)


def infer_request(data, model="g2p-en", name="source_text", shape=(1, 1), raw=False):
    tensor = field(1, name) + field(2, "BYTES") + b"".join(field(3, extent) for extent in shape)
    if raw:
        return field(1, model) + field(5, tensor) + field(7, struct.pack("<I", len(data)) + data)
    return field(1, model) + field(5, tensor + field(5, field(8, data)))


# gRPC: a connection for each thread.
LOCAL = threading.local()


def channel(server):
    if getattr(LOCAL, "server", None) is not server:
        LOCAL.server = server
        LOCAL.channel = grpc.insecure_channel(
            f"127.0.0.1:{server.ports['grpc']}",
            options=[("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0), ("grpc.max_send_message_length", -1),
                     ("grpc.max_receive_message_length", -1)])  # fmt: skip
    return LOCAL.channel


def call(path, message, timeout=8, metadata=()):
    """A call with one request and one answer; `message`: bytes, or a function that makes some."""

    def run(server, _number, _stop):
        data = message() if callable(message) else message
        channel(server).unary_unary(path)(data, timeout=timeout, metadata=metadata)
        return "OK"

    return run


def unread(path, messages, calls=20):
    """Calls whose answers are not read."""

    def run(server, _number, stop):
        open_calls = [channel(server).stream_stream(path)(iter(messages), timeout=30) for _ in range(calls)]
        stop.wait(5)
        for one in open_calls:
            one.cancel()
        return "not read"

    return run


def idle(path, messages, calls=50):
    """Streams that stay open and say no more."""

    def run(server, _number, stop):
        def requests():
            yield from messages
            stop.wait(30)

        open_calls = [channel(server).stream_stream(path)(requests(), timeout=30) for _ in range(calls)]
        stop.wait()
        return f"{sum(one.is_active() for one in open_calls)} of {calls} open"

    return run


def post(path, body, headers=JSON, port="http", method="POST", leaves=False):
    """leaves: the client is gone before the answer."""

    def run(server, _number, _stop):
        connection = http.client.HTTPConnection("127.0.0.1", server.ports[port], timeout=8)
        try:
            connection.request(method, path, body() if callable(body) else body, headers)
            if leaves:
                connection.sock.settimeout(0.05)
            return connection.getresponse().status
        except TimeoutError:
            return "left"
        finally:
            connection.close()

    return run


def get(*paths, port="http"):
    def run(server, number, stop):
        return post(random.choice(paths), None, {}, port, "GET")(server, number, stop)

    return run


def connections(count, head, port="http", drip=b"", reads=True):
    """Connections of a thread that send `head`, and then `drip` every 50 ms until the server closes them."""

    def run(server, _number, stop):
        sockets = []
        for _ in range(count):
            one = socket.socket()
            if not reads:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            one.settimeout(3)
            try:
                one.connect(("127.0.0.1", server.ports[port]))
                one.sendall(head)
                one.setblocking(False)
                sockets.append(one)
            except OSError:
                one.close()
        while sockets and not stop.wait(0.05):
            for one in list(sockets):
                try:
                    if drip:
                        one.send(drip)
                except BlockingIOError:
                    pass
                except OSError:
                    sockets.remove(one)
                    one.close()
        still = len(sockets)
        for one in sockets:
            one.close()
        return f"{still} of {count} open"

    return run


def http_head(path, length, kind="application/json"):
    return (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def websocket(query, messages=(), frame=b"", count=50):
    """Connections that send whole binary messages, and then the beginning of one."""
    head = (f"GET /?{query} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n").encode()  # fmt: skip
    whole = b"".join(b"\x82\xff" + struct.pack(">Q", len(one)) + bytes(4) + one for one in messages)
    return connections(count, head + whole + frame, "websocket")


def form(parts):
    return b"".join(b"--X\r\n" + head + b"\r\n\r\n" + body + b"\r\n" for head, body in parts) + b"--X--\r\n"


def part(name, body, file=None):
    names = f'; filename="{file}"' if file else ""
    return f'Content-Disposition: form-data; name="{name}"{names}'.encode(), body if isinstance(
        body, bytes
    ) else body.encode()


def wav(size, rate=16000, channels=1):
    return (b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " +
            struct.pack("<IHHIIHH", 16, 1, channels, rate, rate * 2 * channels, 2 * channels, 16) + b"data" +
            struct.pack("<I", size) + bytes(size))  # fmt: skip


def transcription(sound, **fields):
    parts = [
        part("model", "digits-en"),
        *(part(name, value) for name, value in fields.items()),
        part("file", sound, "a.wav"),
    ]
    return post("/v1/audio/transcriptions", form(parts), FORM)


def png(width, height, rows):
    """A PNG whose head promises more pixels than its data have; grey."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(bytes((width + 1) * rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def jpeg(width, height):
    """A progressive JPEG with a real head, and nothing behind it."""
    head = (
        b"\xff\xd8\xff\xdb\x00\x43\x00"
        + bytes([1] * 64)
        + b"\xff\xc2\x00\x0b\x08"
        + struct.pack(">HH", height, width)
    )
    return (
        head
        + b"\x01\x01\x11\x00"
        + (b"\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00" + b"\x00" * 8) * 2000
        + b"\xff\xd9"
    )


@functools.cache
def pictures():
    return [png(7000, 7000, 7000), png(60000, 60000, 1000), jpeg(7000, 7000), jpeg(65000, 65000)]


def picture():
    return random.choice(pictures())


@functools.cache
def fine_picture():
    return png(3000, 3000, 3000)


def picture_json(path, body):
    return post(path, lambda: json.dumps(body(base64.b64encode(picture()).decode())))


def zipped(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return data.getvalue()


WORD = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'


@functools.cache
def documents():
    return {
        "bomb.docx": zipped([("word/document.xml", WORD + " " * (300 * MIB))]),
        "deep.docx": zipped([("word/document.xml", WORD + "<w:p>" * 1_000_000)]),
        "runs.docx": zipped([("word/document.xml", WORD + "<w:p>" + "<w:r><w:t>w4 </w:t></w:r>" * 200_000 + "</w:p></w:body></w:document>")]),
        "parts.docx": zipped([("word/document.xml", WORD + "</w:body></w:document>")] + [(f"word/header{i}.xml", WORD) for i in range(20_000)]),
        "deep.odt": zipped([("content.xml", "<text:p>" * 1_000_000)]),
        "cues.srt": "".join(f"{i}\n00:00:00,000 --> 00:00:01,000\nw4 w6\n\n" for i in range(60_000)).encode(),
        "deep.html": b"<b>" * 1_000_000,
        "entries.po": b'msgid "w4"\nmsgstr ""\n\n' * 100_000,
        "lines.txt": b"w4 w6 w9! " * 300_000,
    }  # fmt: skip


FORMATS = {"docx": 7, "odt": 8}


def document_form():
    name = random.choice(list(documents()))
    return form([part("source", "en"), part("target", "fr"), part("file", documents()[name], name)])


def document_message():
    name = random.choice([name for name in documents() if name.endswith(("docx", "odt"))])
    return (
        field(2, "en") + field(3, "fr") + field(5, FORMATS[name[-4:].strip(".")]) + field(9, documents()[name])
    )


def deep(depth=200_000):
    return b'{"a":' * depth + b"1" + b"}" * depth


def recognize(model="digits-en", beam=0, regex=None):
    options = (field(1, beam) if beam else b"") + (field(OPTION_REGEX, regex) if regex else b"")
    return field(1, field(1, model) + field(3, options) + field(4, b""))


def option(name):
    """The number of a field of DecodeOptions, from the proto."""
    for line in (ROOT / "proto/beamwright/v1/decode.proto").read_text().splitlines():
        words = line.split()
        if name in words and "=" in words and words[words.index("=") - 1] == name:
            return int(words[words.index("=") + 1].strip(";"))
    raise KeyError(name)


OPTION_REGEX, OPTION_STATE = option("regex"), option("return_state")
PATTERN = '{"regex": "%s"}' % SLOW
DECODE, OIP = "/beamwright.v1.DecodeService/", "/inference.GRPCInferenceService/"
RULE_DECODE, RULE_MODELS = "/beamwright.v1.DecodeService/*", "POST /v1/models/*"
RULE_SPEECH, RULE_INFER = "/beamwright.v1.RecognizeService/*", "POST /v2/models/*/infer"
WIDE = '{"sources": [%s], "options": {"beam_size": 64}}' % ", ".join(
    ['{"text": "%s"}' % ("internationalization" * 5)] * 300
)


def fresh_pattern():
    return f"{SLOW}[{random.choice('abcdefgh')}{random.randrange(10**6)}]?"
