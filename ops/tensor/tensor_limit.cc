#include "ops/tensor/tensor_limit.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {
namespace {

thread_local int64_t limit = kMaxTensorBytes;

}  // namespace

int64_t MaxTensorBytes() { return limit; }

absl::Status TooLarge(absl::string_view what) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  int64_t most = limit;
  size_t unit = 0;
  for (; unit < 3 && most % 1024 == 0; ++unit) {
    most /= 1024;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " is larger than ", most, " ", kUnits[unit]));
}

TensorLimit::TensorLimit(int64_t bytes) : outside_(limit) { limit = std::min(limit, bytes); }

TensorLimit::~TensorLimit() { limit = outside_; }

}  // namespace beamwright::ops
