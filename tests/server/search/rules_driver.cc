#include "tests/server/search/rules_driver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "gtest/gtest.h"
#include "ops/base/status.h"

namespace beamwright::search_testing {

using search::BeamSearch;
using search::RowCandidates;

constexpr float kNever = -std::numeric_limits<float>::infinity();

PlainScan ScanPlainly(std::vector<float> scores, const RowRules& rules, int count) {
  if (!rules.renormalize) {
    scores = PlainLogSoftmax(scores);
  }
  std::vector<bool> banned(scores.size(), rules.has_allowed);
  for (const int32_t token : rules.allowed) {
    banned[static_cast<size_t>(token)] = false;
  }
  for (const LogitEdit& edit : rules.edits) {
    float& x = scores.at(static_cast<size_t>(edit.token));
    switch (edit.kind) {
      case EditKind::kAdd:
        x += edit.value;
        break;
      case EditKind::kScaleBySign:
        x = x < 0 ? x * edit.value : x / edit.value;
        break;
      case EditKind::kBan:
        banned[static_cast<size_t>(edit.token)] = true;
        break;
    }
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    scores[i] = banned[i] ? kNever : scores[i] / rules.temperature;
  }
  const std::vector<float> log_probs = rules.renormalize ? PlainLogSoftmax(scores) : scores;
  std::vector<float> ranks = log_probs;
  for (const RankBonus& bonus : rules.bonuses) {
    float& rank = ranks.at(static_cast<size_t>(bonus.token));
    if (bonus.mass > 0 && rank > kNever) {
      rank = static_cast<float>(std::log(std::exp(double{rank}) + double{bonus.mass}));
    }
    rank += bonus.value;
  }
  for (size_t i = 0; i < rules.added.size(); ++i) {
    ranks[i] += rules.added[i];
  }
  const Candidates best = BestOf(ranks, count);
  PlainScan scan;
  for (size_t i = 0; i < best.tokens.size() && best.log_probs[i] > kNever; ++i) {
    scan.tokens.push_back(best.tokens[i]);
    scan.log_probs.push_back(log_probs[static_cast<size_t>(best.tokens[i])]);
    scan.rank_scores.push_back(best.log_probs[i]);
  }
  for (const int32_t token : rules.watched) {
    scan.watched.push_back(log_probs.at(static_cast<size_t>(token)));
  }
  return scan;
}

absl::StatusOr<DrivenResult> DriveRaw(const RawModel& model, const search::SearchOptions& options,
                                      int extra_candidates, const std::vector<RawModel>& scorers) {
  BW_ASSIGN_OR_RETURN(BeamSearch search, BeamSearch::Create(options));
  std::vector<std::vector<int32_t>> rows(1);
  DrivenResult result;
  while (!search.done()) {
    std::vector<PlainScan> scans;
    std::vector<search::FusedRow> fused(scorers.empty() ? 0 : rows.size());
    std::vector<RowCandidates> views;
    for (int row = 0; row < search.num_rows(); ++row) {
      const size_t r = static_cast<size_t>(row);
      RowRules rules = search.rules()[r];
      for (size_t i = 0; i < scorers.size(); ++i) {
        const std::vector<float> said = scorers[i](rows[r]);
        std::copy(said.begin(), said.end(), fused[r].Scores(i, said.size()).begin());
      }
      if (!scorers.empty()) {
        fused[r].Join(options.scorers);
        rules.added = fused[r].added();
      }
      scans.push_back(
          ScanPlainly(model(rows[r]), rules, search.candidates_per_row() + extra_candidates));
    }
    for (size_t r = 0; r < scans.size(); ++r) {
      const PlainScan& scan = scans[r];
      views.push_back({scan.tokens, scan.log_probs, scan.rank_scores, scan.watched,
                       scorers.empty() ? nullptr : &fused[r]});
    }
    BW_RETURN_IF_ERROR(search.Advance(views));
    ++result.steps;
    std::vector<std::vector<int32_t>> next;
    for (int row = 0; row < search.num_rows(); ++row) {
      const size_t r = static_cast<size_t>(row);
      next.push_back(rows.at(static_cast<size_t>(search.parents()[r])));
      next.back().push_back(search.tokens()[r]);
    }
    rows = std::move(next);
  }
  EXPECT_EQ(search.history().num_steps(), result.steps);
  const std::vector<int32_t> paths = WalkPaths(search.history());
  BW_ASSIGN_OR_RETURN(result.hypotheses, search.Collect({paths, search.num_slots()}));
  return result;
}

}  // namespace beamwright::search_testing
