#include "server/search/rule_buffer.h"

#include <algorithm>
#include <iterator>

namespace beamwright::search {

void RuleBuffer::Clear() {
  edits_.clear();
  num_masks_ = 0;
  has_allowed_ = false;
  allowed_ = {};
  temperature_ = 1;
  renormalize_ = true;
  bonuses_.clear();
}

void RuleBuffer::ScaleBySign(int32_t token, float factor) {
  edits_.push_back({token, EditKind::kScaleBySign, factor});
}

void RuleBuffer::Ban(int32_t token) {
  edits_.push_back({token, EditKind::kBan, 0});
  ++num_masks_;
}

void RuleBuffer::Allow(absl::Span<const int32_t> tokens) {
  ++num_masks_;
  if (!has_allowed_) {
    has_allowed_ = true;
    allowed_ = tokens;
    return;
  }
  scratch_.clear();
  std::set_intersection(allowed_.begin(), allowed_.end(), tokens.begin(), tokens.end(),
                        std::back_inserter(scratch_));
  intersection_.swap(scratch_);
  allowed_ = intersection_;
}

RankBonus& RuleBuffer::BonusOf(int32_t token) {
  const auto it = std::find_if(bonuses_.begin(), bonuses_.end(),
                               [&](const RankBonus& bonus) { return bonus.token == token; });
  return it != bonuses_.end() ? *it : bonuses_.emplace_back(RankBonus{token, 0, 0});
}

void RuleBuffer::AddBonus(int32_t token, float value) { BonusOf(token).value += value; }

void RuleBuffer::AddMass(int32_t token, float mass) { BonusOf(token).mass += mass; }

RowRules RuleBuffer::View() const {
  RowRules rules;
  rules.edits = edits_;
  rules.has_allowed = has_allowed_;
  rules.allowed = allowed_;
  rules.temperature = temperature_;
  rules.renormalize = renormalize_;
  rules.bonuses = bonuses_;
  return rules;
}

}  // namespace beamwright::search
