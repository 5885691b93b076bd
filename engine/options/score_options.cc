#include "engine/options/score_options.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/bundle/rules.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "engine/options/frame_scoring.h"
#include "engine/options/fusion_options.h"
#include "engine/options/resolve.h"
#include "engine/options/target_tokens.h"
#include "engine/status/error_details.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

// What the model's defaults say of the fields that scoring shares with decoding.
v1::ScoreOptions Defaults(const v1::DecodeOptions& options) {
  v1::ScoreOptions defaults;
  if (options.has_length_penalty()) {
    defaults.set_length_penalty(options.length_penalty());
  }
  if (options.has_length_penalty_alpha()) {
    defaults.set_length_penalty_alpha(options.length_penalty_alpha());
  }
  if (options.has_word_reward()) {
    defaults.set_word_reward(options.word_reward());
  }
  if (options.has_coverage_penalty()) {
    defaults.set_coverage_penalty(options.coverage_penalty());
  }
  *defaults.mutable_fusion() = options.fusion();
  return defaults;
}

}  // namespace

absl::StatusOr<ResolvedScoring> ResolveScoring(const DecodeModel& model,
                                               const v1::ScoreOptions& options) {
  status::Faults faults;
  bundle::CheckRules(options, "options", faults);
  bundle::CheckSearches(options, v1::SEARCH_TOKENS, "options", faults);
  ResolvedScoring resolved;
  resolved.merged = options;
  bundle::ApplyDefaults(Defaults(model.config().default_options()), resolved.merged);
  search::SearchOptions& search = resolved.search;
  if (faults.empty()) {
    CheckAttention(model, resolved.merged.coverage_penalty(), resolved.merged.attention(), faults);
    search.scorers = ReadFusion(model, resolved.merged.fusion(), faults);
  }
  if (!faults.empty()) {
    return status::InvalidFields(faults);
  }
  SetModelTokens(model, search);
  search.length_penalty = PenaltyOf(resolved.merged.length_penalty());
  search.alpha = resolved.merged.length_penalty_alpha();
  search.word_reward = resolved.merged.word_reward();
  search.coverage_penalty = resolved.merged.coverage_penalty();
  search.num_top_tokens = resolved.merged.top_tokens();
  return resolved;
}

absl::StatusOr<std::vector<search::TokenSequence>> ReadTargets(
    const DecodeModel& model, const v1::ScoreOptions& options,
    const google::protobuf::RepeatedPtrField<v1::TargetTokens>& targets) {
  const std::vector<int32_t>& ends = model.target().end_ids();
  const bool adds_end = options.end_token();
  return ReadTargetList(model, targets, adds_end, [&](search::TokenSequence& tokens) {
    if (adds_end &&
        (tokens.empty() || std::find(ends.begin(), ends.end(), tokens.back()) == ends.end())) {
      tokens.push_back(ends[0]);
    }
  });
}

absl::Status CheckScoreOptions(const DecodeModel& model, const v1::ScoreOptions& options) {
  if (model.parts().frames != nullptr) {
    return ResolveFrameScoring(model, options).status();
  }
  return ResolveScoring(model, options).status();
}

}  // namespace beamwright::engine
