// Checks the options of a search by frames (Validate) and prepares what all searches of one call
// share (FramePlan): the processors that bar labels, the labels that are open at every step, and
// what a hotword earns at the begin.
//
// 1. Validate collects all faults: CheckModel (columns, blank, durations), CheckKind (options that
//    the kind of search does not have), CheckNumbers, CheckLabelOptions, CheckScorers.
// 2. FramePlan: MakeMasks makes the processors, the same as those of the search over tokens. Those
//    that do not depend on a hypothesis are applied once (FindOpenLabels), so that a step only
//    looks at open labels.
#include "engine/search/frames/frame_options.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/search/processor.h"
#include "ops/base/status.h"

namespace beamwright::search {
namespace {

// All faults of the options, by the names of the fields of DecodeOptions.
class FrameFaults {
 public:
  explicit FrameFaults(const FrameOptions& options) : options_(options) {}

  template <typename... Pieces>
  void Add(const Pieces&... pieces) {
    faults_.push_back(absl::StrCat(pieces...));
  }
  void CheckRange(absl::string_view field, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
      Add(field, " is ", value, ", must be in [", low, ", ", high, "]");
    }
  }
  void CheckLabels(absl::string_view field, absl::Span<const int32_t> labels) {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < 0 || labels[i] >= options_.vocabulary_size) {
        Add(field, "[", i, "] is ", labels[i],
            ", must be in [0, vocabulary_size = ", options_.vocabulary_size, ")");
      } else if (labels[i] == options_.blank) {
        Add(field, "[", i, "] is the blank, which no option names");
      }
    }
  }
  void CheckPhrase(absl::string_view field, absl::Span<const int32_t> labels) {
    if (labels.empty()) {
      Add(field, " is empty");
    }
    CheckLabels(field, labels);
  }
  absl::Status Result() const {
    return faults_.empty() ? absl::OkStatus()
                           : Invalid("frame search options: ", absl::StrJoin(faults_, "; "));
  }

 private:
  const FrameOptions& options_;
  std::vector<std::string> faults_;
};

void CheckModel(const FrameOptions& options, FrameFaults& faults) {
  faults.CheckRange("vocabulary_size", options.vocabulary_size, 2, 1 << 30);
  if (options.kind != FrameKind::kTags) {
    faults.CheckRange("blank", options.blank, 0, options.vocabulary_size - 1);
  }
  const std::vector<int>& durations = options.durations;
  if (options.kind != FrameKind::kTokenAndDuration) {
    if (!durations.empty()) {
      faults.Add("durations: only a token-and-duration transducer has them");
    }
    return;
  }
  faults.CheckRange("the number of durations", static_cast<double>(durations.size()), 1,
                    kMaxDurations);
  for (size_t i = 0; i < durations.size(); ++i) {
    faults.CheckRange(absl::StrCat("durations[", i, "]"), durations[i], 0, kMaxDuration);
    if (std::count(durations.begin(), durations.end(), durations[i]) > 1) {
      faults.Add("durations[", i, "] is ", durations[i], ", which is there twice");
    }
  }
  if (!durations.empty() && options.longest_duration() <= 0) {
    faults.Add("durations: one must be above 0, or no symbol ends a frame");
  }
}

void CheckKind(const FrameOptions& options, FrameFaults& faults) {
  const bool is_ctc = options.kind == FrameKind::kCtc || options.kind == FrameKind::kTags;
  faults.CheckRange("max_symbols_per_frame", options.max_symbols_per_frame, 1, kMaxSymbolsPerFrame);
  if (is_ctc && options.max_symbols_per_frame != 1) {
    faults.Add("max_symbols_per_frame: a CTC model emits one symbol a frame");
  }
  if (is_ctc && options.recombine == Recombine::kNone) {
    faults.Add("recombine none: a CTC prefix search merges alignments; sum and max are allowed");
  }
  if (options.alignment_length_synchronous && options.kind != FrameKind::kTransducer) {
    faults.Add(
        "alignment_length_synchronous: only a transducer without durations can be searched so");
  }
  if (options.alignment_length_synchronous && options.max_symbols_per_frame != 1) {
    faults.Add("alignment_length_synchronous and max_symbols_per_frame exclude each other");
  }
  if (options.alignment_length_synchronous && options.frame_beam > 0) {
    faults.Add("alignment_length_synchronous and frame_beam exclude each other");
  }
}

void CheckNumbers(const FrameOptions& options, FrameFaults& faults) {
  faults.CheckRange("beam_size", options.beam_size, 1, kMaxBeamSize);
  faults.CheckRange("n_best", options.n_best, 1, std::max(1, options.beam_size));
  faults.CheckRange("expansion", options.expansion, 0, std::max(0, options.vocabulary_size));
  faults.CheckRange("blank_penalty", options.blank_penalty, -kMaxAbsBlankPenalty,
                    kMaxAbsBlankPenalty);
  faults.CheckRange("word_reward", options.word_reward, -1000, 1000);
  faults.CheckRange("length_penalty_alpha", options.alpha, -kMaxAbsAlpha, kMaxAbsAlpha);
  faults.CheckRange("max_length", options.max_length, 1, kMaxLength);
  faults.CheckRange("no_repeat_ngram", options.no_repeat_ngram, 0, kMaxLength);
  if (!(options.frame_beam >= 0) || !std::isfinite(options.frame_beam)) {
    faults.Add("frame_beam is ", options.frame_beam, ", must be finite and at least 0");
  }
  // Beyond this range, f32 logits exceed the range of f64.
  faults.CheckRange("temperature", options.temperature, 1e-6, 1e6);
}

void CheckLabelOptions(const FrameOptions& options, FrameFaults& faults) {
  faults.CheckLabels("suppress_tokens", options.suppressed);
  faults.CheckLabels("suppress_at_begin", options.suppressed_at_begin);
  for (const TokenSequence& sequence : options.suppressed_sequences) {
    faults.CheckPhrase("a sequence of suppress_sequences", sequence);
  }
  faults.CheckLabels("shortlist", options.shortlist);
  if (!std::is_sorted(options.shortlist.begin(), options.shortlist.end(), std::less_equal<>())) {
    faults.Add("shortlist: labels must ascend, each once");
  }
  faults.CheckLabels("target_prefix", options.prefix);
  if (static_cast<int64_t>(options.prefix.size()) > options.max_length) {
    faults.Add("target_prefix has ", options.prefix.size(), " labels, max_length allows ",
               options.max_length);
  }
  for (const Hotword& hotword : options.hotwords) {
    faults.CheckPhrase("a phrase of hotwords", hotword.tokens);
    if (!(hotword.bonus >= 0) || !std::isfinite(hotword.bonus)) {
      faults.Add("hotwords: a bonus is ", hotword.bonus, ", must be finite and at least 0");
    }
  }
}

void CheckScorers(const FrameOptions& options, FrameFaults& faults) {
  const auto check = [&](absl::string_view name, float weight) {
    if (weight == 0 || !std::isfinite(weight)) {
      faults.Add("fusion: the weight of '", name, "' is ", weight, ", must be finite and not 0");
    }
  };
  for (const ScorerWeight& scorer : options.scorers) {
    check(scorer.name, scorer.weight);
  }
  for (const WeightedLabelScorer& scorer : options.label_scorers) {
    check(scorer.name, scorer.weight);
    if (scorer.scorer == nullptr) {
      faults.Add("fusion: '", scorer.name, "' is not there");
    }
  }
  faults.CheckRange("the number of fusion's scorers",
                    static_cast<double>(options.scorers.size() + options.label_scorers.size()), 0,
                    kMaxScorers);
}

// The processors that searches by frames share with the search over tokens.
std::vector<std::unique_ptr<const Processor>> MakeMasks(const FrameOptions& options) {
  SearchOptions shared;
  shared.vocabulary_size = options.vocabulary_size;
  shared.max_length = options.max_length;
  shared.processors.suppressed = options.suppressed;
  shared.processors.suppressed_at_begin = options.suppressed_at_begin;
  shared.processors.suppressed_sequences = options.suppressed_sequences;
  shared.processors.no_repeat_ngram = options.no_repeat_ngram;
  shared.constraints.shortlist = options.shortlist;
  shared.constraints.allowed = options.allowed;
  return MakeProcessors(shared);
}

}  // namespace

// Labels that a row may go on with: as asked for, else all of them in CTC, and as many as the beam
// in a transducer. The blank is not counted.
int FrameOptions::num_expanded() const {
  const int usual = kind == FrameKind::kCtc ? vocabulary_size : beam_size;
  return std::min(expansion > 0 ? expansion : usual, vocabulary_size - 1);
}

int FrameOptions::longest_duration() const {
  return durations.empty() ? 1 : *std::max_element(durations.begin(), durations.end());
}

absl::Status Validate(const FrameOptions& options) {
  FrameFaults faults(options);
  CheckModel(options, faults);
  CheckKind(options, faults);
  CheckNumbers(options, faults);
  CheckLabelOptions(options, faults);
  CheckScorers(options, faults);
  return faults.Result();
}

int MaxSlots(const FrameOptions& options) {
  // A beam of each frame that hypotheses may be at, before a round and after it.
  return 2 * options.beam_size * (options.longest_duration() + 1) + 1;
}

absl::StatusOr<std::shared_ptr<const FramePlan>> FramePlan::Create(FrameOptions options) {
  BW_RETURN_IF_ERROR(Validate(options));
  return std::shared_ptr<const FramePlan>(new FramePlan(std::move(options)));
}

FramePlan::FramePlan(FrameOptions options)
    : options_(std::move(options)),
      processors_(MakeMasks(options_)),
      num_masks_(processors_.size()),
      masks_histories_(!options_.prefix.empty()),
      reads_labels_(options_.no_repeat_ngram > 0 || !options_.suppressed_sequences.empty()) {
  for (const auto& mask : processors_) {
    masks_histories_ = masks_histories_ || mask->depends_on_row();
  }
  FindOpenLabels();
  if (has_hotwords()) {
    auto hotwords = std::make_unique<Hotwords>(options_.hotwords);
    hotwords_ = hotwords.get();
    processors_.push_back(std::move(hotwords));
    FindStartGains();
  }
}

// Masks that look at no row are applied once. A label is open if the allowed set has it, where
// there is one, and no mask bars it.
void FramePlan::FindOpenLabels() {
  RuleBuffer everywhere;
  for (const auto& mask : masks()) {
    if (!mask->depends_on_row()) {
      mask->Apply({}, everywhere);
    }
  }
  std::vector<bool> open(static_cast<size_t>(options_.vocabulary_size), !everywhere.has_allowed());
  for (const int32_t label : everywhere.allowed()) {
    open[static_cast<size_t>(label)] = true;
  }
  for (const LogitEdit& edit : everywhere.edits()) {
    open[static_cast<size_t>(edit.token)] = false;
  }
  // A prefix is what the request asks for: no mask bars it.
  for (const int32_t label : options_.prefix) {
    open[static_cast<size_t>(label)] = true;
  }
  if (options_.kind != FrameKind::kTags) {
    open[static_cast<size_t>(options_.blank)] = false;
  }
  for (int32_t label = 0; label < options_.vocabulary_size; ++label) {
    if (open[static_cast<size_t>(label)]) {
      open_labels_.push_back(label);
    }
  }
}

// What each label earns as the first of a phrase: the same in every history that is within no
// phrase.
void FramePlan::FindStartGains() {
  RuleBuffer start;
  hotwords()->Apply({{}, 0, hotwords()->Start()}, start);
  start_gains_.resize(static_cast<size_t>(options_.vocabulary_size));
  for (const RankBonus& bonus : start.bonuses()) {
    start_gains_[static_cast<size_t>(bonus.token)] = bonus.value;
  }
}

}  // namespace beamwright::search
