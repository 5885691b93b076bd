// Copies a tensor with given strides into a dense one: what Transpose, Slice and others become.
//
// 1. StridedCopy merges axes that run on in memory, and drops those of extent 1.
// 2. If the last axis is contiguous in the input, whole lines are copied (Copy).
// 3. If another axis is (TurnedAxis), 32-bit elements are transposed in squares (CopyTurned), so
//    that cache lines are read and written as a whole.
//
// Elements are copied as unsigned integers of their size, so that there is one function for a size,
// not for a type.
#include "ops/kernels/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "ops/kernels/types.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright::ops {
namespace {

void TurnPlain(SquareRows from, int64_t rows, int64_t columns, uint32_t* to, int64_t to_stride) {
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      to[column * to_stride + row] = from.data[row * from.stride + column];
    }
  }
}

#if defined(__x86_64__)

// In four steps, each of which joins what two registers hold: elements of two rows, pairs of these,
// then lanes of 128 bits with four rows each.
BW_TARGET_AVX512 void TurnAvx512(SquareRows from, int64_t rows, int64_t columns, uint32_t* to,
                                 int64_t to_stride) {
  const auto mask = [](int64_t count) BW_TARGET_AVX512 BW_ALWAYS_INLINE {
    return static_cast<__mmask16>((uint32_t{1} << count) - 1);
  };
  const __mmask16 read = mask(columns);
  __m512i a[16];
  __m512i b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    a[i] = i < rows ? _mm512_maskz_loadu_epi32(read, from.data + i * from.stride)
                    : _mm512_setzero_si512();
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[4 * i] = _mm512_unpacklo_epi64(b[4 * i], b[4 * i + 2]);
    a[4 * i + 1] = _mm512_unpackhi_epi64(b[4 * i], b[4 * i + 2]);
    a[4 * i + 2] = _mm512_unpacklo_epi64(b[4 * i + 1], b[4 * i + 3]);
    a[4 * i + 3] = _mm512_unpackhi_epi64(b[4 * i + 1], b[4 * i + 3]);
  }
  // Lane k of a[4 * i + j]: rows 4 * i and on of column 4 * k + j.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    b[j] = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x88);
    b[4 + j] = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x88);
    b[8 + j] = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xdd);
    b[12 + j] = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xdd);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    a[j] = _mm512_shuffle_i32x4(b[j], b[4 + j], 0x88);
    a[8 + j] = _mm512_shuffle_i32x4(b[j], b[4 + j], 0xdd);
    a[4 + j] = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0x88);
    a[12 + j] = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0xdd);
  }
  const __mmask16 written = mask(rows);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (i < columns) {
      _mm512_mask_storeu_epi32(to + i * to_stride, written, a[i]);
    }
  }
}

#endif

}  // namespace

void TurnSquare(VectorIsa isa, SquareRows from, int64_t rows, int64_t columns, uint32_t* to,
                int64_t to_stride) {
#if defined(__x86_64__)
  if (isa == VectorIsa::kAvx512 || isa == VectorIsa::kAmx) {
    return TurnAvx512(from, rows, columns, to, to_stride);
  }
#endif
  (void)isa;
  TurnPlain(from, rows, columns, to, to_stride);
}

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

// The same where elements that lie side by side in the input are those of `axis`, not of the last
// axis: square after square of both, so that lines of the cache are read and written as a whole.
void CopyTurned(const uint32_t* in, absl::Span<const int64_t> extents,
                absl::Span<const int64_t> strides, size_t axis, uint32_t* out) {
  const VectorIsa isa = CurrentVectorIsa();
  const size_t inner = extents.size() - 1;
  Shape steps(extents.size(), 1);  // in the output
  for (size_t i = inner; i-- > 0;) {
    steps[i] = steps[i + 1] * extents[i + 1];
  }
  Shape index(extents.size(), 0);
  while (true) {
    for (int64_t row = 0; row < extents[inner]; row += kSquare) {
      for (int64_t column = 0; column < extents[axis]; column += kSquare) {
        TurnSquare(isa, {in + row * strides[inner] + column, strides[inner]},
                   std::min(kSquare, extents[inner] - row),
                   std::min(kSquare, extents[axis] - column), out + column * steps[axis] + row,
                   steps[axis]);
      }
    }
    size_t next = inner;
    while (next-- > 0) {
      if (next == axis) {
        continue;
      }
      in += strides[next];
      out += steps[next];
      if (++index[next] < extents[next]) {
        break;
      }
      in -= strides[next] * extents[next];
      out -= steps[next] * extents[next];
      index[next] = 0;
    }
    if (next == static_cast<size_t>(-1)) {
      return;
    }
  }
}

// The axis that CopyTurned exchanges with the last one; nothing if that does not pay.
std::optional<size_t> TurnedAxis(absl::Span<const int64_t> extents,
                                 absl::Span<const int64_t> strides) {
  constexpr int64_t kLeast = 4;
  if (strides.back() > 1 && extents.back() >= kLeast) {
    for (size_t axis = 0; axis + 1 < extents.size(); ++axis) {
      if (strides[axis] == 1 && extents[axis] >= kLeast) {
        return axis;
      }
    }
  }
  return std::nullopt;
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
    const T* const in = Words<T>(input) + offset;
    T* const out = MutableWords<T>(output);
    if constexpr (sizeof(T) == sizeof(uint32_t)) {
      if (const auto axis = TurnedAxis(merged_extents, merged_strides); axis.has_value()) {
        return CopyTurned(in, merged_extents, merged_strides, *axis, out);
      }
    }
    Copy(in, merged_extents, merged_strides, total, out);
  });
}

}  // namespace beamwright::ops
