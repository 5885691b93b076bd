#include "engine/options/frame_scoring.h"

#include "engine/bundle/rules.h"
#include "engine/options/read_frame_options.h"
#include "engine/options/target_tokens.h"
#include "engine/status/fault.h"

namespace beamwright::engine {

absl::StatusOr<search::FrameOptions> ResolveFrameScoring(const DecodeModel& model,
                                                         const v1::ScoreOptions& options) {
  status::Faults faults;
  bundle::CheckRules(options, "options", faults);
  bundle::CheckSearches(options, bundle::SearchOf(model.config()), "options", faults);
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
  return ReadTargetList(model, targets, /*may_be_empty=*/true, [](search::TokenSequence&) {});
}

}  // namespace beamwright::engine
