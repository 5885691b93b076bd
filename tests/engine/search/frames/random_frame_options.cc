#include "tests/engine/search/frames/random_frame_options.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace beamwright::search::frames_testing {
namespace {

// A bigram model.
class Bigram final : public LabelScorer {
 public:
  Bigram(int vocabulary, std::mt19937& random) {
    for (int i = 0; i <= vocabulary; ++i) {
      // The last column is the end's.
      rows_.push_back(RandomLogProbs(static_cast<size_t>(vocabulary) + 1, 0.1, random));
    }
  }
  int64_t Start() const override { return static_cast<int64_t>(rows_.size()) - 1; }
  int64_t Next(int64_t /*state*/, int32_t label) const override { return label; }
  float LogProb(int64_t state, int32_t label) const override {
    return rows_[static_cast<size_t>(state)][static_cast<size_t>(label)];
  }
  float LogProbOfEnd(int64_t state) const override {
    return rows_[static_cast<size_t>(state)].back();
  }

 private:
  std::vector<std::vector<float>> rows_;
};

class Maker {
 public:
  Maker(const FrameOptions& options, double chance, std::mt19937& random)
      : chance_(chance), random_(random) {
    made_.options = options;
  }

  RandomFrameOptions Make() {
    MakeMasks();
    FrameOptions& options = made_.options;
    for (int count = Flip() ? 1 + Below(3) : 0; count > 0; --count) {
      options.hotwords.push_back({Phrase(3), 0.5 * Below(8)});
    }
    options.word_reward = Flip() ? 0.25 * (Below(9) - 4) : 0;
    options.max_length = Flip() ? 1 + Below(4) : options.max_length;
    options.max_length = std::max(options.max_length, static_cast<int>(options.prefix.size()));
    options.temperature = Flip() ? 0.5 + 0.25 * Below(6) : 1;
    options.blank_penalty = Flip() ? 0.5 * (Below(7) - 2) : 0;
    for (int count = Flip() ? 1 + Below(2) : 0; count > 0; --count) {
      options.label_scorers.push_back(
          {"bigram", Weight(), std::make_shared<Bigram>(options.vocabulary_size, random_)});
    }
    for (int count = Flip() ? 1 + Below(2) : 0; count > 0; --count) {
      options.scorers.push_back({"rows", Weight()});
      const Joiner rows =
          RandomJoiner(static_cast<uint32_t>(random_()), options.vocabulary_size, 0, 0.1);
      made_.row_scorers.push_back(
          [rows](const Labels& labels) { return rows(0, labels).log_probs; });
    }
    return made_;
  }

 private:
  void MakeMasks() {
    FrameOptions& options = made_.options;
    if (Flip()) {
      options.suppressed.push_back(Label());
    }
    if (Flip()) {
      options.suppressed_at_begin.push_back(Label());
    }
    if (Flip()) {
      options.suppressed_sequences.push_back(Phrase(2));
    }
    options.no_repeat_ngram = Flip() ? 1 + Below(3) : 0;
    for (int32_t label = 0; Flip() && label < options.vocabulary_size; ++label) {
      if (label != options.blank) {
        options.shortlist.push_back(label);
      }
    }
    if (Flip()) {
      options.prefix = Phrase(2);
    }
    if (Flip()) {
      for (int count = 1 + Below(6); count > 0; --count) {
        made_.entries.push_back(Phrase(4));
      }
      options.allowed =
          std::make_shared<TokenTrie>(made_.entries, std::vector<int32_t>{options.blank});
    }
  }

  bool Flip() { return std::bernoulli_distribution(chance_)(random_); }
  int Below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  int32_t Label() {
    const FrameOptions& options = made_.options;
    return (options.blank + 1 + Below(options.vocabulary_size - 1)) % options.vocabulary_size;
  }
  Labels Phrase(int most) {
    Labels labels;
    for (int count = 1 + Below(most); count > 0; --count) {
      labels.push_back(Label());
    }
    return labels;
  }
  float Weight() { return Below(3) == 0 ? -0.25f : 0.5f; }

  double chance_;
  std::mt19937& random_;
  RandomFrameOptions made_;
};

}  // namespace

RandomFrameOptions WithLabelOptions(FrameOptions options, double chance, std::mt19937& random) {
  return Maker(options, chance, random).Make();
}

}  // namespace beamwright::search::frames_testing
