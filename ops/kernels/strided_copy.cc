#include "ops/kernels/strided_copy.h"

#include <cstring>

#include "ops/kernels/types.h"

namespace beamwright::ops {
namespace {

// T: an unsigned integer of the element's size.
template <typename T>
void Copy(const T* in, absl::Span<const int64_t> extents, absl::Span<const int64_t> strides,
          int64_t total, T* out) {
  const size_t inner = extents.size() - 1;
  const int64_t count = extents[inner];
  const int64_t stride = strides[inner];
  Shape index(extents.size(), 0);
  for (int64_t done = 0; done < total; done += count) {
    if (stride == 1) {
      std::memcpy(out + done, in, static_cast<size_t>(count) * sizeof(T));
    } else {
      for (int64_t i = 0; i < count; ++i) {
        out[done + i] = in[i * stride];
      }
    }
    for (size_t axis = inner; axis-- > 0;) {
      in += strides[axis];
      if (++index[axis] < extents[axis]) {
        break;
      }
      in -= strides[axis] * extents[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

void StridedCopy(const Tensor& input, int64_t offset, absl::Span<const int64_t> extents,
                 absl::Span<const int64_t> strides, Tensor& output) {
  const int64_t total = output.num_elements();
  if (total == 0) {
    return;
  }
  // Merge axes that run on, and drop those of extent 1.
  Shape merged_extents;
  Shape merged_strides;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] == 1) {
      continue;
    }
    if (!merged_extents.empty() && merged_strides.back() == strides[axis] * extents[axis]) {
      merged_extents.back() *= extents[axis];
      merged_strides.back() = strides[axis];
    } else {
      merged_extents.push_back(extents[axis]);
      merged_strides.push_back(strides[axis]);
    }
  }
  if (merged_extents.empty()) {
    merged_extents.push_back(1);
    merged_strides.push_back(1);
  }
  VisitWord(input.dtype(), [&](auto type) {
    using T = decltype(type);
    Copy(Words<T>(input) + offset, merged_extents, merged_strides, total, MutableWords<T>(output));
  });
}

}  // namespace beamwright::ops
