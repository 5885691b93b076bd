#include "engine/search/row_search.h"

#include "ops/base/status.h"

namespace beamwright::search {

absl::Status CheckParts(const RowCandidates& row, const SearchOptions& options) {
  const auto vocabulary = static_cast<size_t>(options.vocabulary_size);
  const size_t scored = row.fused == nullptr ? 0 : row.fused->added().size();
  if (!options.scorers.empty() && scored != vocabulary) {
    return Invalid("scorers' scores of ", scored, " tokens, must be of ", vocabulary);
  }
  if (row.members.size() != static_cast<size_t>(options.num_members)) {
    return Invalid("scores of ", row.members.size(), " decoders, must be of ", options.num_members);
  }
  for (const MemberScores& member : row.members) {
    if (member.scores.size() != vocabulary) {
      return Invalid("a decoder's scores of ", member.scores.size(), " tokens, must be of ",
                     vocabulary);
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::search
