// The scores of one frame, as searches and scorers read them. LogProbRow applies the temperature (a
// softmax over score / temperature, whose normaliser is computed once) and the blank penalty: the
// blank loses the penalty, and the row is normalised again (BlankPenaltyShift).
#include "engine/search/frames/log_prob_row.h"

#include "engine/search/row_search.h"
#include "ops/base/status.h"

namespace beamwright::search {

double BlankPenaltyShift(double blank_log_prob, double penalty) {
  if (penalty == 0) {
    return 0;
  }
  // log((1 - p) + p e^-penalty)
  return LogAdd(std::log(-std::expm1(blank_log_prob)), blank_log_prob - penalty);
}

absl::Status LogProbRow::Check(const FrameOptions& options, absl::Span<const float> values,
                               int64_t frame) {
  if (values.size() != static_cast<size_t>(options.vocabulary_size)) {
    return Invalid("frame ", frame, ": ", values.size(), " values, the vocabulary has ",
                   options.vocabulary_size);
  }
  const float most = options.temperature == 1 ? kRoundedUp : std::numeric_limits<float>::max();
  int num_bad = 0;
  for (const float value : values) {
    num_bad += value <= most ? 0 : 1;  // NaN is counted
  }
  for (size_t i = 0; num_bad > 0 && i < values.size(); ++i) {
    if (!(values[i] <= most)) {
      return Invalid("frame ", frame, ", token ", i, ": ", values[i],
                     options.temperature == 1 ? " is not a log-probability, which is at most 0"
                                              : " is not a number below infinity");
    }
  }
  return absl::OkStatus();
}

LogProbRow::LogProbRow(const FrameOptions& options, absl::Span<const float> values)
    : values_(values), temperature_(options.temperature), is_tempered_(options.temperature != 1) {
  if (is_tempered_) {
    const double largest = *std::max_element(values.begin(), values.end());
    if (largest > -std::numeric_limits<double>::infinity()) {
      double sum = 0;
      for (const float value : values) {
        sum += std::exp((value - largest) / temperature_);
      }
      log_sum_exp_ = largest / temperature_ + std::log(sum);
    }
  }
  const double blank = Tempered(options.blank);
  shift_ = BlankPenaltyShift(blank, options.blank_penalty);
  blank_ = blank - options.blank_penalty - shift_;
}

// Ranks the labels of one frame once for all hypotheses, as these share the frame's scores, and
// gives the labels that a hypothesis tries (Tried).
//
// 1. Rank selects the best open labels (Select): as many as are expanded, and more in case that
//    some are banned.
// 2. A hypothesis without rules tries those. With banned labels it takes the next ones instead;
//    with a list of allowed labels it selects among these (TryMasked).
// 3. Labels that go on with a phrase or a word are added, whatever their score (TryContinuations).

namespace {

bool Bans(const RuleBuffer& rules, int32_t label) {
  return std::any_of(rules.edits().begin(), rules.edits().end(),
                     [=](const LogitEdit& edit) { return edit.token == label; });
}

}  // namespace

RankedLabels::RankedLabels(const FramePlan& plan)
    : plan_(&plan),
      tries_all_(plan.options().num_expanded() == plan.options().vocabulary_size - 1),
      is_open_(static_cast<size_t>(plan.options().vocabulary_size), false) {
  for (const int32_t label : plan.open_labels()) {
    is_open_[static_cast<size_t>(label)] = true;
  }
}

// A heap whose top is the worst of the best: most labels of a frame are only compared with it.
void RankedLabels::Select(absl::Span<const int32_t> labels, size_t count,
                          std::vector<Ranked>& best) {
  const absl::Span<const float> gains = plan_->start_gains();
  best.clear();
  if (tries_all_) {
    for (const int32_t label : labels) {
      const double value = row_->label(label);
      if (value >= least_ && value > kLogZero) {
        best.push_back({value, label});
      }
    }
    return;
  }
  double worst = kLogZero;
  for (const int32_t label : labels) {
    const double gain = gains.empty() ? 0.0 : gains[static_cast<size_t>(label)];
    const double value = row_->label(label) + gain;
    if (value < worst || value == kLogZero) {
      continue;
    }
    const Ranked ranked = {value, label};
    if (best.size() < count) {
      best.push_back(ranked);
      std::push_heap(best.begin(), best.end(), Better);
    } else if (Better(ranked, best.front())) {
      std::pop_heap(best.begin(), best.end(), Better);
      best.back() = ranked;
      std::push_heap(best.begin(), best.end(), Better);
    }
    worst = best.size() < count ? kLogZero : best.front().value;
  }
}

void RankedLabels::Rank(const LogProbRow& row, size_t most_bans, double least) {
  row_ = &row;
  least_ = least;
  const auto count = static_cast<size_t>(plan_->options().num_expanded());
  Select(plan_->open_labels(), count + most_bans, frame_);
  std::sort(frame_.begin(), frame_.end(), Better);
  frame_labels_.clear();
  for (size_t i = 0; i < std::min(count, frame_.size()); ++i) {
    frame_labels_.push_back(frame_[i].label);
  }
}

absl::Span<const int32_t> RankedLabels::Tried(const LabelHistories& histories, int32_t node) {
  const RuleBuffer* rules = plan_->masks_histories() ? &histories.rules(node) : nullptr;
  const absl::Span<const int32_t> continuations = histories.continuations(node);
  if (rules == nullptr && continuations.empty()) {
    return frame_labels_;
  }
  if (rules == nullptr) {
    tried_.assign(frame_labels_.begin(), frame_labels_.end());
  } else {
    TryMasked(*rules);
  }
  TryContinuations(continuations, rules);
  return tried_;
}

void RankedLabels::TryMasked(const RuleBuffer& rules) {
  const auto count = static_cast<size_t>(plan_->options().num_expanded());
  tried_.clear();
  if (!rules.has_allowed()) {
    for (size_t i = 0; i < frame_.size() && tried_.size() < count; ++i) {
      if (!Bans(rules, frame_[i].label)) {
        tried_.push_back(frame_[i].label);
      }
    }
    return;
  }
  allowed_.clear();
  for (const int32_t label : rules.allowed()) {
    if (IsOpen(label) && !Bans(rules, label)) {
      allowed_.push_back(label);
    }
  }
  Select(allowed_, count, own_);
  for (const Ranked& ranked : own_) {
    tried_.push_back(ranked.label);
  }
}

void RankedLabels::TryContinuations(absl::Span<const int32_t> labels, const RuleBuffer* rules) {
  for (const int32_t label : labels) {
    const bool is_barred =
        !IsOpen(label) ||
        (rules != nullptr &&
         (Bans(*rules, label) ||
          (rules->has_allowed() &&
           !std::binary_search(rules->allowed().begin(), rules->allowed().end(), label))));
    if (!is_barred && std::find(tried_.begin(), tried_.end(), label) == tried_.end()) {
      tried_.push_back(label);
    }
  }
}

}  // namespace beamwright::search
