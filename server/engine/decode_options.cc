#include "server/engine/decode_options.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "server/engine/engine.h"
#include "server/engine/fusion_options.h"
#include "server/engine/parts.h"
#include "server/engine/target_tokens.h"
#include "server/model/error_details.h"
#include "server/model/rules.h"

namespace beamwright::engine {
namespace {

// Most tokens that one field may name, all its sequences together: every waiting source of a call
// holds what was made of them. Larger lists belong into the bundle.
constexpr size_t kMaxTokens = 1 << 16;
// Keeps a reply with a lattice below gRPC's usual limit of 4 MiB.
constexpr int64_t kMaxLatticeNodes = 1 << 17;
// The same for attention weights.
constexpr int64_t kMaxWeights = 1 << 19;

search::StopMode StopOf(v1::StopMode stop) {
  switch (stop) {
    case v1::STOP_MODE_FIRST:
      return search::StopMode::kFirst;
    case v1::STOP_MODE_COUNT:
      return search::StopMode::kCount;
    case v1::STOP_MODE_NEVER:
      return search::StopMode::kNever;
    default:
      return search::StopMode::kSafe;
  }
}

search::Sampling SamplingOf(v1::Sampling sampling) {
  switch (sampling) {
    case v1::SAMPLING_RANDOM:
      return search::Sampling::kRandom;
    case v1::SAMPLING_WITHOUT_REPLACEMENT:
      return search::Sampling::kWithoutReplacement;
    default:
      return search::Sampling::kNone;
  }
}

int MaxBeamSize(const DecodeModel& model) {
  const int limit = model.config().limits().max_beam_size();
  return limit > 0 ? limit : search::kMaxBeamSize;
}

// The request's options over the defaults. Sizes that only the defaults ask for follow those that
// the request asks for: the n-best size a smaller beam or the number of alternatives, the beam size
// the number of random samples.
v1::DecodeOptions Merge(const DecodeModel& model, const v1::DecodeOptions& options) {
  v1::DecodeOptions merged = options;
  model::ApplyDefaults(model.config().default_options(), merged);
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
  // What only the defaults ask for never breaks a limit.
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

// The fields that `faults` ("options.<field>...") do not name: what is wrong about them is told as
// well, and nothing that only follows from the others.
v1::DecodeOptions WithoutFaulty(const v1::DecodeOptions& options,
                                const std::vector<std::string>& faults) {
  v1::DecodeOptions sound = options;
  for (const std::string& fault : faults) {
    const size_t start = sizeof("options.") - 1;
    const std::string name = fault.substr(start, fault.find_first_of(".[: ", start) - start);
    const auto* const field = v1::DecodeOptions::descriptor()->FindFieldByName(name);
    BW_DCHECK(field != nullptr);
    if (field != nullptr) {
      v1::DecodeOptions::GetReflection()->ClearField(&sound, field);
    }
  }
  return sound;
}

// Fills SearchOptions and collects what is wrong on the way.
class Resolver {
 public:
  Resolver(const DecodeModel& model, const v1::DecodeOptions& merged)
      : model_(model), merged_(merged) {}

  void Run(search::SearchOptions& search) {
    SetModelTokens(model_, search);
    SetSearch(search);
    SetProcessors(search.processors);
    SetConstraints(search);
    SetSampling(search);
    SetFusion(search);
    for (const std::string& conflict : Conflicts(search)) {
      Fault(conflict);
    }
  }

  const std::vector<std::string>& faults() const { return faults_; }

 private:
  template <typename... Pieces>
  void Fault(const Pieces&... pieces) {
    faults_.push_back(absl::StrCat("options.", pieces...));
  }

  void SetSearch(search::SearchOptions& search) {
    search.beam_size = merged_.beam_size();
    search.n_best = merged_.n_best();
    search.length_penalty = PenaltyOf(merged_.length_penalty());
    search.alpha = merged_.length_penalty_alpha();
    search.stop = StopOf(merged_.stop());
    search.patience = merged_.patience();
    search.at_limit = merged_.at_limit() == v1::AT_LIMIT_FORCE_END ? search::AtLimit::kForceEnd
                                                                   : search::AtLimit::kCut;
    search.word_reward = merged_.word_reward();
    search.end_threshold = merged_.end_threshold();
    if (merged_.has_score_threshold()) {
      search.score_threshold = merged_.score_threshold();
    }
    if (merged_.has_beam_threshold()) {
      search.beam_threshold = merged_.beam_threshold();
    }
    search.num_groups = merged_.diverse_groups();
    search.diversity_penalty = merged_.diversity_penalty();
    search.num_top_tokens = merged_.top_tokens();
    search.coverage_penalty = merged_.coverage_penalty();
    search.may_be_cut = merged_.deadline_result() == v1::DEADLINE_RESULT_BEST_SO_FAR;
    CheckAttention(model_, merged_.coverage_penalty(), merged_.attention(), faults_);
    if (merged_.diverse_groups() > merged_.beam_size()) {
      Fault("diverse_groups: ", merged_.diverse_groups(), " is more than the beam size of ",
            merged_.beam_size());
    }
    if (merged_.num_alternatives() > merged_.beam_size()) {
      Fault("num_alternatives: ", merged_.num_alternatives(), " is more than the beam size of ",
            merged_.beam_size());
    }
    if (merged_.n_best() > merged_.beam_size()) {
      Fault("n_best: ", merged_.n_best(), " is more than the beam size of ", merged_.beam_size());
    }
    if (merged_.beam_size() > MaxBeamSize(model_)) {
      Fault("beam_size: ", merged_.beam_size(), " is above the model's limit of ",
            MaxBeamSize(model_));
    }
    if (merged_.has_max_length() && merged_.max_length() > MaxTargetLength(model_)) {
      Fault("max_length: ", merged_.max_length(), " is above the model's limit of ",
            MaxTargetLength(model_));
    }
    if (merged_.has_max_length() && merged_.min_length() > merged_.max_length()) {
      Fault("min_length: ", merged_.min_length(), " is more than the max_length of ",
            merged_.max_length());
    }
  }

  void SetConstraints(search::SearchOptions& search) {
    search::ConstraintOptions& constraints = search.constraints;
    if (merged_.has_target_prefix()) {
      constraints.prefix = Tokens("target_prefix", merged_.target_prefix());
      CheckNoEnd("target_prefix", constraints.prefix, search);
    }
    constraints.score_prefix = merged_.score_prefix();
    if (merged_.has_soft_prefix()) {
      constraints.soft_prefix = Tokens("soft_prefix", merged_.soft_prefix());
      CheckNoEnd("soft_prefix", constraints.soft_prefix, search);
    }
    constraints.soft_prefix_weight = merged_.soft_prefix_weight();
    constraints.num_alternatives = merged_.num_alternatives();
    constraints.alternative_min_prob = merged_.alternative_min_prob();
    if (merged_.has_shortlist()) {
      constraints.shortlist = Tokens("shortlist", merged_.shortlist());
      std::sort(constraints.shortlist.begin(), constraints.shortlist.end());
    }
    constraints.required = Sequences("required_sequences", merged_.required_sequences());
    for (const search::TokenSequence& sequence : constraints.required) {
      CheckNoEnd("required_sequences", sequence, search);
      if (sequence.size() > search::kMaxConstraintLength) {
        Fault("required_sequences: one has ", sequence.size(), " tokens; at most ",
              search::kMaxConstraintLength, " are allowed");
      }
    }
    constraints.required_in_order = merged_.required_in_order();
    SetHotwords(search);
    SetAllowed(search);
  }

  void SetHotwords(search::SearchOptions& search) {
    for (int i = 0; i < merged_.hotwords_size(); ++i) {
      const v1::Hotword& hotword = merged_.hotwords(i);
      const std::string field = absl::StrCat("hotwords[", i, "]");
      v1::TargetTokens tokens;
      if (hotword.has_text()) {
        tokens.set_text(hotword.text());
      } else {
        *tokens.mutable_ids() = hotword.ids();
      }
      search.constraints.hotwords.push_back(
          {Tokens(field, tokens), hotword.has_bonus() ? double{hotword.bonus()} : 1.0});
      CheckNoEnd(field, search.constraints.hotwords.back().tokens, search);
    }
  }

  void SetAllowed(search::SearchOptions& search) {
    if (merged_.has_allowed_list()) {
      const auto& lists = model_.parts().token_lists;
      const auto list = lists.find(merged_.allowed_list());
      if (list == lists.end()) {
        Fault("allowed_list: the model has no list '",
              absl::Utf8SafeCEscape(merged_.allowed_list()), "'; it has ", lists.size(),
              lists.empty() ? "" : ": ",
              absl::StrJoin(lists, ", ", [](std::string* out, const auto& entry) {
                absl::StrAppend(out, "'", entry.first, "'");
              }));
        return;
      }
      search.constraints.allowed = list->second;
      if (merged_.allowed_sequences_size() > 0) {
        Fault("allowed_list and allowed_sequences: exclude each other");
      }
      return;
    }
    if (merged_.allowed_sequences_size() > 0) {
      auto entries = Sequences("allowed_sequences", merged_.allowed_sequences());
      for (const search::TokenSequence& entry : entries) {
        CheckNoEnd("allowed_sequences", entry, search);
      }
      if (faults_.empty()) {
        search.constraints.allowed =
            std::make_shared<const search::TokenTrie>(std::move(entries), search.end_tokens);
      }
    }
  }

  void SetSampling(search::SearchOptions& search) {
    search::SamplingOptions& sampling = search.sampling;
    sampling.kind = SamplingOf(merged_.sampling());
    sampling.seed = static_cast<uint64_t>(static_cast<int64_t>(merged_.seed()));
    sampling.top_k = merged_.top_k();
    sampling.top_p = merged_.top_p();
    sampling.min_p = merged_.min_p();
  }

  void SetFusion(search::SearchOptions& search) {
    search.scorers = ReadFusion(model_, merged_.fusion(), faults_);
    if (merged_.lexical_shortlist() && model_.parts().lexical_table == nullptr) {
      Fault("lexical_shortlist: the model has no lexical table");
    }
    if (merged_.lexical_shortlist() && merged_.has_shortlist()) {
      Fault("lexical_shortlist and shortlist: exclude each other");
    }
  }

  void CheckNoEnd(const std::string& field, const std::vector<int32_t>& tokens,
                  const search::SearchOptions& search) {
    for (const int32_t token : tokens) {
      const std::vector<int32_t>& ends = search.end_tokens;
      if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
        Fault(field, ": token ", token, " is an end token");
      }
    }
  }

  void SetProcessors(search::ProcessorOptions& processors) {
    processors.repetition_penalty = merged_.repetition_penalty();
    processors.no_repeat_ngram = merged_.no_repeat_ngram();
    processors.temperature = merged_.temperature();
    processors.renormalize = merged_.renormalize();
    if (merged_.has_suppress_tokens()) {
      processors.suppressed = Tokens("suppress_tokens", merged_.suppress_tokens());
    }
    if (merged_.has_suppress_at_begin()) {
      processors.suppressed_at_begin = Tokens("suppress_at_begin", merged_.suppress_at_begin());
    }
    processors.suppressed_sequences = Sequences("suppress_sequences", merged_.suppress_sequences());
  }

  // The ids that a field names; empty if it is wrong.
  std::vector<int32_t> Tokens(const std::string& field, const v1::TargetTokens& tokens) {
    absl::StatusOr<std::vector<int32_t>> ids = ReadTokens(model_, field, tokens);
    if (!ids.ok()) {
      Fault(ids.status().message());
      return {};
    }
    return *std::move(ids);
  }

  template <typename Repeated>
  std::vector<search::TokenSequence> Sequences(const std::string& field, const Repeated& list) {
    std::vector<search::TokenSequence> sequences;
    size_t count = 0;
    for (int i = 0; i < list.size(); ++i) {
      sequences.push_back(Tokens(absl::StrCat(field, "[", i, "]"), list[i]));
      count += sequences.back().size();
      if (count > kMaxTokens) {
        Fault(field, ": more than ", kMaxTokens, " tokens");
        return {};
      }
    }
    return sequences;
  }

  const DecodeModel& model_;
  const v1::DecodeOptions& merged_;
  std::vector<std::string> faults_;
};

absl::StatusOr<std::shared_ptr<const ResolvedOptions>> Resolve(const DecodeModel& model,
                                                               const v1::DecodeOptions& options) {
  std::vector<std::string> faults;
  model::CheckRules(options, "options", faults);
  auto resolved = std::make_shared<ResolvedOptions>();
  resolved->merged = Merge(model, WithoutFaulty(options, faults));
  Resolver resolver(model, resolved->merged);
  resolver.Run(resolved->search);
  faults.insert(faults.end(), resolver.faults().begin(), resolver.faults().end());
  if (!faults.empty()) {
    return model::InvalidFields(faults);
  }
  return std::shared_ptr<const ResolvedOptions>(std::move(resolved));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ResolvedOptions>> ResolveOptions(
    const DecodeModel& model, const v1::DecodeOptions& options) {
  OptionsCache& cache = model.parts().resolved_options;
  std::string key = options.SerializeAsString();
  if (std::shared_ptr<const ResolvedOptions> known = cache.Find(key); known != nullptr) {
    return known;
  }
  BW_ASSIGN_OR_RETURN(std::shared_ptr<const ResolvedOptions> resolved, Resolve(model, options));
  cache.Add(std::move(key), resolved);
  return resolved;
}

namespace {

// The lengths for a source of so many tokens.
absl::Status SetLengths(const DecodeModel& model, int source_length,
                        const v1::DecodeOptions& merged, search::SearchOptions& search) {
  const double most = merged.has_max_length()
                          ? merged.max_length()
                          : std::ceil(double{merged.max_length_factor()} * source_length) +
                                merged.max_length_offset();
  search.max_length = static_cast<int>(std::clamp<double>(most, 1, MaxTargetLength(model)));
  const double fewest = std::max<double>(
      merged.min_length(), std::floor(double{merged.min_length_factor()} * source_length));
  if (fewest > search.max_length) {
    return Invalid("options.min_length: at least ", fewest, " tokens (min_length ",
                   merged.min_length(), ", min_length_factor ", merged.min_length_factor(),
                   ") for a source of ", source_length, " are more than the maximum length of ",
                   search.max_length);
  }
  search.processors.min_length = static_cast<int>(fewest);
  const int64_t nodes = int64_t{search.beam_size + search.n_best} * search.max_length;
  if (merged.lattice() && nodes > kMaxLatticeNodes) {
    return Invalid("options.lattice: beam_size + n_best (", search.beam_size + search.n_best,
                   ") times the maximum length (", search.max_length, ") is more than ",
                   kMaxLatticeNodes, " hypotheses");
  }
  const int64_t weights =
      int64_t{search.n_best} *
      (search.max_length + static_cast<int64_t>(search.constraints.prefix.size())) * source_length;
  if (merged.attention() == v1::ATTENTION_SOFT && weights > kMaxWeights) {
    return Invalid("options.attention: soft: n_best (", search.n_best,
                   ") times the maximum length (", search.max_length, ") times the source's (",
                   source_length, ") is more than ", kMaxWeights, " weights");
  }
  return absl::OkStatus();
}

// The shortlist by the model's lexical table.
absl::Status SetShortlist(const DecodeModel& model, absl::Span<const int32_t> source_ids,
                          search::SearchOptions& search) {
  if (source_ids.empty()) {
    return Invalid("options.lexical_shortlist: needs a source of text or ids");
  }
  std::vector<int32_t>& shortlist = search.constraints.shortlist;
  shortlist = model.parts().lexical_table->Shortlist(source_ids);
  if (shortlist.empty()) {
    // An empty list would mean all tokens; end tokens are open beside any list.
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
                    std::vector<std::string>& faults) {
  if (model.parts().attention_result >= 0) {
    return;
  }
  const auto fault = [&](const char* field) {
    faults.push_back(absl::StrCat("options.", field,
                                  ": the model gives no attention: ", model.parts().no_attention));
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

absl::Status CheckOptions(const DecodeModel& model, const v1::DecodeOptions& options) {
  return ResolveOptions(model, options).status();
}

}  // namespace beamwright::engine
