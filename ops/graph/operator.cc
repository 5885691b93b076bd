#include "ops/graph/operator.h"

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

}  // namespace beamwright::ops
