// Reads a vocabulary, one token a line; the line's number, from 0, is the id. Files of Windows and
// files with a byte order mark are refused with what to do, since a carriage return would become a
// part of each token. Tokens are distinct, unless the caller allows columns that repeat; then the
// last one of a text is found.
#include "ops/base/vocabulary.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;

absl::Status CheckLine(absl::string_view line, Vocabulary::Lines lines) {
  if (line.empty() && lines == Vocabulary::Lines::kDistinct) {
    return Invalid("is empty; every line is a token");
  }
  if (absl::EndsWith(line, "\r")) {
    return Invalid("ends with a carriage return; the file needs Unix line ends");
  }
  return CheckUtf8(line);
}

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Parse(absl::string_view content, Lines lines) {
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
    const absl::Status status = CheckLine(line, lines);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("line ", number));
    }
    const auto id = static_cast<int32_t>(number - 1);
    const auto [found, fresh] = result.ids_.emplace(line, id);
    if (!fresh && lines == Lines::kDistinct) {
      return Invalid("line ", number, ": '", line, "' is in line ", found->second + 1, " already");
    }
    found->second = id;
    result.tokens_.emplace_back(line);
  }
  return result;
}

int32_t Vocabulary::Find(absl::string_view token) const {
  if (token.empty()) {
    return -1;  // no text spells a column without one
  }
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

}  // namespace beamwright
