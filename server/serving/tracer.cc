// Makes OpenTelemetry spans of calls: one of the call, and below it the parts of each source
// (queue, encode, decode with its steps as events, detokenise).
//
// A call that brings a traceparent header is traced if its caller samples it (ParseTraceParent, W3C
// Trace Context); others at `rate_`. The spans are made when the call has ended, from its timelines
// (AddSource), so that a call that is not traced costs nothing while it runs. A source that failed
// has parts up to the one in which it failed.
#include "server/serving/tracer.h"

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/status/wire_status.h"
#include "ops/base/steady_time.h"

namespace beamwright::serving {
namespace {

constexpr size_t kTraceIdBytes = 16;
constexpr size_t kSpanIdBytes = 8;
constexpr size_t kMaxAttributeBytes = 256;  // as in the access log

absl::BitGen& Random() {
  thread_local absl::BitGen random;
  return random;
}

std::string RandomId(size_t bytes) {
  std::string id(bytes, '\0');
  for (char& c : id) {
    c = static_cast<char>(absl::Uniform(Random(), 0, 256));
  }
  id[0] = id[0] == '\0' ? '\1' : id[0];  // all zeros is not an id
  return id;
}

bool IsLowerHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
  });
}

bool IsZero(const std::string& id) { return id.find_first_not_of('\0') == std::string::npos; }

// A collector refuses whole batches, of all clients, for one string that is no UTF-8.
void Add(Span& span, const char* key, absl::string_view value) {
  auto& attribute = *span.add_attributes();
  attribute.set_key(key);
  attribute.mutable_value()->set_string_value(status::WireText(value, kMaxAttributeBytes));
}

void Add(Span& span, const char* key, int64_t value) {
  auto& attribute = *span.add_attributes();
  attribute.set_key(key);
  attribute.mutable_value()->set_int_value(value);
}

uint64_t UnixNanos(absl::Time steady_time) {
  return static_cast<uint64_t>(absl::ToUnixNanos(ToWall(steady_time)));
}

Span MakeSpan(const std::string& trace_id, const std::string& parent_id, const std::string& name,
              absl::Time start, absl::Time end) {
  Span span;
  span.set_trace_id(trace_id);
  span.set_span_id(RandomId(kSpanIdBytes));
  span.set_parent_span_id(parent_id);
  span.set_name(name);
  span.set_kind(Span::SPAN_KIND_INTERNAL);
  span.set_start_time_unix_nano(UnixNanos(start));
  span.set_end_time_unix_nano(UnixNanos(std::max(start, end)));
  return span;
}

std::string FinishReason(const v1::Decoded& decoded) {
  return decoded.hypotheses().empty()
             ? ""
             : v1::FinishReason_Name(decoded.hypotheses(0).finish_reason());
}

// Adds the spans of source `index` below the call's span, which is the first of `spans`. decoded:
// null if the source failed; the part that it was in ends with the call then.
void AddSource(const CallRecord& call, size_t index, const v1::Decoded* decoded,
               std::vector<Span>& spans) {
  const engine::Timeline& line = call.timelines[index];
  const std::pair<const char*, absl::Time> parts[] = {{"queue", line.accepted},
                                                      {"encode", line.started},
                                                      {"decode", line.encoded},
                                                      {"detokenise", line.searched},
                                                      {"", line.written}};
  for (size_t part = 0; part + 1 < std::size(parts); ++part) {
    const auto& [name, begin] = parts[part];
    if (begin == absl::InfinitePast()) {
      return;
    }
    const absl::Time next = parts[part + 1].second;
    Span span = MakeSpan(spans[0].trace_id(), spans[0].span_id(), name, begin,
                         next == absl::InfinitePast() ? call.end : next);
    Add(span, "beamwright.source", static_cast<int64_t>(index));
    if (name == absl::string_view("decode")) {
      Add(span, "beamwright.model", call.model);
      Add(span, "beamwright.beam_size", line.beam_size);
      Add(span, "beamwright.steps", line.num_steps);
      for (const engine::Timeline::Mark& mark : line.marks) {
        auto& event = *span.add_events();
        event.set_name("step");
        event.set_time_unix_nano(UnixNanos(mark.at));
        auto& attribute = *event.add_attributes();
        attribute.set_key("beamwright.steps");
        attribute.mutable_value()->set_int_value(mark.steps);
      }
      if (decoded != nullptr) {
        Add(span, "beamwright.source_tokens", decoded->source_length());
        Add(span, "beamwright.finish_reason", FinishReason(*decoded));
      }
    }
    spans.push_back(std::move(span));
  }
}

}  // namespace

std::optional<TraceParent> ParseTraceParent(absl::string_view header) {
  constexpr size_t kLength = 55;
  // A later version may add fields after a dash; version ff is invalid.
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

bool Tracer::WantsTimelines(const CallContext& context) const {
  const auto parent = ParseTraceParent(context.traceparent);
  return parent.has_value() ? parent->sampled : rate_ > 0;
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
  Add(spans[0], "rpc.response.status_code",
      absl::StatusCodeToString(status::WireCode(call.status.code())));
  Add(spans[0], "beamwright.model", call.model);
  Add(spans[0], "beamwright.version", call.version);
  Add(spans[0], "beamwright.sources", call.num_sources);
  if (call.num_failed > 0) {
    Add(spans[0], "beamwright.failed_sources", call.num_failed);
  }
  if (!call.context.request_id.empty()) {
    Add(spans[0], "beamwright.request_id", call.context.request_id);
  }
  if (!call.status.ok()) {
    spans[0].mutable_status()->set_code(opentelemetry::proto::trace::v1::Status::STATUS_CODE_ERROR);
    spans[0].mutable_status()->set_message(status::WireMessage(call.status));
  }
  for (size_t i = 0; i < call.timelines.size(); ++i) {
    const bool is_decoded =
        call.response != nullptr && call.response->results(static_cast<int>(i)).has_decoded();
    AddSource(call, i,
              is_decoded ? &call.response->results(static_cast<int>(i)).decoded() : nullptr, spans);
  }
  sink_(std::move(spans));
}

}  // namespace beamwright::serving
