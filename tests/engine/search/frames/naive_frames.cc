#include "tests/engine/search/frames/naive_frames.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

namespace beamwright::search::frames_testing {
namespace {

// Adds one alignment.
void AddAlignment(const Labels& labels, double log_prob, const std::vector<NaiveTime>& times,
                  NaiveSums& sums) {
  if (log_prob == -std::numeric_limits<double>::infinity()) {
    return;
  }
  NaiveSum& sum = sums[labels];
  sum.probability += std::exp(log_prob);
  if (log_prob > sum.best + 1e-9) {
    sum.best = log_prob;
    sum.times = times;
    sum.is_tied = false;
  } else if (log_prob > sum.best - 1e-9) {
    sum.is_tied = true;
  }
}

// What is under way of a transducer's alignment.
struct Alignment {
  Labels labels;
  std::vector<NaiveTime> times;
  int64_t frame = 0;
  int num_in_frame = 0;
  double log_prob = 0;
};

class TransducerWalk {
 public:
  TransducerWalk(const NaiveTransducer& model, const Joiner& joiner, NaiveSums& sums)
      : model_(model), joiner_(joiner), sums_(sums) {}

  void Go(const Alignment& at) {
    if (at.frame >= model_.num_frames) {
      AddAlignment(at.labels, at.log_prob, at.times, sums_);
      return;
    }
    const NaiveRow row = joiner_(at.frame, at.labels);
    for (int token = 0; token < model_.vocabulary; ++token) {
      const double log_prob = row.log_probs[static_cast<size_t>(token)];
      if (model_.durations.empty()) {
        Take(at, token, token == model_.blank ? 1 : 0, 1, log_prob);
      }
      for (size_t i = 0; i < model_.durations.size(); ++i) {
        Take(at, token, model_.durations[i], model_.durations[i],
             log_prob + row.duration_log_probs[i]);
      }
    }
  }

 private:
  void Take(const Alignment& at, int token, int frames, int told, double log_prob) {
    const bool is_blank = token == model_.blank;
    if (log_prob == -std::numeric_limits<double>::infinity() ||
        (!is_blank && at.labels.size() == model_.max_labels)) {
      return;
    }
    Alignment next = at;
    next.log_prob += log_prob;
    frames = is_blank ? std::max(frames, 1) : frames;
    if (!is_blank) {
      const bool is_last = ++next.num_in_frame == model_.max_symbols;
      frames = is_last && frames == 0 ? 1 : frames;
      told = is_last && told == 0 ? 1 : told;
      next.labels.push_back(token);
      next.times.push_back({at.frame, told, log_prob});
    }
    if (frames > 0) {
      next.frame += frames;
      next.num_in_frame = 0;
    }
    Go(next);
  }

  const NaiveTransducer& model_;
  const Joiner& joiner_;
  NaiveSums& sums_;
};

}  // namespace

std::vector<float> RandomLogProbs(size_t size, double zeros, std::mt19937& random) {
  std::normal_distribution<double> logit(0, 2);
  std::uniform_real_distribution<double> chance(0, 1);
  std::vector<double> logits(size);
  double sum = 0;
  for (double& x : logits) {
    x = chance(random) < zeros ? -std::numeric_limits<double>::infinity() : logit(random);
    sum += std::exp(x);
  }
  if (sum == 0 && size > 0) {
    logits[0] = 0;
    sum = 1;
  }
  std::vector<float> log_probs;
  log_probs.reserve(size);
  for (const double x : logits) {
    log_probs.push_back(static_cast<float>(x - std::log(sum)));
  }
  return log_probs;
}

CtcTable RandomCtc(int num_frames, int vocabulary, double zeros, std::mt19937& random) {
  CtcTable table;
  for (int t = 0; t < num_frames; ++t) {
    table.push_back(RandomLogProbs(static_cast<size_t>(vocabulary), zeros, random));
  }
  return table;
}

Joiner RandomJoiner(uint32_t seed, int vocabulary, int num_durations, double zeros) {
  auto rows = std::make_shared<std::map<std::pair<int64_t, Labels>, NaiveRow>>();
  return [=](int64_t frame, const Labels& labels) -> const NaiveRow& {
    const auto [it, is_new] = rows->try_emplace({frame, labels});
    if (is_new) {
      std::vector<uint32_t> words = {seed, static_cast<uint32_t>(frame)};
      words.insert(words.end(), labels.begin(), labels.end());
      std::seed_seq sequence(words.begin(), words.end());
      std::mt19937 random(sequence);
      it->second.log_probs = RandomLogProbs(static_cast<size_t>(vocabulary), zeros, random);
      it->second.duration_log_probs =
          RandomLogProbs(static_cast<size_t>(num_durations), zeros, random);
    }
    return it->second;
  };
}

NaiveSums AllCtc(const CtcTable& table, int blank) {
  NaiveSums sums;
  const size_t vocabulary = table.empty() ? 1 : table[0].size();
  std::vector<int> path(table.size(), 0);
  for (;;) {
    Labels labels;
    std::vector<NaiveTime> times;
    double log_prob = 0;
    int last = blank;
    for (size_t t = 0; t < path.size(); ++t) {
      const double here = table[t][static_cast<size_t>(path[t])];
      log_prob += here;
      if (path[t] != blank && path[t] == last) {
        ++times.back().duration;
        times.back().log_prob += here;
      } else if (path[t] != blank) {
        labels.push_back(path[t]);
        times.push_back({static_cast<int64_t>(t), 1, here});
      }
      last = path[t];
    }
    AddAlignment(labels, log_prob, times, sums);
    size_t t = 0;
    while (t < path.size() && ++path[t] == static_cast<int>(vocabulary)) {
      path[t++] = 0;
    }
    if (t == path.size()) {
      return sums;
    }
  }
}

NaiveSums AllTransducer(const NaiveTransducer& model, const Joiner& joiner) {
  NaiveSums sums;
  TransducerWalk(model, joiner, sums).Go({});
  return sums;
}

std::vector<NaiveAnswer> Ranked(
    const NaiveSums& sums, const std::function<double(const Labels&, const NaiveSum&)>& score) {
  std::vector<NaiveAnswer> answers;
  for (const auto& [labels, sum] : sums) {
    const double value = score(labels, sum);
    if (value > -std::numeric_limits<double>::infinity()) {
      answers.push_back({labels, value});
    }
  }
  std::sort(answers.begin(), answers.end(),
            [](const NaiveAnswer& a, const NaiveAnswer& b) { return a.score > b.score; });
  return answers;
}

}  // namespace beamwright::search::frames_testing
