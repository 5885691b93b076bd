// What a trace says of random searches, held against the scores of the model and the answer: its
// steps are replayed here with whole token sequences and no code of the search.
#include "engine/search/search_trace.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "engine/search/beam_search.h"
#include "gtest/gtest.h"
#include "tests/engine/search/random_options.h"
#include "tests/engine/search/rules_driver.h"

namespace beamwright::search_testing {
namespace {

using search::BeamSearch;
using search::Fate;
using search::Hypothesis;
using search::SearchOptions;
using search::SearchTrace;
using search::TracedCandidate;
using search::TracedRow;
using search::TracedStep;

using Tokens = std::vector<int32_t>;

class Traced {
 public:
  Traced(const RandomCase& c, int trace, int extra) : options_(c.request.options) {
    options_.trace = trace;
    absl::StatusOr<BeamSearch> search = BeamSearch::Create(options_);
    EXPECT_TRUE(search.ok());
    DriveHooks hooks;
    hooks.scorers = c.request.scorers;
    hooks.weights = options_.scorers;
    hooks.extra_candidates = extra;
    hooks.after_step = [&](const std::vector<Tokens>& rows) { rows_.push_back(rows); };
    status_ = StepRows(c.model, hooks, *search);
    if (status_.ok()) {
      result_ = *CollectDriven(*search);
      if (trace > 0) {
        steps_ = search->trace()->steps();
      }
    }
  }

  bool ok() const { return status_.ok(); }
  const SearchOptions& options() const { return options_; }
  const std::vector<Hypothesis>& hypotheses() const { return result_.hypotheses; }
  const std::vector<TracedStep>& steps() const { return steps_; }
  // Tokens of the rows after each step.
  const std::vector<std::vector<Tokens>>& rows() const { return rows_; }

 private:
  SearchOptions options_;
  absl::Status status_;
  DrivenResult result_;
  std::vector<TracedStep> steps_;
  std::vector<std::vector<Tokens>> rows_;
};

bool Ends(const SearchOptions& options, int32_t token) {
  return std::count(options.end_tokens.begin(), options.end_tokens.end(), token) > 0;
}

// The tokens of each row of a step, by the trace alone.
std::vector<Tokens> Continue(const std::vector<Tokens>& before, const TracedStep& step) {
  std::map<int, Tokens> next;
  for (const TracedCandidate& candidate : step.candidates) {
    if (candidate.fate == Fate::kKept) {
      Tokens tokens = before.at(static_cast<size_t>(candidate.row));
      tokens.push_back(candidate.token);
      EXPECT_TRUE(next.emplace(candidate.next_row, tokens).second);
    }
  }
  std::vector<Tokens> rows;
  for (const auto& [row, tokens] : next) {
    EXPECT_EQ(row, static_cast<int>(rows.size()));
    rows.push_back(tokens);
  }
  return rows;
}

void CheckRanks(const SearchOptions& options, const TracedStep& step) {
  for (const TracedCandidate& candidate : step.candidates) {
    const TracedRow& row = step.rows.at(static_cast<size_t>(candidate.row));
    const double rank = row.sum + row.reward + row.fused + row.offset +
                        static_cast<double>(candidate.rank_score) + candidate.diversity;
    EXPECT_EQ(candidate.rank, rank);
    EXPECT_TRUE(options.num_groups > 1 || candidate.diversity == 0);
  }
}

// Sorted from scratch: of all candidates of a plain beam, which live on, which end and why the
// others do not.
void CheckPlainFates(const SearchOptions& options, const TracedStep& step) {
  std::vector<const TracedCandidate*> open;
  for (const TracedCandidate& candidate : step.candidates) {
    if (candidate.place > 0) {
      open.push_back(&candidate);
    } else {
      EXPECT_TRUE(candidate.fate == Fate::kNoProbability || candidate.fate == Fate::kEndThreshold);
    }
  }
  std::sort(open.begin(), open.end(), [](const TracedCandidate* a, const TracedCandidate* b) {
    return std::make_tuple(-a->rank, a->row, -a->rank_score, a->token) <
           std::make_tuple(-b->rank, b->row, -b->rank_score, b->token);
  });
  int lived = 0;
  bool over = false;
  for (size_t i = 0; i < open.size(); ++i) {
    const TracedCandidate& own = *open[i];
    const bool ends = Ends(options, own.token);
    EXPECT_EQ(own.place, static_cast<int>(i) + 1);
    const bool far = own.rank < open[0]->rank - options.beam_threshold;
    const bool full = over || lived == options.beam_size;
    if (full) {
      EXPECT_EQ(own.fate, ends ? Fate::kEndBelowBeam : Fate::kBeam);
    } else if (far) {
      EXPECT_EQ(own.fate, Fate::kBeamThreshold);
    } else if (ends && static_cast<int>(i) >= options.beam_size) {
      EXPECT_EQ(own.fate, Fate::kEndBelowBeam);
    } else if (ends) {
      EXPECT_TRUE(own.ended);
      over = options.beam_size == 1;
    } else {
      EXPECT_TRUE(own.fate == Fate::kKept || own.fate == Fate::kStopped || own.ended ||
                  own.fate == Fate::kIncomplete);
      ++lived;
    }
  }
}

// The answer by the trace alone, as pairs of score and tokens.
std::vector<std::pair<double, Tokens>> Replay(const Traced& traced) {
  std::vector<std::pair<double, Tokens>> answers;
  std::vector<Tokens> rows = {{}};
  for (size_t s = 0; s < traced.steps().size(); ++s) {
    const TracedStep& step = traced.steps()[s];
    EXPECT_EQ(step.rows.size(), rows.size());
    for (const TracedCandidate& candidate : step.candidates) {
      if (candidate.fate == Fate::kAnswer) {
        EXPECT_TRUE(candidate.ended);
        Tokens tokens = rows.at(static_cast<size_t>(candidate.row));
        tokens.push_back(candidate.token);
        answers.push_back({candidate.score, tokens});
      }
      EXPECT_TRUE(!candidate.ended || (candidate.score >= traced.options().score_threshold) ==
                                          (candidate.fate != Fate::kScoreThreshold));
    }
    rows = Continue(rows, step);
    EXPECT_TRUE(s + 1 == traced.steps().size() || rows == traced.rows()[s]);
  }
  std::sort(answers.begin(), answers.end(), [](const auto& a, const auto& b) {
    return std::make_tuple(-a.first, a.second.size(), a.second) <
           std::make_tuple(-b.first, b.second.size(), b.second);
  });
  return answers;
}

bool IsPlain(const SearchOptions& options) {
  return options.num_groups == 1 && options.constraints.num_alternatives == 0 &&
         options.constraints.required.empty() && options.constraints.prefix.empty() &&
         options.at_limit == search::AtLimit::kCut;
}

bool Check(uint64_t seed, int sparsity) {
  const RandomCase c = MakeRandomCase(seed, sparsity);
  if (!Validate(c.request.options).ok()) {
    return false;
  }
  const Traced plain(c, 0, 0);
  const Traced traced(c, 1000, 0);
  EXPECT_EQ(plain.ok(), traced.ok());
  if (!traced.ok()) {
    return false;
  }
  const std::vector<std::pair<double, Tokens>> answers = Replay(traced);
  EXPECT_EQ(answers.size(), traced.hypotheses().size());
  EXPECT_EQ(plain.hypotheses().size(), traced.hypotheses().size());
  for (size_t i = 0; i < std::min(answers.size(), plain.hypotheses().size()); ++i) {
    EXPECT_EQ(answers[i].first, plain.hypotheses()[i].score);
    EXPECT_EQ(answers[i].second, plain.hypotheses()[i].tokens);
  }
  for (const TracedStep& step : traced.steps()) {
    EXPECT_EQ(step.num_omitted, 0);
    CheckRanks(traced.options(), step);
    if (IsPlain(traced.options())) {
      CheckPlainFates(traced.options(), step);
    }
  }
  return true;
}

TEST(SearchTraceTest, TellsWhatRandomSearchesDid) {
  int answered = 0;
  for (uint64_t seed = 1; seed <= 1500 && !HasFailure(); ++seed) {
    answered += Check(seed, seed % 3 == 0 ? 4 : 20) ? 1 : 0;
    EXPECT_FALSE(HasFailure()) << seed;
  }
  EXPECT_GT(answered, 500);
}

}  // namespace
}  // namespace beamwright::search_testing
