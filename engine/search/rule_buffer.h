// RuleBuffer: the rules of one row while processors write them, and the memory that RowRules looks
// into. Reused from step to step, so that steady steps allocate nothing.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_RULE_BUFFER_H_
#define BEAMWRIGHT_ENGINE_SEARCH_RULE_BUFFER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ops/base/row_rules.h"

namespace beamwright::search {

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

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_RULE_BUFFER_H_
