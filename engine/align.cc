// Align, as a call of Score: ToScoreRequest makes a pair of texts a source with one target, scored
// without end token; ToAlignResponse takes the tokens and their attention out of the answer. Errors
// of the scoring name fields of its request, which InAlignTerms renames to those of the caller's.
#include "engine/align.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/status/fault.h"

namespace beamwright::engine {
namespace {

// The field of the AlignRequest that "targets[0].text" and its like, of the request to score that
// was made of it, stand for.
std::string AlignedField(absl::string_view field) {
  constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"targets[0]", "target"},
      {"targets", "target"},
      {"sources", "pairs"},
      {"options.attention", "model"}};
  for (const auto& [scored, aligned] : kNames) {
    if (absl::ConsumePrefix(&field, scored)) {
      return absl::StrCat(aligned, field);
    }
  }
  return std::string(field);
}

}  // namespace

absl::StatusOr<v1::ScoreRequest> ToScoreRequest(v1::AlignRequest request) {
  if (request.pairs().empty()) {
    return status::InvalidField("pairs", "is empty; there is nothing to align");
  }
  v1::ScoreRequest score;
  score.set_model(request.model());
  score.set_version(request.version());
  for (v1::AlignPair& pair : *request.mutable_pairs()) {
    v1::ScoreSource& source = *score.add_sources();
    *source.mutable_source() = std::move(*pair.mutable_source());
    *source.add_targets() = std::move(*pair.mutable_target());
  }
  score.mutable_options()->set_end_token(false);
  score.mutable_options()->set_attention(request.soft() ? v1::ATTENTION_SOFT : v1::ATTENTION_HARD);
  return score;
}

v1::AlignResponse ToAlignResponse(v1::ScoreResponse response) {
  v1::AlignResponse answer;
  answer.set_model(response.model());
  answer.set_version(response.version());
  answer.set_numerics(response.numerics());
  for (v1::ScoreResult& result : *response.mutable_results()) {
    v1::AlignResult& out = *answer.add_results();
    if (result.has_error()) {
      *out.mutable_error() = std::move(*result.mutable_error());
      continue;
    }
    v1::Hypothesis& hypothesis = *result.mutable_scored()->mutable_targets(0)->mutable_hypothesis();
    v1::Alignment& alignment = *out.mutable_alignment();
    alignment.mutable_tokens()->Swap(hypothesis.mutable_tokens());
    alignment.mutable_positions()->Swap(hypothesis.mutable_alignment());
    if (hypothesis.has_attention()) {
      *alignment.mutable_attention() = std::move(*hypothesis.mutable_attention());
    }
    alignment.set_source_length(result.scored().source_length());
  }
  return answer;
}

absl::Status InAlignTerms(const absl::Status& status) {
  return status::WithFields(status, AlignedField);
}

}  // namespace beamwright::engine
