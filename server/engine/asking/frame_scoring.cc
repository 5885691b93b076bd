#include "server/engine/asking/frame_scoring.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "server/engine/asking/read_frame_options.h"
#include "server/engine/asking/score_options.h"
#include "server/engine/asking/target_tokens.h"
#include "server/model/rules.h"
#include "server/status/fault.h"

namespace beamwright::engine {

absl::StatusOr<search::FrameOptions> ResolveFrameScoring(const DecodeModel& model,
                                                         const v1::ScoreOptions& options) {
  status::Faults faults;
  model::CheckRules(options, "options", faults);
  model::CheckSearches(options, model::SearchOf(model.config()), "options", faults);
  if (!faults.empty()) {
    return status::InvalidFields(faults);
  }
  search::FrameOptions scoring = ModelFrameOptions(model);
  if (options.has_max_symbols_per_frame()) {
    scoring.max_symbols_per_frame = options.max_symbols_per_frame();
  } else if (scoring.kind == search::FrameKind::kTransducer) {
    // Any number: the lattice of Graves 2012.
    scoring.alignment_length_synchronous = true;
    scoring.max_symbols_per_frame = 1;
  } else if (scoring.kind == search::FrameKind::kTokenAndDuration) {
    scoring.max_symbols_per_frame = search::kMaxSymbolsPerFrame;
  }
  return scoring;
}

absl::StatusOr<std::vector<search::TokenSequence>> ReadFrameTargets(
    const DecodeModel& model, const google::protobuf::RepeatedPtrField<v1::TargetTokens>& targets) {
  if (targets.empty() || targets.size() > search::kMaxBeamSize) {
    return status::InvalidField("targets", "has ", targets.size(), " entries, must have 1 to ",
                                search::kMaxBeamSize);
  }
  std::vector<search::TokenSequence> sequences;
  status::Faults faults;
  size_t count = 0;
  for (int i = 0; i < targets.size(); ++i) {
    const std::string field = absl::StrCat("targets[", i, "]");
    const bool is_empty =
        targets[i].has_text() ? targets[i].text().empty() : targets[i].ids().ids().empty();
    absl::StatusOr<std::vector<int32_t>> tokens = std::vector<int32_t>();
    if (!is_empty) {
      tokens = ReadTokens(model, field, targets[i]);
    }
    if (!tokens.ok()) {
      const status::Faults found = status::FaultsOf(tokens.status());
      faults.insert(faults.end(), found.begin(), found.end());
      continue;
    }
    const auto most = static_cast<size_t>(MaxTargetLength(model));
    if (tokens->size() > most) {
      faults.Add(field, "has ", tokens->size(), " tokens; at most ", most, " are allowed");
    }
    count += tokens->size();
    sequences.push_back(*std::move(tokens));
  }
  if (count > kMaxTargetTokens) {
    faults.Add("targets", "have ", count, " tokens together; at most ", kMaxTargetTokens,
               " are allowed for a source");
  }
  if (!faults.empty()) {
    return status::InvalidFields(faults);
  }
  return sequences;
}

}  // namespace beamwright::engine
