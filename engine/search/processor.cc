// RuleBuffer: what the processors of a row want of the next token. Edits of single tokens are kept
// in the order in which they were asked for. Sets of allowed tokens are intersected; a token that
// must stay possible is added to them afterwards (AllowAlso). The buffers are kept from step to
// step and grow in advance, since a step must not allocate.
#include "engine/search/processor.h"

#include <algorithm>
#include <iterator>

namespace beamwright::search {

void RuleBuffer::Clear() {
  constexpr size_t kUsualEdits = 64;  // few rows have more, and so buy memory again in later steps
  edits_.reserve(kUsualEdits);
  edits_.clear();
  num_masks_ = 0;
  has_allowed_ = false;
  allowed_ = {};
  temperature_ = 1;
  renormalize_ = true;
  temperature_first_ = false;
  bonuses_.clear();
}

// Each token once, however often the row has it.
void RuleBuffer::ScaleBySign(absl::Span<const int32_t> tokens, float factor) {
  if (scratch_.capacity() < tokens.size()) {
    // Histories grow by a token a step, and assign takes no more than it needs.
    scratch_.reserve(std::max<size_t>(64, 2 * tokens.size()));
  }
  scratch_.assign(tokens.begin(), tokens.end());
  std::sort(scratch_.begin(), scratch_.end());
  scratch_.erase(std::unique(scratch_.begin(), scratch_.end()), scratch_.end());
  for (const int32_t token : scratch_) {
    edits_.push_back({token, EditKind::kScaleBySign, factor});
  }
}

void RuleBuffer::Ban(int32_t token) {
  edits_.push_back({token, EditKind::kBan, 0});
  ++num_masks_;
}

void RuleBuffer::Exclude(int32_t token) { edits_.push_back({token, EditKind::kExclude, 0}); }

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

void RuleBuffer::AllowAlso(int32_t token) {
  if (!has_allowed_ || std::binary_search(allowed_.begin(), allowed_.end(), token)) {
    return;
  }
  scratch_.assign(allowed_.begin(), allowed_.end());
  scratch_.insert(std::upper_bound(scratch_.begin(), scratch_.end(), token), token);
  intersection_.swap(scratch_);
  allowed_ = intersection_;
}

void RuleBuffer::AddBonus(int32_t token, float value) {
  if (!bonuses_.empty() && bonuses_[0].token == token) {  // it has mass already
    bonuses_[0].value += value;
  } else {
    bonuses_.push_back({token, value, 0});
  }
}

RowRules RuleBuffer::View() const {
  RowRules rules;
  rules.edits = edits_;
  rules.has_allowed = has_allowed_;
  rules.allowed = allowed_;
  rules.temperature = temperature_;
  rules.renormalize = renormalize_;
  rules.temperature_first = temperature_first_;
  rules.bonuses = bonuses_;
  return rules;
}

}  // namespace beamwright::search
