// The label sequences of all hypotheses of a search by frames, as a tree: a node is a sequence, its
// parent the sequence without the last label. Hypotheses share nodes, so that a step copies
// nothing, and two alignments of the same labels meet in the same node, where they can be merged.
//
// A node has, besides its label: the states of the processors and scorers after these labels, the
// sums of the scorers, and the reward and score so far. Extend makes a child, or returns it if it
// exists, and computes these from its parent (GainOfLabel). Nodes are counted by holders and freed
// when the last one goes (Drop); their places are used again.
//
// 1. Extend, Keep and Drop: the tree.
// 2. GainOf: what a label would add to a hypothesis' score, with hotwords' promise, which a later
//    label may take back.
// 3. TakeSlot and MakeRules: a node that a decoder or joiner must step gets a slot, a row of the
//    next step, with the rules for its scores.
// 4. Score: the final score of a hypothesis, with ends of the scorers and the length penalty.
//
// A LabelKey is a node plus a label that has not become a node yet; Normal gives both forms of a
// sequence the same key. OrderedBefore orders sequences by length, then by labels, so that results
// do not depend on the order of work.
#include "engine/search/frames/label_histories.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/search/frames/log_prob_row.h"
#include "engine/search/n_best_list.h"
#include "ops/base/check.h"

namespace beamwright::search {

void NodeTable::Put(const Entry& entry) {
  size_t i = Home(entry.key);
  while (entries_[i].child >= 0) {
    BW_DCHECK(entries_[i].key != entry.key);
    i = (i + 1) & Mask();
  }
  entries_[i] = entry;
}

// At most half full, so that searches end soon.
void NodeTable::Insert(int32_t node, int32_t label, int32_t child) {
  if (2 * (num_used_ + 1) > entries_.size()) {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.child >= 0) {
        Put(entry);
      }
    }
  }
  Put({Key(node, label), child});
  ++num_used_;
}

// Moves up what would no longer be found from its home (Knuth, volume 3, algorithm 6.4 R).
void NodeTable::Remove(int32_t node, int32_t label) {
  const uint64_t key = Key(node, label);
  size_t gap = Home(key);
  while (entries_[gap].child >= 0 && entries_[gap].key != key) {
    gap = (gap + 1) & Mask();
  }
  BW_DCHECK(entries_[gap].child >= 0);
  for (size_t i = (gap + 1) & Mask(); entries_[i].child >= 0; i = (i + 1) & Mask()) {
    const size_t from_home = (i - Home(entries_[i].key)) & Mask();
    const size_t from_gap = (i - gap) & Mask();
    if (from_home >= from_gap) {
      entries_[gap] = entries_[i];
      gap = i;
    }
  }
  entries_[gap].child = -1;
  --num_used_;
}

namespace {

// A scorer's log-probability as it counts: at most 0, and, if it is subtracted, at least
// kLeastSubtracted.
double Counted(float log_prob, float weight) {
  const double value = log_prob <= 0 ? log_prob : log_prob > 0 ? 0 : kLogZero;
  return weight < 0 ? std::max<double>(value, kLeastSubtracted) : value;
}

}  // namespace

LabelHistories::LabelHistories(const FramePlan& plan)
    : plan_(&plan),
      num_processors_(plan.processors().size()),
      num_states_(num_processors_ + plan.options().label_scorers.size()),
      num_sums_(plan.options().scorers.size() + plan.options().label_scorers.size()) {
  const FrameOptions& options = plan.options();
  const int32_t root = NewNode();
  BW_CHECK(root == kRoot);
  at(root).num_holders = 1;
  int64_t* state = states(root);
  for (const auto& processor : plan.processors()) {
    *state++ = processor->Start();
  }
  for (const WeightedLabelScorer& scorer : options.label_scorers) {
    *state++ = scorer.scorer->Start();
  }
  max_gain_ = std::max(0.0, options.word_reward);
  max_gain_ += plan.has_hotwords() ? 2 * plan.hotwords()->max_gain() : 0;
  for (const ScorerWeight& scorer : options.scorers) {
    max_gain_ += std::max<double>(0, scorer.weight * kLeastSubtracted);
  }
  for (const WeightedLabelScorer& scorer : options.label_scorers) {
    max_gain_ += std::max<double>(0, scorer.weight * kLeastSubtracted);
  }
}

// Nodes that were dropped are used again, so a search of any length takes as much memory as its
// hypotheses.
int32_t LabelHistories::NewNode() {
  if (!free_.empty()) {
    const int32_t node = free_.back();
    free_.pop_back();
    return node;
  }
  nodes_.emplace_back();
  states_.resize(nodes_.size() * num_states_);
  sums_.resize(nodes_.size() * num_sums_);
  free_.reserve(nodes_.capacity());
  return static_cast<int32_t>(nodes_.size()) - 1;
}

LabelKey LabelHistories::Normal(LabelKey key) const {
  if (key.label >= 0) {
    const int32_t child = Find(key.node, key.label);
    if (child != kNone) {
      return {child, -1};
    }
  }
  return key;
}

// A sequence that is in the tree already is found there and kept once more: hypotheses that reach
// it on two ways share the node. A new one gets its parent's sums with what the label adds to each,
// and the next state of every processor and label scorer.
int32_t LabelHistories::Extend(int32_t node, int32_t label, const FusedRow* fused) {
  const int32_t known = Find(node, label);
  if (known != kNone) {
    Keep(known);
    return known;
  }
  const int32_t child = NewNode();
  double* const parts = sums(child);
  const Gain gain = GainOfLabel(node, label, fused, parts);
  const double* const before = sums(node);
  for (size_t i = 0; i < num_sums_; ++i) {
    parts[i] += before[i];
  }
  const Node& parent = at(node);
  at(child) = {node,       label,       parent.depth + 1, 1, -1, parent.reward + gain.reward,
               gain.score, gain.promise};
  const int64_t* state = states(node);
  int64_t* next = states(child);
  for (const auto& processor : plan_->processors()) {
    *next++ = processor->Next(*state++, label);
  }
  for (const WeightedLabelScorer& scorer : plan_->options().label_scorers) {
    *next++ = scorer.scorer->Next(*state++, label);
  }
  Keep(node);
  children_.Insert(node, label, child);
  return child;
}

// A node goes with its last holder, and then it no longer holds its parent.
void LabelHistories::Drop(int32_t node) {
  while (node != kNone && --at(node).num_holders == 0) {
    const Node& dead = at(node);
    children_.Remove(dead.parent, dead.label);
    free_.push_back(node);
    node = dead.parent;
  }
}

void LabelHistories::AppendLabels(int32_t node, size_t skip, std::vector<int32_t>& labels) const {
  const auto first = static_cast<std::ptrdiff_t>(labels.size());
  for (; static_cast<size_t>(depth(node)) > skip; node = parent(node)) {
    labels.push_back(label(node));
  }
  std::reverse(labels.begin() + first, labels.end());
}

int32_t LabelHistories::Common(int32_t a, int32_t b) const {
  while (a != b) {
    (depth(a) >= depth(b) ? a : b) = parent(depth(a) >= depth(b) ? a : b);
  }
  return a;
}

bool LabelHistories::OrderedBefore(LabelKey a, LabelKey b) const {
  const int depth_a = depth(a.node) + (a.label >= 0 ? 1 : 0);
  const int depth_b = depth(b.node) + (b.label >= 0 ? 1 : 0);
  if (depth_a != depth_b) {
    return depth_a < depth_b;
  }
  // Goes back from the ends to where the sequences meet: the difference that is seen last is the
  // first one.
  bool before = false;
  const auto back = [this](LabelKey& key) {
    const int32_t last = key.label >= 0 ? key.label : label(key.node);
    key = {key.label >= 0 ? key.node : parent(key.node), -1};
    return last;
  };
  while (a != b) {
    const int32_t label_a = back(a);
    const int32_t label_b = back(b);
    before = label_a != label_b ? label_a < label_b : before;
  }
  return before;
}

// What a label adds to a score besides the model: the reward of words, what hotwords give and
// promise, and each scorer's weighted log-probability. Scorers of rows come first, read from
// `fused`; label scorers follow, asked with their states. `parts`, if it is not null, gets each
// scorer's unweighted share.
LabelHistories::Gain LabelHistories::GainOfLabel(int32_t node, int32_t label, const FusedRow* fused,
                                                 double* parts) const {
  const FrameOptions& options = plan_->options();
  const int64_t* const state = states(node);
  Gain gain;
  if (plan_->has_hotwords()) {
    const Hotwords& hotwords = *plan_->hotwords();
    const int64_t next = hotwords.Next(state[num_processors_ - 1], label);
    gain.reward = hotwords.Earned(next);
    gain.promise = hotwords.Promise(next);
  }
  gain.score = at(node).score + options.word_reward + gain.reward;
  for (size_t i = 0; i < num_sums_; ++i) {
    const bool with_rows = i < options.scorers.size();
    const size_t own = i - options.scorers.size();
    const float weight = with_rows ? options.scorers[i].weight : options.label_scorers[own].weight;
    const float log_prob =
        with_rows ? fused->score(i, label)
                  : options.label_scorers[own].scorer->LogProb(state[num_processors_ + own], label);
    const double part = Counted(log_prob, weight);
    gain.score += weight * part;
    if (parts != nullptr) {
      parts[i] = part;
    }
  }
  return gain;
}

double LabelHistories::GainOf(int32_t node, int32_t label, const FusedRow* fused) const {
  const Gain gain = GainOfLabel(node, label, fused, nullptr);
  return gain.score + gain.promise;
}

bool LabelHistories::MayEnd(int32_t node) const {
  if (static_cast<size_t>(depth(node)) < plan_->options().prefix.size()) {
    return false;
  }
  for (size_t i = 0; i < plan_->masks().size(); ++i) {
    if (!plan_->masks()[i]->MayBeCut(states(node)[i])) {
      return false;
    }
  }
  return true;
}

// The final score: from the model's log-probability and all sums, divided by the length penalty.
// Label scorers add the end here, because only now a sequence is known to end.
void LabelHistories::Score(int32_t node, bool ended, FrameHypothesis& hypothesis) const {
  const FrameOptions& options = plan_->options();
  hypothesis.reward = at(node).reward;
  hypothesis.scorer_sums.assign(sums(node), sums(node) + num_sums_);
  hypothesis.score = hypothesis.merged_log_prob + hypothesis.reward;
  for (size_t i = 0; i < num_sums_; ++i) {
    double& sum = hypothesis.scorer_sums[i];
    if (i < options.scorers.size()) {
      hypothesis.score += options.scorers[i].weight * sum;
      continue;
    }
    const size_t own = i - options.scorers.size();
    const WeightedLabelScorer& scorer = options.label_scorers[own];
    if (ended) {
      sum +=
          Counted(scorer.scorer->LogProbOfEnd(states(node)[num_processors_ + own]), scorer.weight);
    }
    hypothesis.score += scorer.weight * sum;
  }
  hypothesis.score += options.word_reward * depth(node);
  hypothesis.score /= LengthNorm(options.length_penalty, options.alpha, depth(node) + 1);
}

// A slot is a row of the predictor and of the language models. The step that fills it continues the
// parent's slot by one label, so a parent always has a slot before its children.
void LabelHistories::TakeSlot(int32_t node) {
  if (slot(node) >= 0) {
    return;
  }
  int32_t taken = 0;
  if (free_slots_.empty()) {
    taken = static_cast<int32_t>(rules_.size());
    rules_.emplace_back();
  } else {
    taken = free_slots_.back();
    free_slots_.pop_back();
  }
  BW_DCHECK(node == kRoot || slot(parent(node)) >= 0);
  at(node).slot = taken;
  Keep(node);
  slot_holders_.push_back(node);
  steps_.push_back({node == kRoot ? -1 : slot(parent(node)), label(node), taken});
  MakeRules(node, rules_[static_cast<size_t>(taken)]);
}

void LabelHistories::ClearSteps() {
  steps_.clear();
  free_slots_.insert(free_slots_.end(), freed_slots_.begin(), freed_slots_.end());
  freed_slots_.clear();
}

// What the options ask of a slot's row: labels that are watched although they may not be among the
// best, and, for transducers and searches with masks, which labels may follow. CTC without masks
// needs no rules of rows: what is barred is barred everywhere.
void LabelHistories::MakeRules(int32_t node, SlotRules& rules) {
  const FrameOptions& options = plan_->options();
  const bool is_ctc = options.kind == FrameKind::kCtc;
  rules.watched.clear();
  if (!is_ctc) {
    rules.watched.push_back(options.blank);
  }
  if (plan_->has_hotwords()) {
    plan_->hotwords()->AddContinuations(states(node)[num_processors_ - 1], rules.watched);
  }
  if (is_ctc && !plan_->masks_histories()) {
    return;
  }
  rules.buffer.Clear();
  const auto behind_prefix = depth(node) - static_cast<int>(options.prefix.size());
  if (behind_prefix < 0) {
    rules.buffer.Allow(
        absl::MakeConstSpan(options.prefix).subspan(static_cast<size_t>(depth(node)), 1));
  }
  scratch_.clear();
  if (plan_->reads_labels()) {
    AppendLabels(node, 0, scratch_);
  }
  for (size_t i = 0; behind_prefix >= 0 && i < plan_->masks().size(); ++i) {
    const Processor& mask = *plan_->masks()[i];
    // Without a prefix, labels that are barred everywhere are no rule of a row (open_labels).
    if (!is_ctc || mask.depends_on_row() || !options.prefix.empty()) {
      mask.Apply({scratch_, behind_prefix, states(node)[i]}, rules.buffer);
    }
  }
  if (!is_ctc) {
    rules.buffer.AllowAlso(options.blank);
    rules.buffer.NormaliseFirst(static_cast<float>(options.temperature));
  }
}

int32_t LabelTimes::Add(int32_t before, const LabelTime& time) {
  int32_t chain = 0;
  if (free_.empty()) {
    chain = static_cast<int32_t>(entries_.size());
    entries_.emplace_back();
    free_.reserve(entries_.capacity());
  } else {
    chain = free_.back();
    free_.pop_back();
  }
  Keep(before);
  at(chain) = {time, before, 1};
  return chain;
}

void LabelTimes::Drop(int32_t chain) {
  while (chain != kNone && --at(chain).num_holders == 0) {
    free_.push_back(chain);
    chain = at(chain).before;
  }
}

void LabelTimes::Append(int32_t chain, std::vector<LabelTime>& times) const {
  const auto first = static_cast<std::ptrdiff_t>(times.size());
  for (; chain != kNone; chain = entries_[static_cast<size_t>(chain)].before) {
    times.push_back(last(chain));
  }
  std::reverse(times.begin() + first, times.end());
}

// The best come first; equal scores are in the order of length and labels, so that results do not
// depend on the order of work. Of sequences that two paths have, the better one stays.
void SortAnswers(int n_best, std::vector<FrameHypothesis>& answers) {
  std::erase_if(answers, [](const FrameHypothesis& answer) { return !(answer.score > kLogZero); });
  std::stable_sort(answers.begin(), answers.end(),
                   [](const FrameHypothesis& a, const FrameHypothesis& b) {
                     if (a.score != b.score) {
                       return a.score > b.score;
                     }
                     return a.labels.size() != b.labels.size() ? a.labels.size() < b.labels.size()
                                                               : a.labels < b.labels;
                   });
  size_t kept = 0;
  for (size_t i = 0; i < answers.size() && kept < static_cast<size_t>(n_best); ++i) {
    const bool is_known = std::any_of(
        answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(kept),
        [&](const FrameHypothesis& other) { return other.labels == answers[i].labels; });
    if (!is_known) {
      std::swap(answers[kept++], answers[i]);
    }
  }
  answers.resize(kept);
}

// What all living hypotheses begin with can't change any more.
void AppendStable(const LabelHistories& histories, absl::Span<const int32_t> nodes,
                  std::vector<int32_t>& labels) {
  if (nodes.empty()) {
    return;
  }
  int32_t common = nodes[0];
  for (const int32_t node : nodes.subspan(1)) {
    common = histories.Common(common, node);
  }
  histories.AppendLabels(common, labels.size(), labels);
}

void AppendStable(absl::Span<const FrameHypothesis> answers, std::vector<int32_t>& labels) {
  if (answers.empty()) {
    return;
  }
  size_t common = answers[0].labels.size();
  for (const FrameHypothesis& answer : answers) {
    const size_t limit = std::min(common, answer.labels.size());
    common = static_cast<size_t>(
        std::mismatch(answer.labels.begin(),
                      answer.labels.begin() + static_cast<std::ptrdiff_t>(limit),
                      answers[0].labels.begin())
            .first -
        answer.labels.begin());
  }
  for (size_t i = labels.size(); i < common; ++i) {
    labels.push_back(answers[0].labels[i]);
  }
}

absl::Status NothingLeft(const FrameOptions& options, int64_t frame) {
  std::string names;
  const auto add = [&](bool is_set, absl::string_view name) {
    absl::StrAppend(&names,
                    !is_set         ? ""
                    : names.empty() ? " among those that the options leave ("
                                    : ", ",
                    is_set ? name : "");
  };
  add(!options.prefix.empty(), "target_prefix");
  add(options.allowed != nullptr, "allowed_sequences");
  add(!options.shortlist.empty(), "shortlist");
  add(!options.suppressed.empty(), "suppress_tokens");
  add(!options.suppressed_at_begin.empty(), "suppress_at_begin");
  add(!options.suppressed_sequences.empty(), "suppress_sequences");
  add(options.no_repeat_ngram > 0, "no_repeat_ngram");
  add(options.scorers.size() + options.label_scorers.size() > 0, "fusion");
  return absl::FailedPreconditionError(
      absl::StrCat("frame ", frame, ": no hypothesis can go on: the blank and every label", names,
                   names.empty() ? "" : ")", " have probability 0"));
}

}  // namespace beamwright::search
