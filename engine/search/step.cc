// The parts of a step that all strategies share: RowPipeline, the rules and rewards of the rows;
// Step, a row's candidates as pairs (parent row, token) with ranks; and WatchedCandidates, lists of
// candidates that also hold tokens which a caller watches.
//
// In a step BeamSearch calls MakeRules, the model scores the rows under these rules, SetCandidates
// takes the best tokens of each row, and a strategy chooses among the pairs (CollectPairs,
// TakeSorted). Advance then moves the processors' states to the rows that were chosen.
#include "engine/search/step.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/search/processor.h"
#include "ops/base/status.h"

namespace beamwright::search {

absl::Status CheckParts(const RowCandidates& row, const SearchOptions& options) {
  const auto vocabulary = static_cast<size_t>(options.vocabulary_size);
  const size_t scored = row.fused == nullptr ? 0 : row.fused->added().size();
  if (!options.scorers.empty() && scored != vocabulary) {
    return Invalid("scorers' scores of ", scored, " tokens, must be of ", vocabulary);
  }
  if (row.members.size() != static_cast<size_t>(options.num_members)) {
    return Invalid("scores of ", row.members.size(), " decoders, must be of ", options.num_members);
  }
  for (const MemberScores& member : row.members) {
    if (member.scores.size() != vocabulary) {
      return Invalid("a decoder's scores of ", member.scores.size(), " tokens, must be of ",
                     vocabulary);
    }
  }
  return absl::OkStatus();
}

// Applies all processors of a search (bans, biases, grammars, hotwords and so on) to its rows. A
// processor keeps one number for each row, its state, which Advance computes from the parent's
// state and the token.
//
// MakeRules asks each processor for its rules about the next token (Fill) and gives the caller one
// view for each row. If no processor depends on a row's tokens, all rows share one buffer, and no
// histories are kept.
//
// RankOffset, Reward, BankAfter, MayBeCut and Stops ask all processors and add up, or combine,
// their answers. CuttingOptions and MaskingOptions name options for error messages.

RowPipeline::RowPipeline(const SearchOptions& options)
    : bans_(options.banned_tokens),
      renormalize_(options.processors.renormalize),
      processors_(MakeProcessors(options)),
      masks_(processors_.size(), false) {
  Row first;
  for (const auto& processor : processors_) {
    depends_on_row_ = depends_on_row_ || processor->depends_on_row();
    gives_rewards_ = gives_rewards_ || processor->gives_rewards();
    max_gain_ += processor->max_gain();
    may_stop_ = may_stop_ || processor->may_stop();
    first.states.push_back(processor->Start());
  }
  rows_.push_back(std::move(first));
}

void RowPipeline::Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens) {
  num_rows_ = tokens.size();
  if (!depends_on_row_) {
    return;
  }
  next_rows_.resize(std::max(next_rows_.size(), num_rows_));
  for (size_t row = 0; row < num_rows_; ++row) {
    const Row& parent = rows_[static_cast<size_t>(parents[row])];
    Row& child = next_rows_[row];
    child.tokens.assign(parent.tokens.begin(), parent.tokens.end());
    child.tokens.push_back(tokens[row]);
    child.states.resize(processors_.size());
    for (size_t i = 0; i < processors_.size(); ++i) {
      child.states[i] = processors_[i]->Next(parent.states[i], tokens[row]);
    }
  }
  rows_.swap(next_rows_);
}

int64_t RowPipeline::StateOf(int row, size_t processor) const {
  // Without histories all rows are alike.
  return rows_[depends_on_row_ ? static_cast<size_t>(row) : 0].states[processor];
}

void RowPipeline::Fill(const Row& row, int num_generated, bool plain, RuleBuffer& buffer) {
  buffer.Clear();
  for (size_t i = 0; !plain && i < processors_.size(); ++i) {
    const int before = buffer.num_masks();
    processors_[i]->Apply({row.tokens, num_generated, row.states[i]}, buffer);
    masks_[i] = masks_[i] || buffer.num_masks() > before;
  }
  for (const int32_t token : bans_) {
    buffer.Exclude(token);
  }
  buffer.SetRenormalize(plain || renormalize_);
}

absl::Span<RowRules> RowPipeline::MakeRules(int num_generated, bool plain) {
  const size_t num_buffers = depends_on_row_ ? num_rows_ : 1;
  buffers_.resize(std::max(buffers_.size(), num_buffers));
  rules_.resize(num_rows_);
  std::fill(masks_.begin(), masks_.end(), false);
  for (size_t i = 0; i < num_buffers; ++i) {
    Fill(rows_[i], num_generated, plain, buffers_[i]);
  }
  for (size_t row = 0; row < num_rows_; ++row) {
    rules_[row] = buffers_[depends_on_row_ ? row : 0].View();
  }
  return absl::MakeSpan(rules_);
}

double RowPipeline::RankOffset(int row) const {
  double offset = 0;
  for (size_t i = 0; gives_rewards_ && i < processors_.size(); ++i) {
    offset += processors_[i]->RankOffset(StateOf(row, i));
  }
  return offset;
}

double RowPipeline::Reward(int row, int32_t token, float log_prob) const {
  double reward = 0;
  for (size_t i = 0; gives_rewards_ && i < processors_.size(); ++i) {
    reward += processors_[i]->Reward(StateOf(row, i), token, log_prob);
  }
  return reward;
}

int RowPipeline::BankAfter(int row, int32_t token) const {
  int bank = 0;
  for (size_t i = 0; i < processors_.size(); ++i) {
    bank += processors_[i]->Bank(processors_[i]->Next(StateOf(row, i), token));
  }
  return bank;
}

void RowPipeline::AddBankTokens(int row, std::vector<int32_t>& tokens) const {
  for (size_t i = 0; i < processors_.size(); ++i) {
    processors_[i]->AddBankTokens(StateOf(row, i), tokens);
  }
}

bool RowPipeline::MayBeCut(int row) const {
  for (size_t i = 0; depends_on_row_ && i < processors_.size(); ++i) {
    if (!processors_[i]->MayBeCut(StateOf(row, i))) {
      return false;
    }
  }
  return true;
}

bool RowPipeline::Stops(int row, int32_t token) const {
  for (size_t i = 0; may_stop_ && i < processors_.size(); ++i) {
    if (processors_[i]->may_stop() &&
        processors_[i]->Stops(processors_[i]->Next(StateOf(row, i), token))) {
      return true;
    }
  }
  return false;
}

std::string RowPipeline::CuttingOptions(int row) const {
  std::string names;
  for (size_t i = 0; i < processors_.size(); ++i) {
    if (!processors_[i]->MayBeCut(StateOf(row, i))) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", processors_[i]->option());
    }
  }
  return names;
}

std::string RowPipeline::MaskingOptions() const {
  std::string names;
  for (size_t i = 0; i < processors_.size(); ++i) {
    if (masks_[i]) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", processors_[i]->option());
    }
  }
  return names;
}

// A strict order of pairs: the higher rank first; of equal ranks the lower parent row, then the
// higher score of the token, then the lower token. No two pairs are equal in it, so that the choice
// depends on no order in which pairs arrive.
bool RanksBefore(const Pair& a, const Pair& b) {
  if (a.rank != b.rank) {
    return a.rank > b.rank;
  }
  if (a.parent != b.parent) {
    return a.parent < b.parent;
  }
  return a.rank_score != b.rank_score ? a.rank_score > b.rank_score : a.token < b.token;
}

// row.base is what all candidates of the row start from: its sum, rewards and fused scores. With an
// end threshold, best_other is the row's best token that does not end the hypothesis; IsOpen
// compares end tokens with it.
void Step::SetCandidates(absl::Span<const RowCandidates> candidates) {
  candidates_ = candidates;
  for (size_t r = 0; r < candidates.size(); ++r) {
    LiveRow& row = rows_[r];
    row.base = row.sum + row.reward + row.fused;
    if (pipeline_.gives_rewards()) {
      row.base += pipeline_.RankOffset(static_cast<int>(r));
    }
    row.best_other = kImpossible;
    for (size_t i = 0; options_.end_threshold != 0 && i < candidates[r].tokens.size(); ++i) {
      if (!IsEnd(candidates[r].tokens[i])) {
        row.best_other = std::max(row.best_other, LogProb(candidates[r], i));
      }
    }
  }
}

void Step::CollectPairs(int group, std::vector<Pair>& pairs) const {
  pairs.clear();
  for (size_t r = 0; r < candidates_.size(); ++r) {
    const LiveRow& row = rows_[r];
    if (group >= 0 && row.group >= 0 && (row.group != group || row.done)) {
      continue;
    }
    for (size_t i = 0; i < candidates_[r].tokens.size(); ++i) {
      if (IsOpen(r, i)) {
        pairs.push_back(MakePair(r, i));
      }
    }
  }
}

void TakeSorted(const Step& step, int size, int group, const std::vector<Pair>& pairs,
                Choice& choice) {
  auto next = pairs.begin();
  TakeBest(
      step, size, group,
      [&](Pair& pair) {
        if (next == pairs.end()) {
          return false;
        }
        pair = *next++;
        return true;
      },
      choice);
}

// Joined: the watched tokens of each row and its best others. Only: the watched tokens alone,
// sorted as the model's candidates are.
void WatchedCandidates::List::Add(int32_t token, float log_prob, float rank_score) {
  tokens.push_back(token);
  log_probs.push_back(log_prob);
  rank_scores.push_back(rank_score);
}

void WatchedCandidates::Start(const Step& step) {
  lists_.resize(std::max(lists_.size(), step.rows().size()));
  for (List& list : lists_) {
    list.tokens.clear();
    list.log_probs.clear();
    list.rank_scores.clear();
  }
  views_.clear();
}

void WatchedCandidates::AddWatched(const LiveRow& row, const RowCandidates& candidates,
                                   List& list) {
  for (size_t i = 0; i < row.watched.size(); ++i) {
    const int32_t token = row.watched[i];
    const float log_prob = std::min(candidates.watched[i], 0.0f);
    const float added =
        candidates.fused == nullptr ? 0 : candidates.fused->added()[static_cast<size_t>(token)];
    list.Add(token, log_prob, log_prob + added);
  }
}

void WatchedCandidates::AddOthers(const LiveRow& row, const RowCandidates& candidates, List& list) {
  for (size_t i = 0; i < candidates.tokens.size(); ++i) {
    const int32_t token = candidates.tokens[i];
    if (!std::binary_search(row.watched.begin(), row.watched.end(), token)) {
      const float log_prob = LogProb(candidates, i);
      list.Add(token, log_prob, candidates.fused == nullptr ? log_prob : RankScore(candidates, i));
    }
  }
}

void WatchedCandidates::Sort(List& list) {
  ordered_.clear();
  for (size_t i = 0; i < list.tokens.size(); ++i) {
    Pair& pair = ordered_.emplace_back();
    pair.token = list.tokens[i];
    pair.log_prob = list.log_probs[i];
    pair.rank_score = list.rank_scores[i];
  }
  std::sort(ordered_.begin(), ordered_.end(), RanksBefore);
  for (size_t i = 0; i < ordered_.size(); ++i) {
    list.tokens[i] = ordered_[i].token;
    list.log_probs[i] = ordered_[i].log_prob;
    list.rank_scores[i] = ordered_[i].rank_score;
  }
}

void WatchedCandidates::AddView(const RowCandidates& candidates, const List& list) {
  views_.push_back({list.tokens,
                    list.log_probs,
                    list.rank_scores,
                    {},
                    candidates.fused,
                    candidates.members,
                    {}});
}

absl::Span<const RowCandidates> WatchedCandidates::Joined(const Step& step) {
  Start(step);
  for (size_t r = 0; r < step.rows().size(); ++r) {
    AddWatched(step.rows()[r], step.candidates()[r], lists_[r]);
    AddOthers(step.rows()[r], step.candidates()[r], lists_[r]);
    AddView(step.candidates()[r], lists_[r]);
  }
  return views_;
}

absl::Span<const RowCandidates> WatchedCandidates::Only(const Step& step) {
  Start(step);
  for (size_t r = 0; r < step.rows().size(); ++r) {
    AddWatched(step.rows()[r], step.candidates()[r], lists_[r]);
    Sort(lists_[r]);
    AddView(step.candidates()[r], lists_[r]);
  }
  return views_;
}

}  // namespace beamwright::search
