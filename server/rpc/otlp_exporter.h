// OtlpExporter: sends spans to an OpenTelemetry collector over gRPC, in batches, on a thread of its
// own. A collector that is slow or away costs spans, never calls.
#ifndef BEAMWRIGHT_SERVER_RPC_OTLP_EXPORTER_H_
#define BEAMWRIGHT_SERVER_RPC_OTLP_EXPORTER_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "ops/base/threads.h"
#include "server/serving/tracer.h"

namespace beamwright::rpc {

// Thread-safe.
class OtlpExporter {
 public:
  // endpoint: the collector's HOST:PORT, in clear (4317 by custom).
  explicit OtlpExporter(const std::string& endpoint);
  // Sends the spans that wait, for a second at most.
  ~OtlpExporter();
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  // Takes spans to be sent soon; drops them while too many wait.
  void Add(std::vector<serving::Span> spans);

 private:
  using Spans = std::vector<serving::Span>;

  // Sends the spans that wait.
  void Flush(std::chrono::seconds timeout);
  void Send(Spans spans, std::chrono::seconds timeout);

  const std::unique_ptr<opentelemetry::proto::collector::trace::v1::TraceService::Stub> stub_;
  bool failing_ = false;  // the thread's own
  absl::Mutex mutex_;
  Spans spans_ ABSL_GUARDED_BY(mutex_);
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  // Optional, so that it ends before the last spans are sent. Last: it uses the others.
  std::optional<PeriodicThread> thread_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_OTLP_EXPORTER_H_
