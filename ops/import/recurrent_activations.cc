#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/types/span.h"
#include "ops/base/status.h"
#include "ops/import/recurrent_sequence.h"

namespace beamwright::ops {

size_t NumActivations(RecurrentSequence::Cell cell) {
  return cell == RecurrentSequence::Cell::kLstm ? 3 : cell == RecurrentSequence::Cell::kGru ? 2 : 1;
}

absl::Status SetOnnxActivations(const std::vector<std::string>& names,
                                const std::vector<double>& alpha, const std::vector<double>& beta,
                                RecurrentSequence& sequence) {
  const size_t directions =
      sequence.direction == RecurrentSequence::Direction::kBidirectional ? 2 : 1;
  const size_t per_direction = NumActivations(sequence.cell);
  const size_t count = per_direction * directions;
  if (names.empty() && alpha.empty() && beta.empty()) {
    return absl::OkStatus();
  }
  if (names.size() != count) {
    return Invalid("activations: has ", names.size(), " entries; the node has ", count,
                   " activations");
  }
  const auto takes = [](const std::string& name, absl::Span<const char* const> takers) {
    return std::any_of(takers.begin(), takers.end(),
                       [&](const char* taker) { return absl::AsciiStrToLower(name) == taker; });
  };
  constexpr const char* kTakeAlpha[] = {"affine",     "leakyrelu",   "thresholdedrelu",
                                        "scaledtanh", "hardsigmoid", "elu"};
  constexpr const char* kTakeBeta[] = {"affine", "scaledtanh", "hardsigmoid"};
  size_t next_alpha = 0;
  size_t next_beta = 0;
  // A list by position ends where the file's list does: later activations take their defaults. What
  // stands at the place of an activation that takes none does not matter.
  const auto place = [](bool taken, const std::vector<double>& list, size_t& next,
                        std::vector<double>& by_position) {
    if (next < list.size()) {
      by_position.push_back(taken ? list[next++] : 0.0);
    }
  };
  sequence.activations.clear();
  for (size_t i = 0; i < count; ++i) {
    if (i % per_direction == 0) {
      sequence.activations.emplace_back();
    }
    RecurrentSequence::Activations& current = sequence.activations.back();
    current.names.push_back(names[i]);
    place(takes(names[i], kTakeAlpha), alpha, next_alpha, current.alpha);
    place(takes(names[i], kTakeBeta), beta, next_beta, current.beta);
  }
  if (next_alpha < alpha.size() || next_beta < beta.size()) {
    return Invalid("activation_alpha and activation_beta: have ", alpha.size(), " and ",
                   beta.size(), " entries; the activations take ", next_alpha, " and ", next_beta);
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
