#include "tests/engine/search/plain_case.h"

#include "absl/strings/str_cat.h"

namespace beamwright::search_testing {

PlainCase MakePlainCase(uint64_t seed) {
  Random random(seed);
  search::SearchOptions options;
  RandomiseSearch(random, options);
  const auto kind = static_cast<TableModel::Kind>(random.In(0, 3));
  return {TableModel(seed, options.vocabulary_size, kind), options,
          absl::StrCat("seed ", seed, ", V ", options.vocabulary_size, ", B ", options.beam_size,
                       ", n ", options.n_best, ", penalty ",
                       static_cast<int>(options.length_penalty), " ", options.alpha, ", stop ",
                       static_cast<int>(options.stop), ", kind ", static_cast<int>(kind))};
}

absl::StatusOr<DrivenResult> DrivePlain(const PlainCase& c, const search::SearchOptions& options,
                                        int extra_candidates) {
  return Drive(
      [&](const auto& prefix, const auto& banned) { return c.model.LogProbs(prefix, banned); },
      options, extra_candidates);
}

}  // namespace beamwright::search_testing
