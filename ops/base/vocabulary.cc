#include "ops/base/vocabulary.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;

absl::Status CheckLine(absl::string_view line) {
  if (line.empty()) {
    return Invalid("is empty; every line is a token");
  }
  if (absl::EndsWith(line, "\r")) {
    return Invalid("ends with a carriage return; the file needs Unix line ends");
  }
  return CheckUtf8(line);
}

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Parse(absl::string_view content) {
  if (content.empty()) {
    return Invalid("the file is empty; it holds one token a line");
  }
  if (absl::StartsWith(content, "\xEF\xBB\xBF")) {
    return Invalid("line 1 starts with a byte order mark; save the file without it");
  }
  if (absl::EndsWith(content, "\n")) {
    content.remove_suffix(1);
  }
  Vocabulary result;
  for (const absl::string_view line : absl::StrSplit(content, '\n')) {
    const size_t number = result.tokens_.size() + 1;
    if (number > kMaxTokens) {
      return Invalid("more than ", kMaxTokens, " lines");
    }
    const absl::Status status = CheckLine(line);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("line ", number));
    }
    const auto [found, fresh] = result.ids_.emplace(line, static_cast<int32_t>(number - 1));
    if (!fresh) {
      return Invalid("line ", number, ": '", line, "' stands in line ", found->second + 1,
                     " already");
    }
    result.tokens_.emplace_back(line);
  }
  return result;
}

int32_t Vocabulary::Find(absl::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

}  // namespace beamwright
