// The options of a request resolved: ResolveOptions, once for each set of options (OptionsCache
// keeps the results), and OptionsForSource, for each source.
//
// 1. CheckEach: each field by its rule (rule.proto). A wrong field is reported and left out, so
//    that no fault is reported which only follows from it.
// 2. Merge: the request over the bundle's defaults over the fields' own. Sizes that only the
//    defaults set follow the sizes that the request sets: with a beam_size of 2 in the request, a
//    default n_best of 5 becomes 2.
// 3. CheckSearches: options that the model's kind of search does not have.
// 4. ReadOptions or ReadFrameOptions: the search's options, and faults that depend on the model.
// 5. OptionsForSource: lengths that follow from the source's (SetLengths), the lexical shortlist of
//    its tokens (SetShortlist), and the last check.
//
// Scoring has its own options, which share defaults with decoding (ResolveScoring).
// CheckDefaultOptions tries the bundle's defaults at load, since a request without options must be
// decodable.
#include "engine/options/decode_options.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/bundle/rules.h"
#include "engine/model/parts.h"
#include "engine/options/option_tokens.h"
#include "engine/options/resolve.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

// The model's defaults for the fields that scoring shares with decoding.
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

// Keeps a reply with a lattice below gRPC's usual limit of 4 MiB.
constexpr int64_t kMaxLatticeNodes = 1 << 17;
// The same for attention weights.
constexpr int64_t kMaxWeights = 1 << 19;

constexpr int kFewestRowsWithHotwords = 4;

// The request's options over the defaults. Sizes that only the defaults ask for follow those that
// the request asks for: the n-best size a smaller beam or the number of alternatives, the beam size
// the number of random samples.
v1::DecodeOptions Merge(const DecodeModel& model, const v1::DecodeOptions& defaults,
                        const v1::DecodeOptions& options) {
  v1::DecodeOptions merged = options;
  bundle::ApplyDefaults(defaults, merged);
  if (merged.sampling() == v1::SAMPLING_RANDOM && !options.has_beam_size()) {
    merged.set_beam_size(merged.n_best());
  }
  if (merged.num_alternatives() > 0 && !options.has_n_best()) {
    merged.set_n_best(merged.num_alternatives());
    if (!options.has_beam_size()) {
      // The next multiple: each alternative has an equal share.
      const int share = std::max(1, (merged.beam_size() + merged.n_best() - 1) / merged.n_best());
      merged.set_beam_size(std::min(share * merged.n_best(), search::kMaxBeamSize));
    }
  }
  // A beam of 1 could not drop a hotword phrase that was begun and does not go on.
  if (merged.beam_size() == 1 && merged.hotwords_size() > 0) {
    merged.set_beam_size(std::min(kFewestRowsWithHotwords, MaxBeamSize(model)));
  }
  // Sizes of the defaults are lowered to the limits; sizes of the request are refused above them.
  if (!options.has_beam_size()) {
    merged.set_beam_size(std::min(merged.beam_size(), MaxBeamSize(model)));
  }
  if (!options.has_max_length() && merged.has_max_length()) {
    merged.set_max_length(std::min(merged.max_length(), MaxTargetLength(model)));
  }
  if (!options.has_n_best() && merged.num_alternatives() == 0) {
    merged.set_n_best(std::min(merged.n_best(), merged.beam_size()));
  }
  return merged;
}

// Adds the faults of each option by itself, and returns the other options: further faults are then
// found in these alone, and none that only follows from a wrong option.
v1::DecodeOptions CheckEach(const v1::DecodeOptions& options, status::Faults& faults) {
  v1::DecodeOptions sound = options;
  const google::protobuf::Reflection& reflection = *options.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(options, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    const size_t before = faults.size();
    bundle::CheckRule(options, *field, "options", faults);
    if (faults.size() > before) {
      reflection.ClearField(&sound, field);
    }
  }
  return sound;
}

absl::StatusOr<std::shared_ptr<const ResolvedOptions>> Resolve(const DecodeModel& model,
                                                               const v1::DecodeOptions& defaults,
                                                               const v1::DecodeOptions& options) {
  status::Faults faults;
  const v1::DecodeOptions sound = CheckEach(options, faults);
  auto resolved = std::make_shared<ResolvedOptions>();
  resolved->merged = Merge(model, defaults, sound);
  bundle::CheckSearches(options, bundle::SearchOf(model.config()), "options", faults);
  if (model.parts().frames != nullptr) {
    resolved->frames = ReadFrameOptions(model, resolved->merged, faults);
  } else {
    ReadOptions(model, resolved->merged, resolved->search, faults);
  }
  if (!faults.empty()) {
    return status::InvalidFields(faults);
  }
  return std::shared_ptr<const ResolvedOptions>(std::move(resolved));
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

absl::StatusOr<std::shared_ptr<const ResolvedOptions>> ResolveOptions(
    const DecodeModel& model, const v1::DecodeOptions& options) {
  OptionsCache& cache = model.parts().resolved_options;
  std::string key = options.SerializeAsString();
  if (std::shared_ptr<const ResolvedOptions> known = cache.Find(key); known != nullptr) {
    return known;
  }
  BW_ASSIGN_OR_RETURN(std::shared_ptr<const ResolvedOptions> resolved,
                      Resolve(model, model.config().default_options(), options));
  cache.Add(std::move(key), resolved);
  return resolved;
}

absl::StatusOr<std::shared_ptr<const ResolvedOptions>> ResolveWithoutDefaults(
    const DecodeModel& model, const v1::DecodeOptions& options) {
  return Resolve(model, {}, options);
}

namespace {

// The lengths for a source of `source_length` tokens.
absl::Status SetLengths(const DecodeModel& model, int source_length,
                        const v1::DecodeOptions& merged, search::SearchOptions& search) {
  const double most = merged.has_max_length()
                          ? merged.max_length()
                          : std::ceil(double{merged.max_length_factor()} * source_length) +
                                merged.max_length_offset();
  search.max_length = static_cast<int>(std::clamp<double>(most, 1, MaxTargetLength(model)));
  for (const auto& decoder : model.parts().decoders) {
    const int left = decoder->most_steps - static_cast<int>(search.constraints.prefix.size());
    if (decoder->most_steps > 0 && left <= 0) {
      return status::InvalidField("options.target_prefix", "has ", search.constraints.prefix.size(),
                                  " tokens; the decoder takes at most ", decoder->most_steps,
                                  " steps, of which the answer needs one");
    }
    search.max_length =
        decoder->most_steps > 0 ? std::min(search.max_length, left) : search.max_length;
  }
  const double fewest = std::max<double>(
      merged.min_length(), std::floor(double{merged.min_length_factor()} * source_length));
  if (fewest > search.max_length) {
    return status::InvalidField("options.min_length", "at least ", fewest, " tokens (min_length ",
                                merged.min_length(), ", min_length_factor ",
                                merged.min_length_factor(), ") for a source of ", source_length,
                                " are more than the maximum length of ", search.max_length);
  }
  search.processors.min_length = static_cast<int>(fewest);
  const int64_t nodes = int64_t{search.beam_size + search.n_best} * search.max_length;
  if (merged.lattice() && nodes > kMaxLatticeNodes) {
    return status::InvalidField("options.lattice", "beam_size + n_best (",
                                search.beam_size + search.n_best, ") times the maximum length (",
                                search.max_length, ") is more than ", kMaxLatticeNodes,
                                " hypotheses");
  }
  const int64_t weights =
      int64_t{search.n_best} *
      (search.max_length + static_cast<int64_t>(search.constraints.prefix.size())) * source_length;
  if (merged.attention() == v1::ATTENTION_SOFT && weights > kMaxWeights) {
    return status::InvalidField("options.attention", "soft: n_best (", search.n_best,
                                ") times the maximum length (", search.max_length,
                                ") times the source's (", source_length, ") is more than ",
                                kMaxWeights, " weights");
  }
  return absl::OkStatus();
}

// The shortlist by the model's lexical table.
absl::Status SetShortlist(const DecodeModel& model, absl::Span<const int32_t> source_ids,
                          search::SearchOptions& search) {
  if (source_ids.empty()) {
    return status::InvalidField("options.lexical_shortlist", "needs a source of text or ids");
  }
  std::vector<int32_t>& shortlist = search.constraints.shortlist;
  shortlist = model.parts().lexical_table->Shortlist(source_ids);
  if (shortlist.empty()) {
    // An empty list would mean all tokens; end tokens are open with any list.
    shortlist = search.end_tokens;
    std::sort(shortlist.begin(), shortlist.end());
  }
  return absl::OkStatus();
}

}  // namespace

search::LengthPenalty PenaltyOf(v1::LengthPenalty penalty) {
  switch (penalty) {
    case v1::LENGTH_PENALTY_POW:
      return search::LengthPenalty::kPow;
    case v1::LENGTH_PENALTY_GNMT:
      return search::LengthPenalty::kGnmt;
    default:
      return search::LengthPenalty::kNone;
  }
}

void CheckAttention(const DecodeModel& model, double coverage_penalty, v1::Attention attention,
                    status::Faults& faults) {
  if (model.parts().decoder().attention_result >= 0) {
    return;
  }
  const auto fault = [&](const char* field) {
    faults.Add(absl::StrCat("options.", field),
               "the model gives no attention: ", model.parts().decoder().no_attention);
  };
  if (coverage_penalty > 0) {
    fault("coverage_penalty");
  }
  if (attention == v1::ATTENTION_HARD || attention == v1::ATTENTION_SOFT) {
    fault("attention");
  }
}

absl::StatusOr<search::SearchOptions> OptionsForSource(const DecodeModel& model,
                                                       const ResolvedOptions& options,
                                                       const PreparedSource& source) {
  search::SearchOptions search = options.search;
  if (options.merged.lexical_shortlist()) {
    BW_RETURN_IF_ERROR(SetShortlist(model, source.ids, search));
  }
  BW_RETURN_IF_ERROR(SetLengths(model, source.source_length, options.merged, search));
  BW_RETURN_IF_ERROR(search::Validate(search));
  return search;
}

absl::Status CheckDefaultOptions(const DecodeModel& model) {
  const auto as_defaults = [](const absl::Status& status) {
    return status::WithFields(
        status, [](absl::string_view field) { return absl::StrCat("default_", field); });
  };
  const auto resolved = ResolveOptions(model, {});
  if (!resolved.ok()) {
    return as_defaults(resolved.status());
  }
  if ((*resolved)->frames != nullptr) {
    return absl::OkStatus();
  }
  // Lengths may follow the source's: it is enough that they fit either short or long ones.
  absl::Status status;
  for (const int length : {1, MaxSourceLength(model)}) {
    PreparedSource source;
    source.source_length = length;
    if (model.has_encoder()) {
      source.ids = {0};
    }
    const auto search = OptionsForSource(model, **resolved, source);
    if (search.ok()) {
      return absl::OkStatus();
    }
    status.Update(search.status());
  }
  return as_defaults(status);
}

absl::Status CheckOptions(const DecodeModel& model, const v1::DecodeOptions& options) {
  return ResolveOptions(model, options).status();
}

absl::Status CheckNumSources(int num_sources, const char* verb) {
  if (num_sources == 0) {
    return status::InvalidField("sources", "is empty; there is nothing to ", verb);
  }
  if (num_sources > kMaxSources) {
    return status::InvalidField("sources", "has ", num_sources, " entries; at most ", kMaxSources,
                                " are allowed in a call");
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
