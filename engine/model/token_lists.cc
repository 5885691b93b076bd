#include "engine/model/token_lists.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {

absl::StatusOr<std::shared_ptr<const search::TokenTrie>> ReadTokenList(
    const std::string& content, const bundle::TextCodec& target,
    const std::vector<int32_t>& end_tokens) {
  std::vector<search::TokenSequence> entries;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(content, "\n"), '\n')) {
    absl::StatusOr<std::vector<int32_t>> tokens = target.EncodePart(line);
    if (!tokens.ok()) {
      return status::AtField(tokens.status(), absl::StrCat("line ", entries.size() + 1));
    }
    if (const auto end = absl::c_find_first_of(*tokens, end_tokens); end != tokens->end()) {
      return Invalid("line ", entries.size() + 1, ": token ", *end, " is the blank");
    }
    entries.push_back(*std::move(tokens));
  }
  return std::make_shared<const search::TokenTrie>(std::move(entries), end_tokens);
}

}  // namespace beamwright::engine
