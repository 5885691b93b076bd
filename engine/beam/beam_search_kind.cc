// Makes the requests of the search over tokens, from what a call asks to what the driver steps:
//
// 1. PrepareSource reads the source, OptionsForSource fixes the options that depend on its length.
// 2. SetPrice computes the rows and bytes that the request may take at most (beam_search_kind.h). A
// request
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

#include "absl/algorithm/container.h"
#include "engine/beam/beam_driver.h"
#include "engine/beam/beam_request.h"
#include "engine/fusion/row_scorers.h"
#include "engine/options/decode_options.h"
#include "ops/base/status.h"

namespace beamwright::engine {

// The memory that a request of the search over tokens may take at most, which admission reserves
// before it runs (PriceBytes). It is the sum of: the states of each decoder, twice (old and new),
// and values that its steps share (DecoderBytes); caches at their longest; scorers and their rows
// of scores (ScorerBytes); lists of tokens that options name (ListBytes); the history of
// hypotheses, per slot and step; trace, coverage and attention.
//
// The price is an upper bound for the request's whole life, so that a request that runs is never
// refused memory later.

namespace {

// Bytes that a request holds of one decoder: twice the states (old and new), and what its steps
// share. A state that grows, such as a cache of keys, counts with its longest extent, and once more
// for what a step makes of it.
int64_t DecoderBytes(const DecoderPart& decoder, int beam_size, int source_length, int64_t steps) {
  int64_t row_bytes = 0;
  int64_t shared_bytes = 0;
  const auto bytes = [&](const ops::ValueInfo& info) {
    int64_t count = ops::SizeOf(info.dtype);
    for (int axis = 1; axis < info.shape.rank(); ++axis) {
      const int64_t dim = info.shape.dim(axis);
      count *= dim == ops::PartialShape::kDynamic ? source_length : dim;
    }
    return count;
  };
  const ops::Graph& body = decoder.body->loop().body;
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    for (const ops::ValueInfo& output : body.nodes[i].outputs) {
      if (decoder.body->scopes()[i] == ops::Scope::kRequest) {
        shared_bytes += bytes(output);
      }
    }
  }
  for (size_t i = 0; i < decoder.body->carried().size(); ++i) {
    const auto rule = static_cast<size_t>(decoder.body->carried()[i]);
    const ops::LoopInput& input = decoder.body->loop().inputs[rule];
    ops::ValueInfo info =
        body.node(body.parameters[static_cast<size_t>(input.body_parameter)]).outputs[0];
    if (const int axis = decoder.body->growing_axis(i); axis >= 0) {
      const bool starts_empty = absl::c_any_of(decoder.inputs, [&](const DecoderInput& from) {
        return from.has_constant && decoder.state_values[i] == ops::ValueId{from.node, 0};
      });
      ops::Shape longest = info.shape.dims();
      longest[static_cast<size_t>(axis)] = steps + (starts_empty ? 0 : source_length);
      info.shape = ops::PartialShape(std::move(longest));
      row_bytes += bytes(info);
    }
    row_bytes += 2 * bytes(info);
  }
  return row_bytes * beam_size + shared_bytes;
}

// Bytes of the scorers of a request, and of the rows of scores that they are joined in.
int64_t ScorerBytes(const DecodeModel::Parts& parts, const search::SearchOptions& options,
                    int source_length, int64_t steps) {
  int64_t bytes = 0;
  for (const search::ScorerWeight& wanted : options.scorers) {
    const ScorerPart& part = *parts.FindScorer(wanted.name);
    bytes += int64_t{4} * parts.vocabulary_size() * options.beam_size;
    if (part.decoder >= 0) {
      bytes += DecoderBytes(parts.decoder(part.decoder), options.beam_size, source_length, steps);
    } else if (part.ctc.has_value()) {
      // An encoder gives a frame for a source position at most, or nearly so.
      bytes += fusion::CtcPrefixScorer::NumBytes(source_length, parts.vocabulary_size() + 1,
                                                 options.beam_size);
    }
  }
  return bytes +
         (options.scorers.empty() ? 0 : int64_t{8} * parts.vocabulary_size() * options.beam_size);
}

// Bytes of the lists of tokens that processors hold for options.
int64_t ListBytes(const search::SearchOptions& options) {
  constexpr int64_t kTokenBytes = sizeof(int32_t);
  // A node, its edge, and the phrase by which others find the automaton. Shared, but the last
  // request that reads it may be any.
  constexpr int64_t kAutomatonBytes = 64;
  const auto count = [](const auto& lists) {
    int64_t tokens = 0;
    for (const auto& list : lists) {
      tokens += static_cast<int64_t>(list.size());
    }
    return tokens;
  };
  const search::ProcessorOptions& processors = options.processors;
  const search::ConstraintOptions& constraints = options.constraints;
  int64_t hotwords = 0;
  for (const search::Hotword& hotword : constraints.hotwords) {
    hotwords += static_cast<int64_t>(hotword.tokens.size());
  }
  const auto single =
      static_cast<int64_t>(processors.suppressed.size() + 2 * processors.logit_bias.size() +
                           processors.suppressed_at_begin.size() + constraints.shortlist.size() +
                           constraints.soft_prefix.size());
  return 2 * kTokenBytes *
             (single + count(processors.suppressed_sequences) + count(constraints.required)) +
         kAutomatonBytes * hotwords +
         (options.stop_strings != nullptr ? options.stop_strings->num_bytes() : 0) +
         (constraints.allowed != nullptr ? constraints.allowed->num_bytes() : 0) +
         (constraints.text != nullptr ? grammar::Constraint::kMostBytes : 0);
}

}  // namespace

int64_t PriceBytes(const DecodeModel& model, const search::SearchOptions& options,
                   int source_length, bool keeps_attention) {
  // 20 bytes per slot and step of history and 4 for each scorer and each decoder of an ensemble,
  // what processors remember of rows, recorded alternatives.
  const DecodeModel::Parts& parts = model.parts();
  const int64_t slots = options.beam_size + options.n_best;
  const int64_t steps =
      options.max_length + static_cast<int64_t>(options.constraints.prefix.size());
  const int64_t slot_bytes =
      20 + 4 * (static_cast<int64_t>(options.scorers.size()) + options.num_members);
  constexpr int64_t kRowHistoryBytes = 2 * sizeof(int32_t);
  const int64_t step_bytes =
      slot_bytes * slots + kRowHistoryBytes * options.beam_size +
      int64_t{sizeof(search::TopToken)} * options.num_top_tokens * options.beam_size;
  int64_t bytes = step_bytes * steps + ScorerBytes(parts, options, source_length, steps);
  for (int member = 0; member < parts.num_members(); ++member) {
    bytes += DecoderBytes(parts.decoder(member), options.beam_size, source_length, steps);
  }
  if (options.trace > 0) {
    bytes += search::SearchTrace::MaxBytes(options);
  }
  if (options.coverage_penalty > 0) {
    bytes += 2 * int64_t{sizeof(double)} * options.beam_size * source_length;
  }
  if (keeps_attention) {
    bytes += int64_t{sizeof(float)} * options.beam_size * source_length * steps;
  }
  return bytes + ListBytes(options);
}

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
