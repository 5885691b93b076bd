#include "tests/engine/search/rules_driver.h"

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
  for (const LogitEdit& edit : rules.edits) {
    if (edit.kind == EditKind::kExclude) {
      scores.at(static_cast<size_t>(edit.token)) = kNever;
    }
  }
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
      case EditKind::kExclude:
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

absl::Status StepRows(const RawModel& model, const DriveHooks& hooks, search::RowSearch& search) {
  std::vector<std::vector<int32_t>> rows(1);
  while (!search.done()) {
    std::vector<PlainScan> scans;
    std::vector<std::vector<float>> attention;
    std::vector<search::FusedRow> fused(hooks.scorers.empty() ? 0 : rows.size());
    std::vector<RowCandidates> views;
    for (int row = 0; row < search.num_rows(); ++row) {
      const size_t r = static_cast<size_t>(row);
      RowRules rules = search.rules()[r];
      for (size_t i = 0; i < hooks.scorers.size(); ++i) {
        const std::vector<float> said = hooks.scorers[i](rows[r]);
        std::copy(said.begin(), said.end(), fused[r].Scores(i, said.size()).begin());
      }
      if (!hooks.scorers.empty()) {
        fused[r].Join(hooks.weights);
        rules.added = fused[r].added();
      }
      scans.push_back(
          ScanPlainly(model(rows[r]), rules, search.candidates_per_row() + hooks.extra_candidates));
      attention.push_back(hooks.attention ? hooks.attention(rows[r]) : std::vector<float>());
    }
    for (size_t r = 0; r < scans.size(); ++r) {
      const PlainScan& scan = scans[r];
      views.push_back({scan.tokens,
                       scan.log_probs,
                       scan.rank_scores,
                       scan.watched,
                       fused.empty() ? nullptr : &fused[r],
                       {},
                       attention[r]});
    }
    BW_RETURN_IF_ERROR(search.Advance(views));
    std::vector<std::vector<int32_t>> next;
    for (int row = 0; row < search.num_rows(); ++row) {
      const size_t r = static_cast<size_t>(row);
      next.push_back(rows.at(static_cast<size_t>(search.parents()[r])));
      next.back().push_back(search.tokens()[r]);
    }
    rows = std::move(next);
    if (hooks.after_step) {
      hooks.after_step(rows);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<DrivenResult> DriveRaw(const RawModel& model, const search::SearchOptions& options,
                                      int extra_candidates, const std::vector<RawModel>& scorers) {
  BW_ASSIGN_OR_RETURN(BeamSearch search, BeamSearch::Create(options));
  DriveHooks hooks;
  hooks.extra_candidates = extra_candidates;
  hooks.scorers = scorers;
  hooks.weights = options.scorers;
  BW_RETURN_IF_ERROR(StepRows(model, hooks, search));
  return CollectDriven(search);
}

absl::StatusOr<DrivenResult> CollectDriven(const BeamSearch& search) {
  DrivenResult result;
  result.steps = search.history().num_steps();
  const std::vector<int32_t> paths = WalkPaths(search.history());
  BW_ASSIGN_OR_RETURN(result.hypotheses, search.Collect({paths, search.num_slots()}));
  return result;
}

}  // namespace beamwright::search_testing
