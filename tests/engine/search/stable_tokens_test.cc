// Stable tokens never change, and are reported as soon as the remaining hypotheses agree.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "engine/search/beam_search.h"
#include "gtest/gtest.h"
#include "tests/engine/search/random_options.h"
#include "tests/engine/search/rules_driver.h"
#include "tests/engine/search/table_model.h"

namespace beamwright::search_testing {
namespace {

using search::BeamSearch;
using search::Hypothesis;
using search::SearchOptions;
using search::StableTokens;
using Tokens = std::vector<int32_t>;

Tokens CommonBeginning(const std::vector<Tokens>& all) {
  Tokens common = all.empty() ? Tokens() : all[0];
  for (const Tokens& tokens : all) {
    const auto [end, unused] =
        std::mismatch(common.begin(), common.end(), tokens.begin(), tokens.end());
    common.erase(end, common.end());
  }
  return common;
}

struct Watched {
  absl::StatusOr<DrivenResult> answer;
  Tokens stable;
  std::vector<Tokens> stable_after;            // each step
  std::vector<std::vector<Tokens>> live_rows;  // each step
};

Watched Watch(const RawModel& model, const SearchOptions& options, int cut_after = -1,
              const std::vector<RawModel>& scorers = {}) {
  Watched watched;
  BeamSearch search = *BeamSearch::Create(options);
  StableTokens stable;
  const auto update = [&] {
    for (const StableTokens::Piece& piece : stable.Update(search)) {
      EXPECT_EQ(piece.sample, 0);
      EXPECT_EQ(piece.position, static_cast<int>(watched.stable.size()));
      EXPECT_FALSE(piece.tokens.empty());
      watched.stable.insert(watched.stable.end(), piece.tokens.begin(), piece.tokens.end());
    }
  };
  DriveHooks hooks;
  hooks.scorers = scorers;
  hooks.weights = options.scorers;
  hooks.after_step = [&](const std::vector<Tokens>& rows) {
    update();
    watched.stable_after.push_back(watched.stable);
    watched.live_rows.push_back(rows);
    if (cut_after == search.num_steps() && search.Cut(search::FinishReason::kDeadline)) {
      update();
    }
  };
  const absl::Status status = StepRows(model, hooks, search);
  watched.answer = status.ok() ? CollectDriven(search) : absl::StatusOr<DrivenResult>(status);
  return watched;
}

// The property that clients rely on, with every option on and, in every second case, a deadline.
TEST(StableTokensTest, EveryHypothesisOfTheAnswerBeginsWithThem) {
  int answered = 0;
  int early = 0;
  for (uint64_t seed = 1; seed <= 6000 && !HasFailure(); ++seed) {
    RandomCase c = MakeRandomCase(seed, 6);
    const bool may_be_cut = seed % 2 == 0;
    c.request.options.may_be_cut = may_be_cut;
    if (!Validate(c.request.options).ok()) {
      continue;
    }
    SCOPED_TRACE(c.name);
    const Watched watched =
        Watch(c.model, c.request.options, may_be_cut ? static_cast<int>(seed / 2 % 8) : -1,
              c.request.scorers);
    if (!watched.answer.ok()) {
      continue;
    }
    ++answered;
    std::vector<Tokens> all;
    for (const Hypothesis& hypothesis : watched.answer->hypotheses) {
      all.push_back(hypothesis.tokens);
    }
    if (all.empty()) {
      continue;
    }
    EXPECT_EQ(watched.stable, CommonBeginning(all))
        << "in the end, all that they share is reported";
    const size_t before = watched.stable_after.size() < 2
                              ? 0
                              : watched.stable_after[watched.stable_after.size() - 2].size();
    early += before > 0 ? 1 : 0;
  }
  EXPECT_GT(answered, 2500);
  EXPECT_GT(early, 500);
}

// Lower bound, found without the search's history: rows and answers that agree are reported at
// once.
TEST(StableTokensTest, NothingThatAllLeftAgreeOnIsHeldBack) {
  for (uint64_t seed = 1; seed <= 500 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    const TableModel table(seed, 6, TableModel::Kind::kSoftmax);
    const RawModel model = [&](const Tokens& tokens) { return table.LogProbs(tokens, {}); };
    SearchOptions options;
    options.vocabulary_size = 6;
    options.max_length = 12;
    options.end_tokens = {};  // all run to the limit, so the live rows are all there is
    options.beam_size = random.In(1, 4);
    options.n_best = 1;
    const Watched watched = Watch(model, options);
    for (size_t step = 0; step + 1 < watched.live_rows.size(); ++step) {
      EXPECT_EQ(watched.stable_after[step], CommonBeginning(watched.live_rows[step]));
    }
  }
}

TEST(StableTokensTest, GreedySearchTellsEachTokenAtOnce) {
  const TableModel table(5, 6, TableModel::Kind::kSoftmax);
  const RawModel model = [&](const Tokens& tokens) { return table.LogProbs(tokens, {}); };
  SearchOptions options;
  options.vocabulary_size = 6;
  options.max_length = 20;
  options.end_tokens = {0};
  options.beam_size = 1;
  const Watched watched = Watch(model, options);
  for (size_t step = 0; step < watched.stable_after.size(); ++step) {
    EXPECT_EQ(watched.stable_after[step].size(), step + 1);
  }
  EXPECT_EQ(watched.stable, watched.answer->hypotheses[0].tokens);
}

TEST(StableTokensTest, TheBestSoFarIsTheAnswerOfASearchThatEndsNow) {
  for (uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const TableModel table(seed, 5, TableModel::Kind::kSoftmax);
    const RawModel model = [&](const Tokens& tokens) { return table.LogProbs(tokens, {}); };
    SearchOptions options;
    options.vocabulary_size = 5;
    options.end_tokens = {0};
    options.beam_size = 3;
    options.n_best = 2;
    options.stop = search::StopMode::kNever;
    options.length_penalty = search::LengthPenalty::kPow;
    options.max_length = 8;
    BeamSearch search = *BeamSearch::Create(options);
    std::vector<Tokens> bests;
    DriveHooks hooks;
    hooks.after_step = [&](const std::vector<Tokens>&) {
      BeamSearch::Head best;
      bests.push_back(search::BestTokensSoFar(search, best));
    };
    ASSERT_TRUE(StepRows(model, hooks, search).ok());
    for (int length = 1; length <= 8; ++length) {
      options.max_length = length;
      const auto ended = DriveRaw(model, options);
      EXPECT_EQ(bests[static_cast<size_t>(length - 1)], ended->hypotheses[0].tokens);
    }
  }
}

}  // namespace
}  // namespace beamwright::search_testing
