// Collector: an OpenTelemetry collector that keeps the spans it is sent.
#ifndef BEAMWRIGHT_TESTS_E2E_COLLECTOR_H_
#define BEAMWRIGHT_TESTS_E2E_COLLECTOR_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"

namespace beamwright::e2e {

class Collector final : public opentelemetry::proto::collector::trace::v1::TraceService::Service {
 public:
  using Span = opentelemetry::proto::trace::v1::Span;

  Collector();
  ~Collector() override;

  std::string address() const;
  // What it was sent so far.
  std::vector<Span> spans();
  std::string service();

  grpc::Status Export(
      grpc::ServerContext* context,
      const opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest* request,
      opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse* response) override;

 private:
  absl::Mutex mutex_;
  std::vector<Span> spans_;
  std::string service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace beamwright::e2e

#endif  // BEAMWRIGHT_TESTS_E2E_COLLECTOR_H_
