#!/usr/bin/env python3
"""The service configs of deploy/grpc in a gRPC that knows all of their fields.

Usage: check_service_configs.py BIN MODEL. A client in Python calls two addresses, of which one has no server: with each
config every call has its answer. What it does not understand, gRPC refuses with the first call.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import grpc

import sandbox

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "deploy/grpc"
READY = "/inference.GRPCInferenceService/ModelReady"
MODEL = b"\n\x06g2p-en"  # ModelReadyRequest{name: "g2p-en"}
IS_READY = b"\x08\x01"

# Of what each config has, and of weighted_round_robin, which older ones pass over.
WRONG = {'"maxTokens": ': '"maxTokens": -', '"maxAttempts": ': '"maxAttempts": -',
         '"blackoutPeriod": "5s"': '"blackoutPeriod": "often"'}


def is_taken(text):
    try:
        ask(text)
    except grpc.RpcError:
        return False
    return True


def ask(text):
    with grpc.insecure_channel("ipv4:127.0.0.1:8001,127.0.0.1:8009", [("grpc.service_config", text)]) as channel:
        call = channel.unary_unary(READY)
        for _ in range(20):
            assert call(MODEL, timeout=60) == IS_READY


def main():
    programs, model = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    sandbox.enter()
    with tempfile.TemporaryDirectory() as folder:
        ports = pathlib.Path(folder) / "ports"
        server = subprocess.Popen([programs / "beamwright-server", "--model-path", model, "--ports-file", ports])
        try:
            until = time.monotonic() + 60
            while not ports.exists():
                assert server.poll() is None and time.monotonic() < until
                time.sleep(0.05)
            files = sorted(CONFIGS.glob("*.json"))
            for file in files:
                text = file.read_text(encoding="utf-8")
                ask(text)
                for right, wrong in WRONG.items():
                    if right in text and is_taken(text.replace(right, wrong)):
                        sys.exit(f"{file.name}: {wrong} is not noticed, so {right} proves nothing")
        finally:
            server.kill()
            server.wait()
    print(f"{len(files)} service configs are understood")


if __name__ == "__main__":
    main()
