#include "tests/engine/search/frames/naive_label_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace beamwright::search::frames_testing {
namespace {

bool Has(const std::vector<int32_t>& set, int32_t label) {
  return std::find(set.begin(), set.end(), label) != set.end();
}

bool EndsIn(const Labels& labels, const Labels& end) {
  return labels.size() >= end.size() && std::equal(end.rbegin(), end.rend(), labels.rbegin());
}

bool BeginsWith(const Labels& labels, const Labels& begin) {
  return labels.size() >= begin.size() && std::equal(begin.begin(), begin.end(), labels.begin());
}

Labels With(Labels labels, int32_t label) {
  labels.push_back(label);
  return labels;
}

double Cut(double log_prob, float weight) {
  return weight < 0 ? std::max(log_prob, -20.0) : log_prob;
}

}  // namespace

NaiveLabelRules::NaiveLabelRules(FrameOptions options, std::vector<Labels> entries,
                                 RowScorers row_scorers)
    : options_(std::move(options)),
      entries_(std::move(entries)),
      row_scorers_(std::move(row_scorers)) {}

bool NaiveLabelRules::MayFollow(const Labels& labels, int32_t label) const {
  if (label == options_.blank || static_cast<int>(labels.size()) >= options_.max_length) {
    return false;
  }
  const size_t place = labels.size();
  if (place < options_.prefix.size()) {
    return label == options_.prefix[place];
  }
  const Labels whole = With(labels, label);
  if (Has(options_.suppressed, label) ||
      (place == options_.prefix.size() && Has(options_.suppressed_at_begin, label)) ||
      (!options_.shortlist.empty() && !Has(options_.shortlist, label))) {
    return false;
  }
  for (const Labels& sequence : options_.suppressed_sequences) {
    if (EndsIn(whole, sequence)) {
      return false;
    }
  }
  const auto size = static_cast<size_t>(options_.no_repeat_ngram);
  for (size_t end = size; size > 0 && end < whole.size(); ++end) {
    if (EndsIn(Labels(whole.begin(), whole.begin() + static_cast<int64_t>(end)),
               Labels(whole.end() - static_cast<int64_t>(size), whole.end()))) {
      return false;
    }
  }
  return options_.allowed == nullptr ||
         std::any_of(entries_.begin(), entries_.end(),
                     [&](const Labels& entry) { return BeginsWith(entry, whole); });
}

bool NaiveLabelRules::MayEnd(const Labels& labels) const {
  return BeginsWith(labels, options_.prefix) &&
         (options_.allowed == nullptr ||
          std::find(entries_.begin(), entries_.end(), labels) != entries_.end());
}

bool NaiveLabelRules::IsAnswer(const Labels& labels) const {
  Labels before;
  for (const int32_t label : labels) {
    if (!MayFollow(before, label)) {
      return false;
    }
    before.push_back(label);
  }
  return MayEnd(labels);
}

double NaiveLabelRules::Gain(const Labels& labels, bool ended) const {
  double gain = options_.word_reward * static_cast<double>(labels.size());
  Labels before;
  for (const int32_t label : labels) {
    before.push_back(label);
    for (const Hotword& hotword : options_.hotwords) {
      gain += EndsIn(before, hotword.tokens) ? hotword.bonus : 0;
    }
  }
  return gain + ScorersGain(labels, ended);
}

double NaiveLabelRules::ScorersGain(const Labels& labels, bool ended) const {
  double gain = 0;
  for (size_t i = 0; i < row_scorers_.size(); ++i) {
    const float weight = options_.scorers[i].weight;
    Labels before;
    for (const int32_t label : labels) {
      gain += weight * Cut(row_scorers_[i](before)[static_cast<size_t>(label)], weight);
      before.push_back(label);
    }
  }
  for (const WeightedLabelScorer& scorer : options_.label_scorers) {
    int64_t state = scorer.scorer->Start();
    for (const int32_t label : labels) {
      gain += scorer.weight * Cut(scorer.scorer->LogProb(state, label), scorer.weight);
      state = scorer.scorer->Next(state, label);
    }
    if (ended) {
      gain += scorer.weight * Cut(scorer.scorer->LogProbOfEnd(state), scorer.weight);
    }
  }
  return gain;
}

double NaiveLabelRules::Promise(const Labels& labels) const {
  double promise = 0;
  for (const Hotword& hotword : options_.hotwords) {
    const size_t length = hotword.tokens.size();
    for (size_t begun = 1; begun < length; ++begun) {
      if (EndsIn(labels, Labels(hotword.tokens.begin(),
                                hotword.tokens.begin() + static_cast<int64_t>(begun)))) {
        promise = std::max(
            promise, hotword.bonus * static_cast<double>(begun) / static_cast<double>(length));
      }
    }
  }
  return promise;
}

double NaiveLabelRules::StartGain(int32_t label) const {
  double earned = 0;
  for (const Hotword& hotword : options_.hotwords) {
    earned += hotword.tokens == Labels{label} ? hotword.bonus : 0;
  }
  return earned + Promise({label});
}

bool NaiveLabelRules::GoesOn(const Labels& labels, int32_t label) const {
  for (const Hotword& hotword : options_.hotwords) {
    for (size_t begun = 1; begun < hotword.tokens.size(); ++begun) {
      const Labels begin(hotword.tokens.begin(),
                         hotword.tokens.begin() + static_cast<int64_t>(begun));
      if (hotword.tokens[begun] == label && EndsIn(labels, begin)) {
        return true;
      }
    }
  }
  return false;
}

std::vector<double> NaiveLabelRules::Row(const std::vector<float>& log_probs) const {
  std::vector<double> row(log_probs.begin(), log_probs.end());
  const auto normalise = [&] {
    double sum = 0;
    for (const double x : row) {
      sum += std::exp(x);
    }
    for (double& x : row) {
      x -= std::log(sum);
    }
  };
  if (options_.temperature != 1) {
    for (double& x : row) {
      x /= options_.temperature;
    }
    normalise();
  }
  if (options_.blank_penalty != 0) {
    row[static_cast<size_t>(options_.blank)] -= options_.blank_penalty;
    normalise();
  }
  return row;
}

}  // namespace beamwright::search::frames_testing
