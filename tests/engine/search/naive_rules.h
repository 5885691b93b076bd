// What the options say of single token sequences, each rule in its plainest form: what may follow,
// with which log-probability, and what a sequence is worth. The half of the oracle (naive_search.h)
// that knows no beam.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_NAIVE_RULES_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_NAIVE_RULES_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/engine/search/naive_search.h"

namespace beamwright::search_testing {

using Tokens = std::vector<int32_t>;

inline constexpr float kNever = -std::numeric_limits<float>::infinity();

Tokens With(Tokens tokens, int32_t token);

// Both arguments must outlive it. Sequences come with the target prefix; `num_generated` tokens of
// them are behind it.
class NaiveRules {
 public:
  NaiveRules(const RawModel& model, const NaiveRequest& request)
      : model_(model), request_(request), options_(request.options) {}

  bool Ends(int32_t token) const;
  // Whether the sequence is one of the allowed entries, if there are any.
  bool IsEntry(const Tokens& tokens) const;
  // Whether what the tokens behind the target prefix write is a text of the grammar (whole), or
  // begins one.
  bool IsOfGrammar(const Tokens& tokens, bool whole) const;
  // Of the required sequences: how many tokens are met, and how many there are.
  int Bank(const Tokens& tokens) const;
  int TotalRequired() const;
  // Log-probabilities of what may follow `tokens`; kNever: must not.
  std::vector<float> Distribution(const Tokens& tokens, int num_generated) const;
  // Bonuses of the hotwords that end where the tokens end.
  double Earned(const Tokens& tokens) const;
  // The most that an unfinished hotword holds out.
  double Promise(const Tokens& tokens) const;
  // Whether a stop string is in what the tokens behind the target prefix write.
  bool Stops(const Tokens& tokens) const;
  bool FollowsSoftPrefix(const Tokens& tokens) const;
  // What scorer `index` says of a token, as it counts.
  float Said(size_t index, const Tokens& tokens, int32_t token) const;
  double Score(const NaiveHypothesis& hypothesis) const;

 private:
  bool EntryMayGoOn(const Tokens& tokens, int32_t token) const;
  bool Forbidden(const Tokens& tokens, int num_generated, int32_t token) const;

  const RawModel& model_;
  const NaiveRequest& request_;
  const search::SearchOptions& options_;
};

}  // namespace beamwright::search_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_NAIVE_RULES_H_
