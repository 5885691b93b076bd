// A beam wide enough to hold everything against plain enumeration (O1): every sequence there is,
// judged as a whole by what it must and must not contain, scored by the formula. Without
// renormalisation a mask changes no other token's log-probability, so that a sequence's sum is the
// model's.
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/search/random_options.h"
#include "tests/engine/search/rules_driver.h"
#include "tests/engine/search/table_model.h"

namespace beamwright::search_testing {
namespace {

using search::AtLimit;
using search::LengthPenalty;
using search::SearchOptions;
using Tokens = std::vector<int32_t>;

constexpr int kEnd = 0;

struct Sequence {
  Tokens tokens;  // with prefix and end token
  double sum = 0;
  double fused = 0;  // what scorers add
  double score = 0;
};

int Occurrences(const Tokens& text, const Tokens& phrase) {
  int count = 0;
  for (auto it = text.begin();; ++it, ++count) {
    it = std::search(it, text.end(), phrase.begin(), phrase.end());
    if (it == text.end()) {
      return count;
    }
  }
}

class Judge {
 public:
  explicit Judge(const NaiveRequest& request) : request_(request), options_(request.options) {}

  bool Accepts(const Tokens& tokens) const {
    const search::ProcessorOptions& p = options_.processors;
    const size_t prefix = options_.constraints.prefix.size();
    const bool ends = tokens.back() == kEnd;
    const Tokens text(tokens.begin(), tokens.end() - (ends ? 1 : 0));
    const int length = static_cast<int>(text.size() - prefix);
    for (const int32_t token : p.suppressed) {
      if (std::count(tokens.begin() + static_cast<int64_t>(prefix), tokens.end(), token) > 0) {
        return false;
      }
    }
    for (const int32_t token : p.suppressed_at_begin) {
      if (tokens[prefix] == token) {
        return false;
      }
    }
    for (const Tokens& sequence : p.suppressed_sequences) {
      if (Occurrences(tokens, sequence) > Occurrences(options_.constraints.prefix, sequence)) {
        return false;
      }
    }
    if (p.no_repeat_ngram > 0 && RepeatsNgram(tokens)) {
      return false;
    }
    for (const Tokens& required : options_.constraints.required) {
      if (Occurrences(text, required) == 0) {
        return false;
      }
    }
    const auto& entries = request_.entries;
    if (!entries.empty() && std::count(entries.begin(), entries.end(), text) == 0) {
      return false;
    }
    if (options_.at_limit == AtLimit::kForceEnd && !ends) {
      return false;
    }
    return !ends || length >= p.min_length;
  }

  double Score(const Sequence& sequence) const {
    const double n =
        static_cast<double>(sequence.tokens.size() - options_.constraints.prefix.size());
    double total = sequence.sum + sequence.fused + options_.word_reward * n;
    for (const search::Hotword& hotword : options_.constraints.hotwords) {
      total += hotword.bonus * (Occurrences(sequence.tokens, hotword.tokens) -
                                Occurrences(options_.constraints.prefix, hotword.tokens));
    }
    const double norm = options_.length_penalty == LengthPenalty::kNone  ? 1
                        : options_.length_penalty == LengthPenalty::kPow ? n
                                                                         : (5 + n) / 6;
    return total / std::pow(norm, options_.alpha);
  }

 private:
  bool RepeatsNgram(const Tokens& tokens) const {
    const auto n = static_cast<int64_t>(options_.processors.no_repeat_ngram);
    std::set<Tokens> seen;
    for (auto it = tokens.begin(); tokens.end() - it >= n; ++it) {
      if (!seen.insert(Tokens(it, it + n)).second) {
        return true;
      }
    }
    return false;
  }

  const NaiveRequest& request_;
  const SearchOptions& options_;
};

void Enumerate(const RawModel& model, const NaiveRequest& request, const Sequence& at,
               std::vector<Sequence>& all) {
  const SearchOptions& options = request.options;
  const std::vector<float> log_probs = PlainLogSoftmax(model(at.tokens));
  for (int32_t token = 0; token < options.vocabulary_size; ++token) {
    Sequence next = at;
    next.tokens.push_back(token);
    next.sum += static_cast<double>(log_probs[static_cast<size_t>(token)]);
    for (size_t i = 0; i < request.scorers.size(); ++i) {
      next.fused += double{options.scorers[i].weight} *
                    double{request.scorers[i](at.tokens)[static_cast<size_t>(token)]};
    }
    const auto generated = static_cast<int>(next.tokens.size() - options.constraints.prefix.size());
    if (token == kEnd || generated == options.max_length) {
      const Judge judge(request);
      next.score = judge.Score(next);
      if (judge.Accepts(next.tokens)) {
        all.push_back(next);
      }
    } else {
      Enumerate(model, request, next, all);
    }
  }
}

NaiveRequest RandomRequest(uint64_t seed, Random& random) {
  NaiveRequest request;
  SearchOptions& options = request.options;
  options.vocabulary_size = 4;
  options.max_length = 4;
  options.end_tokens = {kEnd};
  options.beam_size = 256;
  options.n_best = random.In(1, 20);
  options.length_penalty = static_cast<LengthPenalty>(random.In(0, 2));
  options.alpha = random.In(-4, 8) / 4.0;
  options.stop = random.OneIn(2) ? search::StopMode::kSafe : search::StopMode::kNever;
  options.processors.renormalize = false;
  const auto some = [&] { return random.OneIn(4); };
  const auto letters = [&](int least, int most) {
    Tokens tokens;
    for (int i = random.In(least, most); i > 0; --i) {
      tokens.push_back(random.In(1, 3));
    }
    return tokens;
  };
  options.word_reward = some() ? random.In(-4, 4) / 4.0 : 0;
  options.at_limit = some() ? AtLimit::kForceEnd : AtLimit::kCut;
  options.processors.min_length = some() ? random.In(1, 3) : 0;
  options.processors.no_repeat_ngram = some() ? random.In(1, 3) : 0;
  options.processors.suppressed = some() ? letters(1, 1) : Tokens();
  options.processors.suppressed_at_begin = some() ? letters(1, 2) : Tokens();
  if (some()) {
    options.processors.suppressed_sequences = {letters(2, 3), letters(2, 2)};
  }
  options.constraints.prefix = some() ? letters(1, 3) : Tokens();
  if (options.processors.no_repeat_ngram > 0) {
    options.constraints.prefix.clear();  // which may repeat an n-gram by itself
  }
  if (some()) {
    // Apart: a token counts for one of them only.
    options.constraints.required = {{1, 2}, {3}};
  } else if (some()) {
    options.constraints.hotwords = {{letters(1, 3), 0.5}, {letters(1, 2), 1.25}};
  }
  if (some()) {
    for (int i = 0; i < 30; ++i) {
      Tokens entry = options.constraints.prefix;
      const Tokens own = letters(1, 4);
      entry.insert(entry.end(), own.begin(), own.end());
      request.entries.push_back(entry);
    }
    options.constraints.allowed =
        std::make_shared<const search::TokenTrie>(request.entries, options.end_tokens);
  }
  for (int i = some() ? random.In(1, 4) : 0; i > 0; --i) {
    const TableModel table(seed + 1000 * static_cast<uint64_t>(i), 4, TableModel::Kind::kSoftmax);
    const int weight = random.In(1, 8);
    options.scorers.push_back({"", static_cast<float>(random.OneIn(3) ? -weight : weight) / 4});
    request.scorers.push_back([table](const Tokens& tokens) { return table.LogProbs(tokens, {}); });
  }
  return request;
}

TEST(ExhaustiveTest, AWideBeamFindsTheBestOfAllThatIsAllowed) {
  int answered = 0;
  for (uint64_t seed = 1; seed <= 600 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    const NaiveRequest request = RandomRequest(seed, random);
    const TableModel table(seed, 4, TableModel::Kind::kSoftmax);
    const RawModel model = [&](const Tokens& tokens) { return table.LogProbs(tokens, {}); };
    std::vector<Sequence> expected;
    Enumerate(model, request, {request.options.constraints.prefix, 0, 0, 0}, expected);
    std::sort(expected.begin(), expected.end(), [](const Sequence& a, const Sequence& b) {
      return std::make_tuple(-a.score, a.tokens.size()) <
             std::make_tuple(-b.score, b.tokens.size());
    });
    const auto actual = DriveRaw(model, request.options, 0, request.scorers);
    if (expected.empty()) {
      EXPECT_EQ(actual.status().code(), absl::StatusCode::kFailedPrecondition);
      continue;
    }
    ASSERT_TRUE(actual.ok()) << actual.status();
    const size_t count = std::min(expected.size(), static_cast<size_t>(request.options.n_best));
    ASSERT_EQ(actual->hypotheses.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(actual->hypotheses[i].tokens, expected[i].tokens);
      EXPECT_NEAR(actual->hypotheses[i].score, expected[i].score, 1e-5);
      EXPECT_NEAR(actual->hypotheses[i].sum, expected[i].sum, 1e-5);
    }
    ++answered;
  }
  EXPECT_GT(answered, 400);
}

}  // namespace
}  // namespace beamwright::search_testing
