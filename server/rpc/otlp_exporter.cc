#include "server/rpc/otlp_exporter.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace beamwright::rpc {
namespace {

namespace collector = opentelemetry::proto::collector::trace::v1;

constexpr size_t kMaxWaiting = 8192;
// Spans of a moment travel together.
constexpr absl::Duration kGather = absl::Milliseconds(500);
constexpr std::chrono::seconds kTimeout(5);
constexpr std::chrono::seconds kLastTimeout(1);

void Describe(opentelemetry::proto::resource::v1::Resource& resource, const char* key,
              const std::string& value) {
  auto& attribute = *resource.add_attributes();
  attribute.set_key(key);
  attribute.mutable_value()->set_string_value(value);
}

}  // namespace

OtlpExporter::OtlpExporter(const std::string& endpoint)
    : stub_(collector::TraceService::NewStub(
          grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials()))) {
  thread_.emplace("bw-spans", kGather, [this] { Flush(kTimeout); });
}

OtlpExporter::~OtlpExporter() {
  thread_.reset();
  Flush(kLastTimeout);
}

void OtlpExporter::Add(Spans spans) {
  absl::MutexLock lock(&mutex_);
  if (spans_.size() + spans.size() > kMaxWaiting) {
    dropped_ += static_cast<int64_t>(spans.size());
    return;
  }
  std::move(spans.begin(), spans.end(), std::back_inserter(spans_));
}

void OtlpExporter::Flush(std::chrono::seconds timeout) {
  Spans spans;
  int64_t dropped = 0;
  {
    absl::MutexLock lock(&mutex_);
    spans.swap(spans_);
    std::swap(dropped, dropped_);
  }
  if (dropped > 0) {
    spdlog::warn("{} spans dropped: the trace collector does not keep up", dropped);
  }
  if (!spans.empty()) {
    Send(std::move(spans), timeout);
  }
}

void OtlpExporter::Send(Spans spans, std::chrono::seconds timeout) {
  collector::ExportTraceServiceRequest request;
  auto& of_process = *request.add_resource_spans();
  auto& resource = *of_process.mutable_resource();
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  Describe(resource, "service.name", "beamwright-server");
  Describe(resource, "service.version", BEAMWRIGHT_VERSION);
  Describe(resource, "service.instance.id", absl::StrCat(host, "-", getpid()));
  auto& scope = *of_process.add_scope_spans();
  scope.mutable_scope()->set_name("beamwright");
  scope.mutable_scope()->set_version(BEAMWRIGHT_VERSION);
  for (serving::Span& span : spans) {
    *scope.add_spans() = std::move(span);
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  collector::ExportTraceServiceResponse response;
  const grpc::Status status = stub_->Export(&context, request, &response);
  if (status.ok() == failing_) {
    // Logged once when it begins and once when it ends.
    failing_ = !status.ok();
    if (failing_) {
      spdlog::warn("the trace collector takes no spans: {}", status.error_message());
    } else {
      spdlog::info("the trace collector takes spans again");
    }
  }
}

}  // namespace beamwright::rpc
