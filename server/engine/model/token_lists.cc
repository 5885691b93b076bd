#include "server/engine/model/token_lists.h"

#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "server/status/fault.h"

namespace beamwright::engine {

absl::StatusOr<std::shared_ptr<const search::TokenTrie>> ReadTokenList(
    const std::string& content, const model::TextCodec& target) {
  std::vector<search::TokenSequence> entries;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(content, "\n"), '\n')) {
    absl::StatusOr<std::vector<int32_t>> tokens = target.EncodePart(line);
    if (!tokens.ok()) {
      return status::AtField(tokens.status(), absl::StrCat("line ", entries.size() + 1));
    }
    entries.push_back(*std::move(tokens));
  }
  return std::make_shared<const search::TokenTrie>(std::move(entries), target.end_ids());
}

}  // namespace beamwright::engine
