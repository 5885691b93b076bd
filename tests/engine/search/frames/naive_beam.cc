#include "tests/engine/search/frames/naive_beam.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace beamwright::search::frames_testing {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Probabilities of long paths are too small to be added as such.
double SumOf(const std::vector<double>& logs) {
  const double largest = *std::max_element(logs.begin(), logs.end());
  if (largest == kNever) {
    return kNever;
  }
  double sum = 0;
  for (const double x : logs) {
    sum += std::exp(x - largest);
  }
  return largest + std::log(sum);
}

Labels With(Labels labels, int32_t label) {
  labels.push_back(label);
  return labels;
}

bool LabelsBefore(const Labels& a, const Labels& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

class Common {
 public:
  Common(const FrameOptions& options, const NaiveLabelRules& rules)
      : options_(options), rules_(rules) {}

  double Merged(const std::vector<double>& logs) const {
    return options_.recombine == Recombine::kSum ? SumOf(logs)
                                                 : *std::max_element(logs.begin(), logs.end());
  }
  double RankGain(const Labels& labels) const {
    return rules_.Gain(labels, false) + rules_.Promise(labels);
  }
  // Labels tried behind these in a row.
  std::vector<int32_t> Tried(const Labels& labels, const std::vector<double>& row) const {
    std::vector<int32_t> open;
    for (int32_t label = 0; label < options_.vocabulary_size; ++label) {
      if (row[static_cast<size_t>(label)] > kNever && rules_.MayFollow(labels, label)) {
        open.push_back(label);
      }
    }
    const auto value = [&](int32_t label) {
      return row[static_cast<size_t>(label)] + rules_.StartGain(label);
    };
    std::stable_sort(open.begin(), open.end(),
                     [&](int32_t a, int32_t b) { return value(a) > value(b); });
    std::vector<int32_t> tried;
    const int usual =
        options_.kind == FrameKind::kCtc ? options_.vocabulary_size : options_.beam_size;
    const auto count = static_cast<size_t>(options_.expansion > 0 ? options_.expansion : usual);
    for (size_t i = 0; i < open.size(); ++i) {
      if (i < count || rules_.GoesOn(labels, open[i])) {
        tried.push_back(open[i]);
      }
    }
    return tried;
  }
  std::vector<NaiveBeamAnswer> Listed(std::vector<NaiveBeamAnswer> answers) const {
    std::erase_if(answers, [&](NaiveBeamAnswer& answer) {
      const double n = static_cast<double>(answer.labels.size()) + 1;
      const double norm = options_.length_penalty == LengthPenalty::kPow ? n : (5 + n) / 6;
      answer.score = answer.mass + rules_.Gain(answer.labels, true);
      if (options_.length_penalty != LengthPenalty::kNone) {
        answer.score /= std::exp(options_.alpha * std::log(norm));
      }
      return !rules_.MayEnd(answer.labels) || answer.score == kNever;
    });
    std::sort(answers.begin(), answers.end(),
              [](const NaiveBeamAnswer& a, const NaiveBeamAnswer& b) {
                return a.score != b.score ? a.score > b.score : LabelsBefore(a.labels, b.labels);
              });
    answers.resize(std::min(answers.size(), static_cast<size_t>(options_.n_best)));
    return answers;
  }

 protected:
  const FrameOptions& options_;
  const NaiveLabelRules& rules_;
};

class CtcBeam : public Common {
 public:
  using Common::Common;

  std::vector<NaiveBeamAnswer> Run(const CtcTable& table) {
    beam_ = {{{}, {0, kNever, 0, kNever}}};
    for (const std::vector<float>& frame : table) {
      Step(rules_.Row(frame));
    }
    std::vector<NaiveBeamAnswer> answers;
    for (const auto& [labels, path] : beam_) {
      answers.push_back({labels, Merged({path.blank, path.label}),
                         std::max(path.best_blank, path.best_label), 0});
    }
    return Listed(answers);
  }

 private:
  struct Path {
    double blank = kNever;
    double label = kNever;
    double best_blank = kNever;
    double best_label = kNever;
  };

  void Step(const std::vector<double>& row) {
    std::map<Labels, Path> next;
    const double blank = row[static_cast<size_t>(options_.blank)];
    for (const auto& [labels, path] : beam_) {
      Path& same = next[labels];
      same.blank = Merged({path.blank, path.label}) + blank;
      same.best_blank = std::max(path.best_blank, path.best_label) + blank;
      if (!labels.empty()) {
        const double repeat = row[static_cast<size_t>(labels.back())];
        same.label = Merged({same.label, path.label + repeat});
        same.best_label = std::max(same.best_label, path.best_label + repeat);
      }
      for (const int32_t label : Tried(labels, row)) {
        const double here = row[static_cast<size_t>(label)];
        const bool repeats = !labels.empty() && labels.back() == label;
        Path& longer = next[With(labels, label)];
        longer.label = Merged(
            {longer.label, (repeats ? path.blank : Merged({path.blank, path.label})) + here});
        longer.best_label = std::max(
            longer.best_label,
            (repeats ? path.best_blank : std::max(path.best_blank, path.best_label)) + here);
      }
    }
    Keep(next);
  }

  void Keep(const std::map<Labels, Path>& next) {
    std::vector<std::pair<double, Labels>> ranked;
    for (const auto& [labels, path] : next) {
      const double rank = Merged({path.blank, path.label}) + RankGain(labels);
      if (rank > kNever) {
        ranked.push_back({rank, labels});
      }
    }
    std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : LabelsBefore(a.second, b.second);
    });
    beam_.clear();
    for (size_t i = 0; i < ranked.size() && i < static_cast<size_t>(options_.beam_size); ++i) {
      if (options_.frame_beam == 0 || ranked[i].first >= ranked[0].first - options_.frame_beam) {
        beam_[ranked[i].second] = next.at(ranked[i].second);
      }
    }
  }

  std::map<Labels, Path> beam_;
};

class TransducerBeam : public Common {
 public:
  TransducerBeam(const FrameOptions& options, const NaiveLabelRules& rules, const Joiner& joiner,
                 int64_t num_frames)
      : Common(options, rules), joiner_(joiner), num_frames_(num_frames) {}

  std::vector<NaiveBeamAnswer> Run() {
    const Hypothesis start = {{}, 0, 0, 0, 0};
    const bool starts_over = !options_.alignment_length_synchronous || num_frames_ == 0;
    (starts_over ? waiting_ : active_).push_back(start);
    while (options_.alignment_length_synchronous && !active_.empty()) {
      Round(false);
    }
    while (!options_.alignment_length_synchronous && StartFrame()) {
      for (in_frame_ = 0; !active_.empty(); ++in_frame_) {
        Round(in_frame_ + 1 == options_.max_symbols_per_frame);
      }
      DropFarBelow();
    }
    return Answers();
  }

 private:
  struct Hypothesis {
    Labels labels;
    int64_t frame;
    double mass;
    double best;
    double rank;
  };

  bool StartFrame() {
    if (waiting_.empty()) {
      return false;
    }
    frame_ =
        std::min_element(waiting_.begin(), waiting_.end(),
                         [](const Hypothesis& a, const Hypothesis& b) { return a.frame < b.frame; })
            ->frame;
    if (frame_ >= num_frames_) {
      return false;
    }
    std::vector<Hypothesis> later;
    active_.clear();
    for (const Hypothesis& hypothesis : waiting_) {
      (hypothesis.frame == frame_ ? active_ : later).push_back(hypothesis);
    }
    waiting_ = later;
    return true;
  }

  void Emit(const Hypothesis& from, const std::vector<double>& row,
            const std::vector<float>& durations, bool is_last, std::vector<Hypothesis>& pool) {
    const auto add = [&](const Labels& labels, int64_t frames, double log_prob) {
      // All frames behind the last one are the end, except in greedy search.
      const int64_t frame = from.frame + frames;
      pool.push_back({labels, options_.beam_size > 1 ? std::min(frame, num_frames_) : frame,
                      from.mass + log_prob, from.best + log_prob, 0});
    };
    const double blank = row[static_cast<size_t>(options_.blank)];
    const std::vector<int32_t> tried = Tried(from.labels, row);
    if (options_.durations.empty()) {
      add(from.labels, 1, blank);
      for (const int32_t label : tried) {
        add(With(from.labels, label), is_last ? 1 : 0, row[static_cast<size_t>(label)]);
      }
      return;
    }
    for (size_t i = 0; i < options_.durations.size(); ++i) {
      const int frames = options_.durations[i];
      add(from.labels, std::max(1, frames), blank + durations[i]);
      for (const int32_t label : tried) {
        add(With(from.labels, label), is_last ? std::max(1, frames) : frames,
            row[static_cast<size_t>(label)] + durations[i]);
      }
    }
  }

  void Round(bool is_last) {
    std::vector<Hypothesis> pool = waiting_;
    for (const Hypothesis& hypothesis : active_) {
      const NaiveRow row = joiner_(hypothesis.frame, hypothesis.labels);
      Emit(hypothesis, rules_.Row(row.log_probs), row.duration_log_probs, is_last, pool);
    }
    pool = Recombined(pool);
    std::erase_if(pool, [&](Hypothesis& hypothesis) {
      hypothesis.rank = hypothesis.mass + RankGain(hypothesis.labels);
      return hypothesis.rank == kNever;
    });
    const bool synchronous = options_.alignment_length_synchronous;
    active_.clear();
    waiting_.clear();
    for (size_t i = 0; i < pool.size(); ++i) {
      int num_above = 0;
      for (size_t j = 0; j < pool.size(); ++j) {
        const bool competes =
            synchronous || options_.beam_size == 1 || pool[j].frame >= pool[i].frame;
        num_above += j != i && competes && IsAbove(pool[j], j, pool[i], i) ? 1 : 0;
      }
      if (num_above < options_.beam_size) {
        const bool goes_on = synchronous ? pool[i].frame < num_frames_ : pool[i].frame == frame_;
        (goes_on ? active_ : waiting_).push_back(pool[i]);
      }
    }
  }

  static bool IsAbove(const Hypothesis& a, size_t i, const Hypothesis& b, size_t j) {
    if (a.rank != b.rank) {
      return a.rank > b.rank;
    }
    if (a.labels != b.labels) {
      return LabelsBefore(a.labels, b.labels);
    }
    return a.frame != b.frame ? a.frame > b.frame : i < j;
  }

  std::vector<Hypothesis> Recombined(const std::vector<Hypothesis>& pool) const {
    if (options_.recombine == Recombine::kNone) {
      return pool;
    }
    std::map<std::pair<Labels, int64_t>, std::vector<Hypothesis>> groups;
    for (const Hypothesis& hypothesis : pool) {
      groups[{hypothesis.labels, hypothesis.frame}].push_back(hypothesis);
    }
    std::vector<Hypothesis> merged;
    for (const auto& [key, group] : groups) {
      merged.push_back(Joined(group));
    }
    return merged;
  }

  Hypothesis Joined(const std::vector<Hypothesis>& group) const {
    std::vector<double> masses;
    Hypothesis joined = group[0];
    for (const Hypothesis& hypothesis : group) {
      masses.push_back(hypothesis.mass);
      joined.best = std::max(joined.best, hypothesis.best);
    }
    joined.mass = Merged(masses);
    return joined;
  }

  void DropFarBelow() {
    double best = kNever;
    for (const Hypothesis& hypothesis : waiting_) {
      best = std::max(best, hypothesis.rank);
    }
    std::erase_if(waiting_, [&](const Hypothesis& hypothesis) {
      return options_.frame_beam > 0 && hypothesis.rank < best - options_.frame_beam;
    });
  }

  std::vector<NaiveBeamAnswer> Answers() const {
    std::map<Labels, std::vector<Hypothesis>> groups;
    for (const Hypothesis& hypothesis : waiting_) {
      groups[hypothesis.labels].push_back(hypothesis);
    }
    std::vector<NaiveBeamAnswer> answers;
    for (const auto& [labels, group] : groups) {
      const Hypothesis joined = Joined(group);
      answers.push_back({labels, joined.mass, joined.best, 0});
    }
    return Listed(answers);
  }

  const Joiner& joiner_;
  int64_t num_frames_;
  int64_t frame_ = 0;
  int in_frame_ = 0;
  std::vector<Hypothesis> active_;
  std::vector<Hypothesis> waiting_;
};

}  // namespace

std::vector<NaiveBeamAnswer> NaiveCtcBeam(const FrameOptions& options, const NaiveLabelRules& rules,
                                          const CtcTable& table) {
  return CtcBeam(options, rules).Run(table);
}

std::vector<NaiveBeamAnswer> NaiveTransducerBeam(const FrameOptions& options,
                                                 const NaiveLabelRules& rules, const Joiner& joiner,
                                                 int64_t num_frames) {
  return TransducerBeam(options, rules, joiner, num_frames).Run();
}

}  // namespace beamwright::search::frames_testing
