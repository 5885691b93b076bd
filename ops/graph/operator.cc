// The set of operators by name, and RowFamilies: rows of a step that continue the same parent are a
// family. Assign groups them by counting, in time proportional to the rows, and notes whether
// families are already in order, so that kernels can read the rows without an index.
#include "ops/graph/operator.h"

#include <algorithm>

#include "ops/base/check.h"

namespace beamwright::ops {

OperatorSet::OperatorSet(std::vector<Operator> operators) : operators_(std::move(operators)) {
  for (size_t i = 0; i < operators_.size(); ++i) {
    BW_CHECK(by_name_.emplace(std::string(operators_[i].name), i).second);
  }
}

const Operator* OperatorSet::Find(absl::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &operators_[it->second];
}

void RowFamilies::Assign(absl::Span<const int32_t> parents) {
  parents_.clear();
  firsts_.assign(1, 0);
  family_of_row_.clear();
  const int32_t most = parents.empty() ? -1 : *std::max_element(parents.begin(), parents.end());
  family_of_parent_.assign(static_cast<size_t>(most + 1), -1);
  in_order_ = true;
  for (const int32_t parent : parents) {
    int32_t& family = family_of_parent_[static_cast<size_t>(parent)];
    if (family < 0) {
      family = num_families();
      parents_.push_back(parent);
      firsts_.push_back(0);
    }
    in_order_ = in_order_ && family + 1 == num_families();
    family_of_row_.push_back(family);
    ++firsts_[static_cast<size_t>(family) + 1];
  }
  for (size_t family = 1; family < firsts_.size(); ++family) {
    firsts_[family] += firsts_[family - 1];
  }
  rows_.resize(parents.size());
  // Each family's place moves on as its rows are entered, and ends at the next family's.
  for (size_t row = 0; row < parents.size(); ++row) {
    int32_t& place = firsts_[static_cast<size_t>(family_of_row_[row])];
    rows_[static_cast<size_t>(place++)] = static_cast<int32_t>(row);
  }
  for (size_t family = firsts_.size() - 1; family > 0; --family) {
    firsts_[family] = firsts_[family - 1];
  }
  firsts_[0] = 0;
}

}  // namespace beamwright::ops
