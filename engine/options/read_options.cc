// From DecodeOptions, with defaults merged in, to SearchOptions. A Reader goes through the options
// by topic, sets the search's fields and collects every fault, so that a caller sees all of them at
// once:
//
// 1. SetSearch: sizes, scores, the end of the search, and limits of the model. 2. SetStopStrings.
//    3. SetProcessors: penalties and bans by token. 4. SetConstraints: prefixes, required
//    sequences, hotwords (SetHotwords), lists of allowed answers (SetAllowed), and a regular
//    expression or JSON schema (SetText). 5. SetTimestamps, for Whisper. 6. SetSampling.
// 7. SetFusion: weights of scorers. 8. Conflicts (engine/search/options.h): options that exclude
//    each other.
//
// Fields by themselves were checked before, by their rules (decode_options.cc); here is what
// depends on the model or on other fields. Options that name tokens by text are read through the
// model's vocabulary (OptionTokens).
//
// SetText is the expensive one: the pattern is compiled to a grammar::Program, and the texts of all
// tokens are found, once for a model (TokenTextsOf). It then tries the first step: a pattern that
// the model's tokens cannot spell, or that no first token can begin, is refused here and not in the
// middle of a search.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/bundle/text_codec.h"
#include "engine/grammar/expression.h"
#include "engine/grammar/program.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "engine/options/option_tokens.h"
#include "engine/status/fault.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

search::StopMode StopOf(v1::StopMode stop) {
  switch (stop) {
    case v1::STOP_MODE_FIRST:
      return search::StopMode::kFirst;
    case v1::STOP_MODE_COUNT:
      return search::StopMode::kCount;
    case v1::STOP_MODE_NEVER:
      return search::StopMode::kNever;
    case v1::STOP_MODE_HEURISTIC:
      return search::StopMode::kHeuristic;
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

absl::StatusOr<grammar::Program> CompileRegex(absl::string_view pattern) {
  grammar::Grammar made;
  BW_ASSIGN_OR_RETURN(grammar::Part part, grammar::ReadRegex(pattern));
  made.rules.push_back(std::move(part));
  return grammar::Compile(made);
}

absl::StatusOr<grammar::Program> CompileSchema(absl::string_view schema) {
  BW_ASSIGN_OR_RETURN(const grammar::Grammar made, grammar::ReadJsonSchema(schema));
  return grammar::Compile(made);
}

// The texts of the model's tokens, found once: some tens of milliseconds for a hundred thousand.
std::shared_ptr<const grammar::TokenTexts> TokenTextsOf(const DecodeModel& model) {
  return model.parts().token_texts.Get([&model] {
    const bundle::TextCodec& codec = model.target();
    const int vocabulary = model.parts().vocabulary_size();
    const int count = codec.size() > 0 ? std::min(codec.size(), vocabulary) : vocabulary;
    const auto writer = [&codec](int32_t token, bool is_first) {
      return codec.Written(token, is_first);
    };
    bool drops_last_space = false;
    for (int32_t token = 0; token < count && !drops_last_space; ++token) {
      const std::string text = writer(token, /*is_first=*/true);
      drops_last_space =
          text.size() > 1 && text.back() == ' ' && codec.Decode({token}) + " " == text;
    }
    return std::make_shared<const grammar::TokenTexts>(count, writer, drops_last_space);
  });
}

// Fills SearchOptions and collects what is wrong on the way.
class Reader : private OptionTokens {
 public:
  Reader(const DecodeModel& model, const v1::DecodeOptions& merged, status::Faults& faults)
      : OptionTokens(model, faults), merged_(merged), num_before_(faults.size()) {}

  void Run(search::SearchOptions& search) {
    SetModelTokens(model(), search);
    SetSearch(search);
    SetStopStrings(search);
    SetProcessors(search.processors);
    SetConstraints(search);
    SetTimestamps(search);
    SetSampling(search);
    SetFusion(search);
    for (const search::Conflict& conflict : Conflicts(search)) {
      Add(conflict.options, conflict.text);
    }
  }

 private:
  void SetSearch(search::SearchOptions& search) {
    search.beam_size = merged_.beam_size();
    search.n_best = merged_.n_best();
    if (merged_.distinct() == v1::DISTINCT_TEXT && merged_.num_alternatives() == 0 &&
        merged_.sampling() != v1::SAMPLING_RANDOM) {
      search.n_best = search.beam_size;  // the answer has n_best different texts of them
    }
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
    search.trace = merged_.trace();
    search.coverage_penalty = merged_.coverage_penalty();
    search.may_be_cut = merged_.deadline_result() == v1::DEADLINE_RESULT_BEST_SO_FAR;
    CheckAttention(model(), merged_.coverage_penalty(), merged_.attention(), faults());
    if (merged_.diverse_groups() > merged_.beam_size()) {
      Add("diverse_groups", merged_.diverse_groups(), " is more than the beam size of ",
          merged_.beam_size());
    }
    if (merged_.num_alternatives() > merged_.beam_size()) {
      Add("num_alternatives", merged_.num_alternatives(), " is more than the beam size of ",
          merged_.beam_size());
    }
    if (merged_.n_best() > merged_.beam_size()) {
      Add("n_best", merged_.n_best(), " is more than the beam size of ", merged_.beam_size());
    }
    if (merged_.beam_size() > MaxBeamSize(model())) {
      Add("beam_size", merged_.beam_size(), " is above the model's limit of ",
          MaxBeamSize(model()));
    }
    if (merged_.has_max_length() && merged_.max_length() > MaxTargetLength(model())) {
      Add("max_length", merged_.max_length(), " is above the model's limit of ",
          MaxTargetLength(model()));
    }
    if (merged_.has_max_length() && merged_.min_length() > merged_.max_length()) {
      Add("min_length", merged_.min_length(), " is more than the max_length of ",
          merged_.max_length());
    }
  }

  void SetStopStrings(search::SearchOptions& search) {
    constexpr size_t kMostBytes = 256;
    std::vector<std::string> strings;
    if (merged_.stop_strings_size() > 0 && bundle::IsJoinerCodec(model().target())) {
      Add("stop_strings",
          "are not found in the text of tokens with OpenNMT's joiner '￭'; end the answer at "
          "tokens");
      return;
    }
    for (int i = 0; i < merged_.stop_strings_size(); ++i) {
      const std::string& string = merged_.stop_strings(i);
      if (string.empty() || string.size() > kMostBytes) {
        Add(absl::StrCat("stop_strings[", i, "]"), "has ", string.size(), " bytes, must have 1 to ",
            kMostBytes);
      } else {
        strings.push_back(string);
      }
    }
    if (!strings.empty()) {
      // The model outlives its requests, and these options with them.
      search.stop_strings = std::make_shared<const search::StopStrings>(
          strings, [target = &model().target()](int32_t token, bool is_first) {
            return target->Written(token, is_first);
          });
    }
  }

  void SetConstraints(search::SearchOptions& search) {
    search::ConstraintOptions& constraints = search.constraints;
    if (merged_.has_target_prefix()) {
      constraints.prefix = List("target_prefix", merged_.target_prefix());
      CheckNoEnd("target_prefix", constraints.prefix, search);
    }
    constraints.score_prefix = merged_.score_prefix();
    if (merged_.has_soft_prefix()) {
      constraints.soft_prefix = List("soft_prefix", merged_.soft_prefix());
      CheckNoEnd("soft_prefix", constraints.soft_prefix, search);
    }
    constraints.soft_prefix_weight = merged_.soft_prefix_weight();
    constraints.num_alternatives = merged_.num_alternatives();
    constraints.alternative_min_prob = merged_.alternative_min_prob();
    if (merged_.has_shortlist()) {
      constraints.shortlist = Set("shortlist", merged_.shortlist());
    }
    constraints.required = Sequences("required_sequences", merged_.required_sequences());
    for (const search::TokenSequence& sequence : constraints.required) {
      CheckNoEnd("required_sequences", sequence, search);
      if (sequence.size() > search::kMaxConstraintLength) {
        Add("required_sequences", "one has ", sequence.size(), " tokens; at most ",
            search::kMaxConstraintLength, " are allowed");
      }
    }
    constraints.required_in_order = merged_.required_in_order();
    SetHotwords(search);
    SetAllowed(search);
    SetText(search);
  }

  void SetHotwords(search::SearchOptions& search) {
    search.constraints.hotwords = Hotwords(merged_);
    for (size_t i = 0; i < search.constraints.hotwords.size(); ++i) {
      CheckNoEnd(absl::StrCat("hotwords[", i, "]"), search.constraints.hotwords[i].tokens, search);
    }
  }

  void SetAllowed(search::SearchOptions& search) {
    if (merged_.has_allowed_list()) {
      search.constraints.allowed = AllowedList(merged_.allowed_list());
      if (search.constraints.allowed == nullptr) {
        return;
      }
      if (merged_.allowed_sequences_size() > 0) {
        Add("allowed_list and allowed_sequences", "exclude each other");
      }
      return;
    }
    if (merged_.allowed_sequences_size() > 0) {
      auto entries = Sequences("allowed_sequences", merged_.allowed_sequences());
      for (const search::TokenSequence& entry : entries) {
        CheckNoEnd("allowed_sequences", entry, search);
      }
      if (faults().size() == num_before_) {
        search.constraints.allowed =
            std::make_shared<const search::TokenTrie>(std::move(entries), search.end_tokens);
      }
    }
  }

  void SetText(search::SearchOptions& search) {
    const bool is_regex = merged_.has_regex();
    if (!is_regex && !merged_.has_json_schema()) {
      return;
    }
    if (is_regex && merged_.has_json_schema()) {
      Add("regex and json_schema", "exclude each other");
      return;
    }
    const char* const field = is_regex ? "regex" : "json_schema";
    if (search.end_tokens.empty()) {
      Add(field, "the model has no end token that could close a text");
      return;
    }
    if (bundle::IsJoinerCodec(model().target())) {
      Add(field,
          "is not served where tokens have OpenNMT's joiner '￭': their texts depend on others");
      return;
    }
    const bool begins_text = search.constraints.prefix.empty();
    const auto compile = [&] { return Compile(field, begins_text, search.end_tokens); };
    const v1::DecodeOptions& usual = model().config().default_options();
    const bool is_usual = usual.has_regex() == is_regex && usual.has_json_schema() == !is_regex &&
                          usual.regex() == merged_.regex() &&
                          usual.json_schema() == merged_.json_schema();
    search.constraints.text =
        is_usual ? model().parts().default_pattern[begins_text ? 1 : 0].Get(compile) : compile();
  }

  // The pattern or schema of the options; null if something is wrong with it.
  std::shared_ptr<const grammar::Constraint> Compile(const char* field, bool begins_text,
                                                     const std::vector<int32_t>& end_tokens) {
    FaultPoint("options.pattern").IgnoreError();  // a delay at most
    auto program =
        merged_.has_regex() ? CompileRegex(merged_.regex()) : CompileSchema(merged_.json_schema());
    if (!program.ok()) {
      Add(field, program.status().message());
      return nullptr;
    }
    auto constraint = std::make_shared<const grammar::Constraint>(
        field, *std::move(program), TokenTextsOf(model()), end_tokens);
    grammar::ConstrainedTexts tried(constraint);
    if (!tried.MaySpell(begins_text)) {
      Add(field, "the model's tokens spell no text of it");
      return nullptr;
    }
    std::vector<int32_t> first;
    tried.AppendAllowed(tried.Start(begins_text), first);
    if (first.empty()) {  // the pattern's first states exceed the limits
      Add(field, "repeats what may be empty too often to be followed");
      return nullptr;
    }
    return constraint;
  }

  // Whisper writes timestamps unless its prefix has <|notimestamps|>.
  void SetTimestamps(search::SearchOptions& search) {
    const bundle::TextCodec& codec = model().target();
    const int32_t first = codec.TokenId("<|0.00|>");
    const int32_t none = codec.TokenId("<|notimestamps|>");
    const search::ConstraintOptions& constraints = search.constraints;
    const v1::TargetTokens& usual = model().config().default_options().target_prefix();
    const auto names_none = [none](const auto& ids) {
      return std::find(ids.begin(), ids.end(), none) != ids.end();
    };
    // An empty prefix is that of Whisper for English alone, or a search for the language.
    const bool is_whole = !constraints.prefix.empty() || usual.ids().ids_size() == 1;
    if (first >= 0 && first < search.vocabulary_size && none >= 0 && is_whole &&
        names_none(usual.ids().ids()) && !names_none(constraints.prefix) &&
        constraints.allowed == nullptr && constraints.text == nullptr) {
      search.processors.first_timestamp = first;
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
    search.scorers = ReadFusion(model(), merged_.fusion(), faults());
    if (merged_.lexical_shortlist() && model().parts().lexical_table == nullptr) {
      Add("lexical_shortlist", "the model has no lexical table");
    }
    if (merged_.lexical_shortlist() && merged_.has_shortlist()) {
      Add("lexical_shortlist and shortlist", "exclude each other");
    }
  }

  void CheckNoEnd(const std::string& field, const std::vector<int32_t>& tokens,
                  const search::SearchOptions& search) {
    for (const int32_t token : tokens) {
      const std::vector<int32_t>& ends = search.end_tokens;
      if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
        Add(field, "token ", token, " is an end token");
      }
    }
  }

  void SetProcessors(search::ProcessorOptions& processors) {
    processors.repetition_penalty = merged_.repetition_penalty();
    processors.no_repeat_ngram = merged_.no_repeat_ngram();
    processors.temperature = merged_.temperature();
    processors.renormalize = merged_.renormalize();
    if (merged_.has_suppress_tokens()) {
      processors.suppressed = Set("suppress_tokens", merged_.suppress_tokens());
    }
    if (merged_.has_suppress_at_begin()) {
      processors.suppressed_at_begin = Set("suppress_at_begin", merged_.suppress_at_begin());
    }
    processors.logit_bias = Biases(merged_.logit_bias());
    processors.suppressed_sequences = Sequences("suppress_sequences", merged_.suppress_sequences());
  }

  const v1::DecodeOptions& merged_;
  const size_t num_before_;  // faults that were known before
};

}  // namespace

void ReadOptions(const DecodeModel& model, const v1::DecodeOptions& merged,
                 search::SearchOptions& search, status::Faults& faults) {
  Reader(model, merged, faults).Run(search);
}

}  // namespace beamwright::engine
