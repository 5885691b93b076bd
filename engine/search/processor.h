// Processor: one decode option that changes what a row may choose next. It turns the row's history
// into rules for the scan over the row's scores (ops/base/row_rules.h) and never sees the scores
// themselves. Every processor is a pure function of the row's tokens, so a row's rules cannot
// depend on its neighbours.
//
// What a processor must remember of a row is one number, its state: Start() before any token,
// Next(state, token) after one more. The search carries it along as rows are continued, repeated
// and dropped. MakeProcessors builds the chain of a request, in the order that
// docs/decoding.md, 'Processors', states.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_PROCESSOR_H_
#define BEAMWRIGHT_ENGINE_SEARCH_PROCESSOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/search/options.h"
#include "ops/base/row_rules.h"

namespace beamwright::search {

// RuleBuffer: the rules of one row while processors write them, and the memory that RowRules looks
// into. Reused from step to step, so that steady steps allocate nothing.

class RuleBuffer {
 public:
  // No rules.
  void Clear();

  // x < 0 ? x * factor : x / factor, once for each distinct token.
  void ScaleBySign(absl::Span<const int32_t> tokens, float factor);
  void Add(int32_t token, float value) { edits_.push_back({token, EditKind::kAdd, value}); }
  void Ban(int32_t token);
  // A ban of the model, not of an option: the token has no share in any sum either.
  void Exclude(int32_t token);
  // Only these may be chosen, besides what earlier calls left: sets intersect. `tokens` ascending;
  // must live as long as the rules if it is the only set.
  void Allow(absl::Span<const int32_t> tokens);
  // Empty room for a set that Allow is to take. At most one for a row.
  std::vector<int32_t>& NewSet() {
    set_.clear();
    return set_;
  }
  // One more may be chosen, whatever Allow left: the blank of a search over frames. After the last
  // Allow.
  void AllowAlso(int32_t token);
  void SetTemperature(float temperature) { temperature_ = temperature; }
  // Adds `mass` to the token's probability, for its rank alone. At most once, before AddBonus.
  void AddMass(int32_t token, float mass) { bonuses_.push_back({token, 0, mass}); }
  // Adds to the token's rank. At most once for a token.
  void AddBonus(int32_t token, float value);
  void SetRenormalize(bool renormalize) { renormalize_ = renormalize; }
  // See RowRules: log-probabilities at the temperature, which masks leave alone.
  void NormaliseFirst(float temperature) {
    renormalize_ = false;
    temperature_first_ = true;
    temperature_ = temperature;
  }

  // Bans and allowed sets written so far.
  int num_masks() const { return num_masks_; }

  // Views of this buffer, until it is changed or moved.
  RowRules View() const;

  absl::Span<const LogitEdit> edits() const { return edits_; }
  bool has_allowed() const { return has_allowed_; }
  absl::Span<const int32_t> allowed() const { return allowed_; }
  absl::Span<const RankBonus> bonuses() const { return bonuses_; }

 private:
  std::vector<LogitEdit> edits_;
  int num_masks_ = 0;
  bool has_allowed_ = false;
  absl::Span<const int32_t> allowed_;
  std::vector<int32_t> set_;
  std::vector<int32_t> intersection_;
  std::vector<int32_t> scratch_;
  float temperature_ = 1;
  bool renormalize_ = true;
  bool temperature_first_ = false;
  std::vector<RankBonus> bonuses_;
};

// A row as processors see it.
struct RowView {
  absl::Span<const int32_t> tokens;  // without the begin token; starts with the target prefix
  int num_generated = 0;             // of these, behind the target prefix
  int64_t state = 0;                 // the processor's own
};

// Immutable once made, but for what it may remember of texts: one thread at a time.
class Processor {
 public:
  virtual ~Processor() = default;

  // The field of DecodeOptions that asked for it, for messages.
  virtual absl::string_view option() const = 0;
  // False: Apply gives the same rules for every row of every step.
  virtual bool depends_on_row() const { return true; }

  virtual int64_t Start() const { return 0; }
  virtual int64_t Next(int64_t state, int32_t /*token*/) const { return state; }

  // Adds to the rules for the row's next token.
  virtual void Apply(const RowView& row, RuleBuffer& rules) const = 0;

  // Whether a hypothesis in this state may be returned although no end token closes it: false for
  // one that is cut at the maximum length before it meets a constraint.
  virtual bool MayBeCut(int64_t /*state*/) const { return true; }

  // Whether a hypothesis that has come to this state ends with it, though no end token closes it.
  virtual bool Stops(int64_t /*state*/) const { return false; }
  // True: Stops may be true.
  virtual bool may_stop() const { return false; }

  // What a row in `state` gains for good by choosing `token`, whose log-probability is `log_prob`:
  // added to the sum that hypotheses are ranked and scored by, never to the log-probabilities.
  virtual double Reward(int64_t /*state*/, int32_t /*token*/, float /*log_prob*/) const {
    return 0;
  }
  // What a row in `state` ranks higher by while it stays there: part of a reward that it may earn,
  // and no part of any score. The bonuses of Apply contain it; searches over frames ask for it,
  // whose hypotheses outlive many frames without a new token.
  virtual double Promise(int64_t /*state*/) const { return 0; }
  // Appends the tokens that go on with what earns a reward and has begun already.
  virtual void AddContinuations(int64_t /*state*/, std::vector<int32_t>& /*tokens*/) const {}
  // Added to the rank of all the row's pairs in this step, in addition to the bonuses of its rules.
  virtual double RankOffset(int64_t /*state*/) const { return 0; }
  // True: Reward or RankOffset may be other than 0.
  virtual bool gives_rewards() const { return false; }
  // An upper bound of log_prob + Reward over all states and tokens; at least 0.
  virtual double max_gain() const { return 0; }

  // How much of what must occur a row in `state` has already: rows that have more do not compete
  // with rows that have less.
  virtual int Bank(int64_t /*state*/) const { return 0; }
  // Appends the tokens that change the bank otherwise than all other tokens do; the search ranks
  // them even if they are not among a row's best.
  virtual void AddBankTokens(int64_t /*state*/, std::vector<int32_t>& /*tokens*/) const {}
};

// The processors of a request, and their chain: what keeps rows' histories and states, and makes
// each step's rules. docs/decoding.md, 'Processors', defines each and their order.

// Those that the options ask for, in their order. The options must be valid.
std::vector<std::unique_ptr<const Processor>> MakeProcessors(const SearchOptions& options);

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_PROCESSOR_H_
