#include "client/cli/load_mix.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/output.pb.h"
#include "client/cli/terminal.h"
#include "client/load/infer_message.h"
#include "google/protobuf/util/json_util.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::client {
namespace {

constexpr size_t kMostMixedCalls = 1'000'000;
constexpr int kMaxTimes = 1000;

absl::StatusOr<MixLine> ParseLine(const std::string& text) {
  BW_RETURN_IF_ERROR(CheckUtf8(text));
  MixLine line;
  if (const auto status = google::protobuf::util::JsonStringToMessage(text, &line); !status.ok()) {
    const std::string message(status.message());  // then come the text and a mark beneath it
    return Invalid(Printable(message.substr(0, message.find('\n'))));
  }
  if ((line.source().empty() ? 0 : 1) + (line.ids().empty() ? 0 : 1) + (line.has_infer() ? 1 : 0) !=
      1) {
    return Invalid("it must have one of source, ids and infer");
  }
  if (line.has_infer() && (line.has_options() || !line.hypotheses().empty())) {
    return Invalid("a line with `infer` cannot have `options` or `hypotheses`");
  }
  if (line.priority() < 0 || line.priority() > 3) {
    return Invalid("priority is ", line.priority(), "; 1 to 3 are allowed");
  }
  if (line.times() < 0 || line.times() > kMaxTimes) {
    return Invalid("times is ", line.times(), "; 1 to ", kMaxTimes, " are allowed");
  }
  return line;
}

// Of a member that may be empty; `duration` is then left as it is.
absl::Status ReadDuration(const char* name, const std::string& text, absl::Duration least,
                          absl::Duration& duration) {
  if (!text.empty() &&
      (!absl::ParseDuration(text, &duration) || duration < least || duration > kMaxLoadDuration)) {
    return Invalid(name, " \"", Printable(text), "\" is not a duration from ",
                   absl::FormatDuration(least), " to ", absl::FormatDuration(kMaxLoadDuration),
                   ", such as 50ms");
  }
  return absl::OkStatus();
}

absl::StatusOr<MixedCall> CallOf(MixLine line) {
  MixedCall call;
  if (line.has_infer()) {
    auto infer = InferRequestOf(line.infer());
    BW_RETURN_IF_ERROR(Annotate(infer.status(), "infer"));
    call.infer = std::make_shared<const inference::ModelInferRequest>(*std::move(infer));
  } else if (line.ids().empty()) {
    call.source.set_text(line.source());
  } else {
    *call.source.mutable_ids()->mutable_ids() = line.ids();
  }
  call.options = std::move(*line.mutable_options());
  call.settings.priority = line.priority();
  call.settings.tenant = line.tenant();
  constexpr absl::Duration kLeast = absl::Milliseconds(1);
  BW_RETURN_IF_ERROR(ReadDuration("timeout", line.timeout(), kLeast, call.timeout));
  BW_RETURN_IF_ERROR(
      ReadDuration("cancel_after", line.cancel_after(), kLeast, call.settings.cancel_after));
  BW_RETURN_IF_ERROR(ReadDuration("at", line.at(), absl::ZeroDuration(), call.at));
  if (!line.hypotheses().empty()) {
    call.expected = line.hypotheses(0);
  }
  return call;
}

}  // namespace

absl::StatusOr<Mix> ReadMix(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return Invalid("cannot read ", Printable(path));
  }
  Mix mix;
  std::vector<MixedCall>& calls = mix.calls;
  int64_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.empty()) {
      continue;
    }
    const std::string where = absl::StrCat("line ", number, " of ", Printable(path));
    auto line = ParseLine(text);
    BW_RETURN_IF_ERROR(Annotate(line.status(), where));
    const int times = std::max(1, line->times());
    if (!calls.empty() && line->at().empty() == mix.timed) {
      return Invalid(where, ": either every line says when its call is due (at), or none does");
    }
    mix.timed = !line->at().empty();
    (line->has_infer() ? mix.has_infer : mix.has_sources) = true;
    auto call = CallOf(*std::move(line));
    BW_RETURN_IF_ERROR(Annotate(call.status(), where));
    calls.insert(calls.end(), static_cast<size_t>(times), *call);
    if (calls.size() > kMostMixedCalls) {
      return Invalid(Printable(path), " has more than ", WithCommas(kMostMixedCalls), " calls");
    }
  }
  if (file.bad() || calls.empty()) {
    return Invalid(Printable(path), file.bad() ? " could not be read to its end" : " has no call");
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const MixedCall& a, const MixedCall& b) { return a.at < b.at; });
  return mix;
}

}  // namespace beamwright::client
