#include "tools/graph/replay.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ops/base/printable.h"
#include "ops/base/status.h"
#include "tools/graph/run.h"

namespace beamwright::ops {
namespace {

double Difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) {
    return 0;
  }
  const double difference = std::abs(a - b);
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

absl::StatusOr<Agreement> Compare(const std::string& name, const Tensor& ours,
                                  const Tensor& expected) {
  if (ours.dtype() != expected.dtype() || ours.shape() != expected.shape()) {
    return Invalid("output '", name, "' is ", Name(ours.dtype()), ToString(ours.shape()),
                   "; expected is ", Name(expected.dtype()), ToString(expected.shape()));
  }
  BW_ASSIGN_OR_RETURN(const Tensor a, Convert(ours, DType::kF64));
  BW_ASSIGN_OR_RETURN(const Tensor b, Convert(expected, DType::kF64));
  Agreement agreement;
  agreement.output = name;
  double largest = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double want = b.data<double>()[i];
    agreement.max_absolute =
        std::max(agreement.max_absolute, Difference(a.data<double>()[i], want));
    largest = std::max(largest, std::isfinite(want) ? std::abs(want) : 0);
  }
  agreement.max_relative =
      agreement.max_absolute == 0 ? 0 : agreement.max_absolute / std::max(largest, 1e-30);
  agreement.agrees =
      IsFloat(ours.dtype())
          ? agreement.max_relative <= kReplayTolerance
          : std::memcmp(ours.bytes(), expected.bytes(), static_cast<size_t>(ours.num_bytes())) == 0;
  return agreement;
}

}  // namespace

absl::StatusOr<std::vector<Agreement>> Replay(const Model& model, const TensorMap& inputs,
                                              const TensorMap& expected) {
  BW_ASSIGN_OR_RETURN(const TensorMap outputs, RunModel(model, ExecutionContext(), inputs));
  std::vector<Agreement> agreements;
  for (const auto& [name, tensor] : expected) {
    const auto ours = outputs.find(name);
    if (ours == outputs.end()) {
      std::vector<std::string> names;
      for (const auto& [known, value] : outputs) {
        names.push_back(absl::StrCat("'", known, "'"));
      }
      return Invalid("the model has no output '", name, "'; it has ", absl::StrJoin(names, ", "));
    }
    BW_ASSIGN_OR_RETURN(Agreement agreement, Compare(name, ours->second, tensor));
    agreements.push_back(std::move(agreement));
  }
  return agreements;
}

std::string ToString(const Agreement& agreement) {
  return absl::StrFormat("%s: largest difference %.2g, relative %.2g: %s",
                         Printable(agreement.output), agreement.max_absolute,
                         agreement.max_relative, agreement.agrees ? "agrees" : "DIFFERS");
}

}  // namespace beamwright::ops
