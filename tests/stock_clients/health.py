"""grpcio-health-checking: Check, and Watch through a drain, for the server, services and the model."""

import signal
import threading

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

import served

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICES = ("", "beamwright.v1.DecodeService", "inference.GRPCInferenceService", "g2p-en")


def main():
    with served.server("--drain-delay", "5s") as (address, _, process), \
            grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in SERVICES:
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=60)
            served.check(answer.status == SERVING, f"Check of '{service}'")
        try:
            stub.Check(health_pb2.HealthCheckRequest(service="x"), timeout=60)
            served.check(False, "Check of an unknown service")
        except grpc.RpcError as error:
            served.check(error.code() == grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
        seen = {service: [] for service in SERVICES}
        first = threading.Barrier(len(SERVICES) + 1)

        def watch(service):
            try:
                for answer in stub.Watch(health_pb2.HealthCheckRequest(service=service)):
                    seen[service].append(answer.status)
                    if len(seen[service]) == 1:
                        first.wait(60)
            except grpc.RpcError:
                pass  # the server ends the stream when it ends

        threads = [threading.Thread(target=watch, args=(service,)) for service in SERVICES]
        for thread in threads:
            thread.start()
        first.wait(60)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        for service, statuses in seen.items():
            served.check(statuses == [SERVING, NOT_SERVING], f"Watch of '{service}': {statuses}")
        process.wait(60)
    print("grpc.health.v1: good")


if __name__ == "__main__":
    main()
