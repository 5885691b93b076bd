#include "ops/tensor/shape.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "ops/base/status.h"

namespace beamwright::ops {

absl::StatusOr<int64_t> CheckedNumElements(absl::Span<const int64_t> shape) {
  constexpr int64_t kMost = int64_t{1} << 48;
  int64_t count = 1;
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0) {
      return Invalid("shape ", ToString(shape), " has a negative extent");
    }
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (count > kMost / dim) {
      return Invalid("shape ", ToString(shape), " has more than 2^48 elements");
    }
    count *= dim;
  }
  return empty ? 0 : count;
}

int64_t NumElements(absl::Span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    count *= dim;
  }
  return count;
}

std::string ToString(absl::Span<const int64_t> shape) {
  return absl::StrCat("[",
                      absl::StrJoin(shape, ", ",
                                    [](std::string* out, int64_t dim) {
                                      absl::StrAppend(out, dim < 0 ? "?" : absl::StrCat(dim));
                                    }),
                      "]");
}

absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return Invalid("axis ", axis, " is outside [", -rank, ", ", rank - 1, "] of a rank-", rank,
                   " tensor");
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::StatusOr<Shape> BroadcastShapes(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape result(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1) {
      return Invalid("shapes ", ToString(a), " and ", ToString(b), " do not broadcast");
    }
    result[rank - 1 - i] = left == 1 ? right : left;
  }
  return result;
}

bool PartialShape::is_static() const {
  return has_rank_ && std::all_of(dims_.begin(), dims_.end(), [](int64_t dim) { return dim >= 0; });
}

bool PartialShape::Accepts(absl::Span<const int64_t> shape) const {
  if (!has_rank_) {
    return true;
  }
  return std::equal(dims_.begin(), dims_.end(), shape.begin(), shape.end(),
                    [](int64_t known, int64_t dim) { return known == kDynamic || known == dim; });
}

std::string PartialShape::ToString() const { return has_rank_ ? ops::ToString(dims_) : "[...]"; }

}  // namespace beamwright::ops
