#include "client/cli/load_mix.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/output.pb.h"
#include "client/cli/terminal.h"
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
  if (line.source().empty() == line.ids().empty()) {
    return Invalid("it must have either a source or ids");
  }
  if (line.priority() < 0 || line.priority() > 3) {
    return Invalid("priority is ", line.priority(), "; 1 to 3 are allowed");
  }
  if (line.times() < 0 || line.times() > kMaxTimes) {
    return Invalid("times is ", line.times(), "; 1 to ", kMaxTimes, " are allowed");
  }
  return line;
}

absl::StatusOr<MixedCall> CallOf(MixLine line) {
  MixedCall call;
  if (line.ids().empty()) {
    call.source.set_text(line.source());
  } else {
    *call.source.mutable_ids()->mutable_ids() = line.ids();
  }
  call.options = std::move(*line.mutable_options());
  call.priority = line.priority();
  if (!line.timeout().empty() &&
      (!absl::ParseDuration(line.timeout(), &call.timeout) ||
       call.timeout < absl::Milliseconds(1) || call.timeout > kMaxLoadDuration)) {
    return Invalid("timeout \"", Printable(line.timeout()), "\" is not a duration from 1ms to ",
                   absl::FormatDuration(kMaxLoadDuration), ", such as 50ms");
  }
  if (!line.hypotheses().empty()) {
    call.expected = line.hypotheses(0);
  }
  return call;
}

}  // namespace

absl::StatusOr<std::vector<MixedCall>> ReadMix(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return Invalid("cannot read ", Printable(path));
  }
  std::vector<MixedCall> calls;
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
  return calls;
}

}  // namespace beamwright::client
