#include "server/serving/tracer.h"

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/serving/wire_status.h"

namespace beamwright::serving {
namespace {

constexpr size_t kTraceIdBytes = 16;
constexpr size_t kSpanIdBytes = 8;
constexpr int kMaxSourcesTraced = 8;

absl::BitGen& Random() {
  thread_local absl::BitGen random;
  return random;
}

std::string RandomId(size_t bytes) {
  std::string id(bytes, '\0');
  for (char& c : id) {
    c = static_cast<char>(absl::Uniform(Random(), 0, 256));
  }
  id[0] = id[0] == '\0' ? '\1' : id[0];  // all zeros is no id
  return id;
}

bool IsLowerHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
  });
}

bool IsZero(const std::string& id) { return id.find_first_not_of('\0') == std::string::npos; }

void Add(Span& span, const char* key, absl::string_view value) {
  auto& attribute = *span.add_attributes();
  attribute.set_key(key);
  attribute.mutable_value()->set_string_value(std::string(value));
}

void Add(Span& span, const char* key, int64_t value) {
  auto& attribute = *span.add_attributes();
  attribute.set_key(key);
  attribute.mutable_value()->set_int_value(value);
}

Span MakeSpan(const std::string& trace_id, const std::string& parent_id, const std::string& name,
              absl::Time start, absl::Time end) {
  Span span;
  span.set_trace_id(trace_id);
  span.set_span_id(RandomId(kSpanIdBytes));
  span.set_parent_span_id(parent_id);
  span.set_name(name);
  span.set_kind(Span::SPAN_KIND_INTERNAL);
  span.set_start_time_unix_nano(static_cast<uint64_t>(absl::ToUnixNanos(start)));
  span.set_end_time_unix_nano(static_cast<uint64_t>(absl::ToUnixNanos(std::max(start, end))));
  return span;
}

std::string FinishReason(const v1::Decoded& decoded) {
  return decoded.hypotheses().empty()
             ? ""
             : v1::FinishReason_Name(decoded.hypotheses(0).finish_reason());
}

}  // namespace

std::optional<TraceParent> ParseTraceParent(absl::string_view header) {
  constexpr size_t kLength = 55;
  // A later version may add fields after a dash; version ff is none.
  if (header.size() < kLength || (header.size() > kLength && header[kLength] != '-') ||
      (header.size() > kLength && header.substr(0, 2) == "00") || header.substr(0, 2) == "ff" ||
      header[2] != '-' || header[35] != '-' || header[52] != '-') {
    return std::nullopt;
  }
  for (const auto& [at, size] : {std::pair(0, 2), {3, 32}, {36, 16}, {53, 2}}) {
    if (!IsLowerHex(header.substr(static_cast<size_t>(at), static_cast<size_t>(size)))) {
      return std::nullopt;
    }
  }
  TraceParent parent;
  parent.trace_id = absl::HexStringToBytes(header.substr(3, 32));
  parent.span_id = absl::HexStringToBytes(header.substr(36, 16));
  parent.sampled = (absl::HexStringToBytes(header.substr(53, 2))[0] & 1) != 0;
  if (IsZero(parent.trace_id) || IsZero(parent.span_id)) {
    return std::nullopt;
  }
  return parent;
}

void Tracer::OnCall(const CallRecord& call) {
  std::optional<TraceParent> parent;
  if (!call.context.traceparent.empty()) {
    parent = ParseTraceParent(call.context.traceparent);
  }
  if (!(parent.has_value() ? parent->sampled : absl::Bernoulli(Random(), rate_))) {
    return;
  }
  const std::string trace_id = parent.has_value() ? parent->trace_id : RandomId(kTraceIdBytes);
  std::vector<Span> spans;
  spans.push_back(MakeSpan(trace_id, parent.has_value() ? parent->span_id : "",
                           std::string(call.method), call.start, call.end));
  const std::string call_id = spans[0].span_id();
  spans[0].set_kind(Span::SPAN_KIND_SERVER);
  Add(spans[0], call.protocol == "grpc" ? "rpc.system.name" : "url.scheme", call.protocol);
  Add(spans[0], "rpc.method", call.method);
  Add(spans[0], "rpc.response.status_code", absl::StatusCodeToString(WireCode(call.status.code())));
  Add(spans[0], "beamwright.model", call.model);
  Add(spans[0], "beamwright.version", call.version);
  Add(spans[0], "beamwright.sources", call.num_sources);
  if (!call.context.request_id.empty()) {
    Add(spans[0], "beamwright.request_id", call.context.request_id);
  }
  if (!call.status.ok()) {
    spans[0].mutable_status()->set_code(opentelemetry::proto::trace::v1::Status::STATUS_CODE_ERROR);
    spans[0].mutable_status()->set_message(WireMessage(call.status));
  }
  const int num_traced =
      call.response == nullptr ? 0 : std::min(call.response->results_size(), kMaxSourcesTraced);
  for (int i = 0; i < num_traced; ++i) {
    if (!call.response->results(i).has_decoded()) {
      continue;
    }
    const v1::Decoded& decoded = call.response->results(i).decoded();
    const absl::Time begin = call.start + absl::Milliseconds(decoded.queue_ms());
    const absl::Time end = begin + absl::Milliseconds(decoded.compute_ms());
    spans.push_back(MakeSpan(trace_id, call_id, "queue", call.start, begin));
    Add(spans.back(), "beamwright.source", i);
    Span decode = MakeSpan(trace_id, call_id, "decode", begin, end);
    Add(decode, "beamwright.source", i);
    Add(decode, "beamwright.source_tokens", decoded.source_length());
    Add(decode, "beamwright.steps",
        decoded.hypotheses().empty() ? 0 : decoded.hypotheses(0).tokens_size());
    Add(decode, "beamwright.finish_reason", FinishReason(decoded));
    spans.push_back(std::move(decode));
  }
  sink_(std::move(spans));
}

}  // namespace beamwright::serving
