#!/usr/bin/env python3
"""gRPC-Web through Envoy, as browsers speak it: HTTP/1.1, frames and trailers in the body, a page of another origin.

Usage: check_grpc_web.py BIN ENVOY MODEL. In separate namespaces: a server, and Envoy with deploy/envoy/envoy.yaml before it.
"""

import base64
import contextlib
import http.client
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time

import sandbox

CONFIG = pathlib.Path(__file__).resolve().parents[2] / "deploy/envoy/envoy.yaml"
UNARY, STREAM = (f"/beamwright.v1.DecodeService/{method}" for method in ("Decode", "StreamDecode"))
ALLOWED, OTHER = "https://app.example.com", "https://elsewhere.example.com"
ANSWER = b"R IY0 K ER1 AH0 N T"


def field(number, value):
    """A field of a message that holds bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


SOURCE = field(1, b"recurrent") # Source{text}
REQUEST = field(3, SOURCE)      # DecodeRequest{sources}, and StreamDecodeRequest{source}


def frame(message):
    return struct.pack(">BI", 0, len(message)) + message


def frames(body):
    """The messages of a body, and its trailers."""
    messages, trailers = [], {}
    while body:
        kind, length = struct.unpack(">BI", body[:5])
        part, body = body[5:5 + length], body[5 + length:]
        if kind & 0x80:
            lines = part.decode().strip().split("\r\n")
            trailers = {name.strip().lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        else:
            messages.append(part)
    return messages, trailers


def ask(method, path, body=b"", origin=ALLOWED, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", 9001, timeout=60)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {"origin": origin, "x-grpc-web": "1"} | headers)
    with contextlib.closing(connection):
        reply = connection.getresponse()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()


def check():
    status, headers, body = ask("POST", UNARY, frame(REQUEST), content_type="application/grpc-web+proto")
    messages, trailers = frames(body)
    assert status == 200 and headers["content-type"].startswith("application/grpc-web"), (status, headers)
    assert len(messages) == 1 and ANSWER in messages[0] and trailers["grpc-status"] == "0", (messages, trailers)
    assert headers["access-control-allow-origin"] == ALLOWED, headers

    # The text form, which old browsers' clients use.
    _, headers, body = ask("POST", UNARY, base64.b64encode(frame(REQUEST)), content_type="application/grpc-web-text",
                           accept="application/grpc-web-text")
    assert ANSWER in base64.b64decode(body), (headers, body)

    # A stream: a message for what is stable, then the answer. The server joins messages for who reads slowly, so that
    # on a busy machine one may have all; not each time.
    counts = []
    for _ in range(20):
        _, _, body = ask("POST", STREAM, frame(REQUEST), content_type="application/grpc-web+proto")
        messages, trailers = frames(body)
        assert ANSWER in messages[-1] and trailers["grpc-status"] == "0", (messages, trailers)
        counts.append(len(messages))
    assert max(counts) > 1, counts

    # A refusal: its code and message are headers or trailers.
    _, headers, body = ask("POST", UNARY, frame(b""), content_type="application/grpc-web+proto")
    trailers = headers | frames(body)[1]
    assert trailers["grpc-status"] == "3" and "sources" in trailers["grpc-message"], (headers, body)

    # What a browser asks before it calls from a page elsewhere.
    asked = {"access_control_request_method": "POST", "access_control_request_headers": "content-type,x-grpc-web"}
    status, headers, _ = ask("OPTIONS", UNARY, **asked)
    assert status == 200 and headers["access-control-allow-origin"] == ALLOWED, (status, headers)
    assert "x-grpc-web" in headers["access-control-allow-headers"], headers
    _, headers, _ = ask("OPTIONS", UNARY, origin=OTHER, **asked)
    assert "access-control-allow-origin" not in headers, headers


def becomes(ready, processes, log):
    until = time.monotonic() + 60
    while not ready():
        if time.monotonic() > until or any(process.poll() is not None for process in processes):
            sys.exit(f"does not start\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


def accepts():
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", 9001), timeout=1):
        return True
    return False


def main():
    programs, envoy, model = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    if not envoy.exists():
        print(f"{envoy} is missing: ./dev test installs it")
        sys.exit(77)
    sandbox.enter()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        folder = pathlib.Path(folder)
        log, ports, config = folder / "log", folder / "ports", folder / "envoy.yaml"
        text = CONFIG.read_text(encoding="utf-8")
        config.write_text(text.replace("address: beamwright-replicas", "address: 127.0.0.1"), encoding="utf-8")
        output = stack.enter_context(log.open("w"))
        commands = ([programs / "beamwright-server", "--model-path", model, "--ports-file", ports],
                    [envoy, "--config-path", config, "--concurrency", "1", "--log-level", "warning"])
        processes = []
        for command in commands:
            processes.append(subprocess.Popen(command, stdout=output, stderr=output))
            stack.callback(processes[-1].wait)
            stack.callback(processes[-1].kill)
        becomes(lambda: ports.exists() and accepts(), processes, log)
        check()
    print("gRPC-Web: unary, text form, stream, refusal, other origins")


if __name__ == "__main__":
    main()
