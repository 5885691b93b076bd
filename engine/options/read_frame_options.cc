// Reads v1::DecodeOptions into search::FrameOptions, for models that are searched by frames.
// read_options.cc does the same for the search over tokens; what both have in common is
// OptionTokens.
//
// FrameReader: SetSearch takes the numbers and checks them against the model's limits, SetTokens
// the lists of tokens, SetAllowed a list that answers must come from, SetScorers the models that
// score labels. Faults are collected with the names of the request's fields. FramePlan::Create then
// checks the options as a whole.
//
// A search by frames asks n-gram models, lexicons and word counts label by label, through LabelsOf;
// language models that are graphs are stepped over rows as in the other search (frames.scorers).
//
// ResolveFrameScoring gives the options for scoring a known target, where all alignments count and
// no beam limits them.
#include <algorithm>
#include <memory>
#include <utility>

#include "engine/bundle/rules.h"
#include "engine/fusion/ngram_model.h"
#include "engine/fusion/row_scorers.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "engine/options/option_tokens.h"
#include "engine/search/frames/frame_options.h"
#include "engine/status/fault.h"

namespace beamwright::engine {
namespace {

// LabelsOf: an n-gram model, of tokens or of words, a lexicon or a count of words, as a search by
// frames asks it, label by label.
template <typename Model>
class LabelsOf final : public search::LabelScorer {
 public:
  explicit LabelsOf(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

  int64_t Start() const override { return model_->Start(); }
  int64_t Next(int64_t state, int32_t label) const override {
    return model_->Next(static_cast<typename Model::State>(state), label);
  }
  float LogProb(int64_t state, int32_t label) const override {
    return model_->LogProb(static_cast<typename Model::State>(state), label);
  }
  float LogProbOfEnd(int64_t state) const override {
    return model_->LogProbOfEnd(static_cast<typename Model::State>(state));
  }

 private:
  const std::shared_ptr<const Model> model_;
};

// Null of a null model.
template <typename Model>
std::shared_ptr<const search::LabelScorer> MakeLabels(std::shared_ptr<const Model> model) {
  return model == nullptr ? nullptr : std::make_shared<const LabelsOf<Model>>(std::move(model));
}

search::Recombine RecombineOf(v1::Recombine recombine) {
  switch (recombine) {
    case v1::RECOMBINE_MAX:
      return search::Recombine::kMax;
    case v1::RECOMBINE_NONE:
      return search::Recombine::kNone;
    default:
      return search::Recombine::kSum;
  }
}

// Fills FrameOptions and collects what is wrong on the way.
class FrameReader : private OptionTokens {
 public:
  FrameReader(const DecodeModel& model, const v1::DecodeOptions& merged, status::Faults& faults)
      : OptionTokens(model, faults), merged_(merged), num_before_(faults.size()) {}

  search::FrameOptions Run() {
    search::FrameOptions frames = ModelFrameOptions(model());
    SetSearch(frames);
    SetTokens(frames);
    SetAllowed(frames);
    SetScorers(frames);
    return frames;
  }

 private:
  void SetSearch(search::FrameOptions& frames) {
    frames.beam_size = merged_.beam_size();
    // With distinct texts, the search returns the whole beam, of which n_best different texts are
    // answered.
    frames.n_best =
        merged_.distinct() == v1::DISTINCT_TEXT ? merged_.beam_size() : merged_.n_best();
    if (merged_.has_max_symbols_per_frame()) {
      frames.max_symbols_per_frame = merged_.max_symbols_per_frame();
    }
    frames.expansion =
        merged_.has_expansion() ? std::min(merged_.expansion(), frames.vocabulary_size) : 0;
    frames.alignment_length_synchronous = merged_.frame_order() == v1::FRAME_ORDER_ALIGNMENTS;
    if (frames.alignment_length_synchronous) {
      frames.max_symbols_per_frame = 1;  // which says nothing there
      if (merged_.has_max_symbols_per_frame()) {
        Add("frame_order and max_symbols_per_frame",
            "exclude each other: alignments of equal length have any number of tokens in a frame");
      }
      if (frames.kind == search::FrameKind::kTokenAndDuration) {
        Add("frame_order", "alignments is not defined for token-and-duration models");
      }
    }
    frames.recombine = RecombineOf(merged_.recombine());
    if (frames.kind == search::FrameKind::kCtc && frames.recombine == search::Recombine::kNone) {
      Add("recombine", "none is for transducers; CTC prefixes are merged");
    }
    frames.blank_penalty = merged_.blank_penalty();
    frames.frame_beam = merged_.has_frame_beam() ? merged_.frame_beam() : 0;
    frames.temperature = merged_.temperature();
    frames.word_reward = merged_.word_reward();
    frames.length_penalty = PenaltyOf(merged_.length_penalty());
    frames.alpha = merged_.length_penalty_alpha();
    frames.max_length = merged_.has_max_length() ? merged_.max_length() : MaxTargetLength(model());
    frames.no_repeat_ngram = merged_.no_repeat_ngram();
    if (merged_.n_best() > merged_.beam_size()) {
      Add("n_best", merged_.n_best(), " is more than the beam size of ", merged_.beam_size());
    }
    if (merged_.beam_size() > MaxBeamSize(model())) {
      Add("beam_size", merged_.beam_size(), " is above the model's limit of ",
          MaxBeamSize(model()));
    }
    if (frames.max_length > MaxTargetLength(model())) {
      Add("max_length", frames.max_length, " is above the model's limit of ",
          MaxTargetLength(model()));
    }
  }

  void SetTokens(search::FrameOptions& frames) {
    if (merged_.has_suppress_tokens()) {
      frames.suppressed = Set("suppress_tokens", merged_.suppress_tokens());
    }
    if (merged_.has_suppress_at_begin()) {
      frames.suppressed_at_begin = Set("suppress_at_begin", merged_.suppress_at_begin());
    }
    frames.suppressed_sequences = Sequences("suppress_sequences", merged_.suppress_sequences());
    if (merged_.has_shortlist()) {
      frames.shortlist = Set("shortlist", merged_.shortlist());
    }
    if (merged_.has_target_prefix()) {
      frames.prefix = List("target_prefix", merged_.target_prefix());
    }
    frames.hotwords = Hotwords(merged_);
    // Padding that is not the blank is never generated.
    const int pad = model().target().pad_id();
    if (pad >= 0 && pad != frames.blank && pad < frames.vocabulary_size) {
      frames.suppressed.push_back(pad);
    }
  }

  void SetAllowed(search::FrameOptions& frames) {
    const bool has_sequences = merged_.allowed_sequences_size() > 0;
    if (merged_.has_allowed_list()) {
      frames.allowed = AllowedList(merged_.allowed_list());
      if (has_sequences && frames.allowed != nullptr) {
        Add("allowed_list and allowed_sequences", "exclude each other");
      }
    } else if (has_sequences) {
      auto entries = Sequences("allowed_sequences", merged_.allowed_sequences());
      if (faults().size() == num_before_) {
        frames.allowed = std::make_shared<const search::TokenTrie>(
            std::move(entries), std::vector<int32_t>{frames.blank});
      }
    }
  }

  void SetScorers(search::FrameOptions& frames) {
    for (search::ScorerWeight& wanted : ReadFusion(model(), merged_.fusion(), faults())) {
      const ScorerPart& part = *model().parts().FindScorer(wanted.name);
      std::shared_ptr<const search::LabelScorer> labels = MakeLabels(part.ngram);
      labels = labels == nullptr ? MakeLabels(part.words) : labels;
      labels = labels == nullptr ? MakeLabels(part.lexicon) : labels;
      labels = labels == nullptr ? MakeLabels(part.word_count) : labels;
      if (labels == nullptr) {
        frames.scorers.push_back(std::move(wanted));
        continue;
      }
      // Tokens that the lexicon rules out would take places of the expansion from those that it
      // allows.
      if (part.lexicon != nullptr && !merged_.has_expansion()) {
        frames.expansion = frames.vocabulary_size;
      }
      frames.label_scorers.push_back({std::move(wanted.name), wanted.weight, std::move(labels)});
    }
  }

  const v1::DecodeOptions& merged_;
  const size_t num_before_;  // faults that were known before
};

}  // namespace

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

search::FrameOptions ModelFrameOptions(const DecodeModel& model) {
  const FramesPart& part = *model.parts().frames;
  search::FrameOptions frames;
  frames.kind = part.kind;
  frames.vocabulary_size = part.num_columns;
  frames.blank = part.blank;
  frames.durations = part.durations;
  frames.max_symbols_per_frame = part.max_symbols;
  return frames;
}

std::shared_ptr<const search::FramePlan> ReadFrameOptions(const DecodeModel& model,
                                                          const v1::DecodeOptions& merged,
                                                          status::Faults& faults) {
  const size_t before = faults.size();
  search::FrameOptions frames = FrameReader(model, merged, faults).Run();
  if (faults.size() > before) {
    return nullptr;
  }
  auto plan = search::FramePlan::Create(std::move(frames));
  if (!plan.ok()) {
    for (const status::Fault& fault : status::FaultsOf(plan.status())) {
      faults.Add("options", fault.text);
    }
    return nullptr;
  }
  return *std::move(plan);
}

}  // namespace beamwright::engine
