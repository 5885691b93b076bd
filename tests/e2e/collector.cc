#include "tests/e2e/collector.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include "absl/strings/str_cat.h"

namespace beamwright::e2e {

namespace collector = opentelemetry::proto::collector::trace::v1;

Collector::Collector() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

Collector::~Collector() { server_->Shutdown(); }

std::string Collector::address() const { return absl::StrCat("127.0.0.1:", port_); }

std::vector<Collector::Span> Collector::spans() {
  absl::MutexLock lock(&mutex_);
  return spans_;
}

std::string Collector::service() {
  absl::MutexLock lock(&mutex_);
  return service_;
}

grpc::Status Collector::Export(grpc::ServerContext* /*context*/,
                               const collector::ExportTraceServiceRequest* request,
                               collector::ExportTraceServiceResponse* /*response*/) {
  absl::MutexLock lock(&mutex_);
  for (const auto& spans : request->resource_spans()) {
    service_ = spans.resource().attributes(0).value().string_value();
    for (const auto& scope : spans.scope_spans()) {
      spans_.insert(spans_.end(), scope.spans().begin(), scope.spans().end());
    }
  }
  return grpc::Status::OK;
}

}  // namespace beamwright::e2e
