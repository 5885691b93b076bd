// Makes the requests of the search over tokens, from what a call asks to what the driver steps:
//
// 1. PrepareSource reads the source, OptionsForSource fixes the options that depend on its length.
// 2. SetPrice computes the rows and bytes that the request may take at most (price.h). A request
//    that could never run is refused here, with the option whose reduction would help most
//    (WhatToLower).
// 3. The search is created, SetStates says whether states are returned or cached, SetUpDecoders
//    makes the scorers.
//
// MakeScoreRequest does the same for known targets, with a TargetScorer in the place of a search.
#include "engine/beam/beam_search_kind.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/beam/beam_driver.h"
#include "engine/beam/beam_request.h"
#include "engine/beam/price.h"
#include "engine/options/decode_options.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

std::unique_ptr<BeamRequest> NewRequest(const CallOptions& call) {
  auto request = std::make_unique<BeamRequest>();
  request->Accept(call);
  return request;
}

// The field of the price that makes the request cheapest if it is halved.
std::string WhatToLower(const DecodeModel& model, const search::SearchOptions& search,
                        int source_length, bool keeps_attention) {
  search::SearchOptions narrow = search;
  narrow.beam_size = (search.beam_size + 1) / 2;
  search::SearchOptions brief = search;
  brief.max_length = (search.max_length + 1) / 2;
  const std::pair<int64_t, std::string> choices[] = {
      {PriceBytes(model, brief, source_length, keeps_attention),
       absl::StrCat("the maximum length (", search.max_length, ")")},
      {PriceBytes(model, narrow, source_length, keeps_attention),
       absl::StrCat("the number of hypotheses (", search.beam_size, ")")},
      {PriceBytes(model, search, (source_length + 1) / 2, keeps_attention),
       absl::StrCat("the source's length (", source_length, ")")},
  };
  return std::min_element(std::begin(choices), std::end(choices))->second;
}

int64_t StateBytes(const DecodeModel& model) {
  int64_t bytes = 0;
  for (const DecoderInput& input : model.parts().decoder().inputs) {
    bytes += input.constant_tensor.num_bytes();
  }
  return bytes;
}

// Sets whether the request returns its state and uses the prefix cache. After SetPrice and with a
// search.
absl::Status SetStates(const EngineOptions& limits, const DecodeModel& model, bool returns_state,
                       BeamRequest& request) {
  if (returns_state) {
    BW_RETURN_IF_ERROR(CheckPortable(model, "options.return_state"));
    request.returns_state = true;
    request.state_key = limits.state_key;
  }
  const search::SearchOptions& search = request.search->options();
  if (model.parts().has_portable_states &&
      search.constraints.prefix.size() >= PrefixCache::kLeastTokens && search.scorers.empty() &&
      search.num_top_tokens == 0 && search.trace == 0) {
    request.prefix_cache = limits.prefix_cache;
    const std::optional<SavedState>& state = request.source.state;
    request.set_origin(absl::StrCat(model.parts().fingerprint, model.numerics(),
                                    state.has_value() ? state->signature : ""));
  }
  return absl::OkStatus();
}

// Sets how many rows and bytes the request takes; ResourceExhausted if that is more than the engine
// has.
absl::Status SetPrice(const EngineOptions& limits, const DecodeModel& model,
                      const search::SearchOptions& search, v1::Attention attention,
                      bool returns_state, BeamRequest& request) {
  const bool keeps = attention == v1::ATTENTION_HARD || attention == v1::ATTENTION_SOFT;
  request.wants_attention = attention;
  request.reads_attention = keeps || search.coverage_penalty > 0;
  request.attention = AttentionHistory(keeps);
  request.beam_size = search.beam_size;
  request.max_steps = search.max_length;
  request.has_long_steps = search.constraints.text != nullptr;
  request.max_known_rows = limits.max_known_rows;
  request.price_bytes = PriceBytes(model, search, request.source.source_length, keeps);
  if (model.parts().has_portable_states) {
    // The one that it brought; what it returns, and that as bytes.
    request.price_bytes +=
        StateBytes(model) * ((request.source.state.has_value() ? 1 : 0) + (returns_state ? 2 : 0));
  }
  if (search.beam_size > limits.max_rows) {
    return TooLarge("rows", search.beam_size, limits.max_rows,
                    "the number of hypotheses or targets");
  }
  if (request.price_bytes > limits.max_bytes) {
    return TooLarge("bytes", request.price_bytes, limits.max_bytes,
                    WhatToLower(model, search, request.source.source_length, keeps));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Request>> BeamSearchKind::MakeRequest(
    const EngineOptions& limits, std::shared_ptr<const DecodeModel> model, PreparedSource source,
    const ResolvedOptions& options, const CallOptions& call) const {
  std::unique_ptr<BeamRequest> request = NewRequest(call);
  request->source = std::move(source);
  BW_ASSIGN_OR_RETURN(search::SearchOptions search,
                      OptionsForSource(*model, options, request->source));
  if (request->source.state.has_value()) {
    search.begin_token = request->source.state->next_token;
  }
  request->wants_lattice = options.merged.lattice();
  request->most_texts =
      options.merged.distinct() == v1::DISTINCT_TEXT ? options.merged.n_best() : 0;
  const bool returns_state = options.merged.return_state();
  BW_RETURN_IF_ERROR(
      SetPrice(limits, *model, search, options.merged.attention(), returns_state, *request));
  request->wants_words = options.merged.words();
  if (search.may_be_cut) {
    request->MayBeCut();
  }
  BW_ASSIGN_OR_RETURN(search::BeamSearch beam_search, search::BeamSearch::Create(search));
  request->search = std::move(beam_search);
  BW_RETURN_IF_ERROR(SetStates(limits, *model, returns_state, *request));
  if (call.timeline != nullptr) {
    call.timeline->beam_size = search.beam_size;
  }
  request->model = std::move(model);
  request->SetUpDecoders();
  return request;
}

absl::StatusOr<std::unique_ptr<Request>> BeamSearchKind::MakeScoreRequest(
    const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
    const v1::ScoreSource& source, const v1::ScoreOptions& options, const CallOptions& call) const {
  std::unique_ptr<BeamRequest> request = NewRequest(call);
  BW_ASSIGN_OR_RETURN(ResolvedScoring resolved, ResolveScoring(*model, options));
  BW_ASSIGN_OR_RETURN(std::vector<search::TokenSequence> targets,
                      ReadTargets(*model, resolved.merged, source.targets()));
  BW_ASSIGN_OR_RETURN(request->source, PrepareSource(*model, source.source(), limits.state_key));
  search::SearchOptions& search = resolved.search;
  if (request->source.state.has_value()) {
    search.begin_token = request->source.state->next_token;
  }
  search.beam_size = static_cast<int>(targets.size());
  for (const search::TokenSequence& target : targets) {
    search.max_length = std::max(search.max_length, static_cast<int>(target.size()));
  }
  BW_RETURN_IF_ERROR(SetPrice(limits, *model, search, resolved.merged.attention(),
                              /*returns_state=*/false, *request));
  BW_ASSIGN_OR_RETURN(search::TargetScorer scorer,
                      search::TargetScorer::Create(search, std::move(targets)));
  request->scorer = std::move(scorer);
  request->knows_steps = true;
  if (call.timeline != nullptr) {
    call.timeline->beam_size = search.beam_size;
  }
  request->model = std::move(model);
  request->SetUpDecoders();
  return request;
}

std::unique_ptr<Driver> BeamSearchKind::MakeDriver(std::shared_ptr<const DecodeModel> model) const {
  return std::make_unique<BeamDriver>(std::move(model));
}

}  // namespace beamwright::engine
