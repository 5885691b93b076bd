// Matrices that a thread keeps from step to step, so that steady steps allocate nothing. Private to
// ops/kernels.
#ifndef BEAMWRIGHT_OPS_KERNELS_THREAD_MATRIX_H_
#define BEAMWRIGHT_OPS_KERNELS_THREAD_MATRIX_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/tensor/matrix.h"

namespace beamwright::ops {

// [rows, columns] in memory of the calling thread, of any content; valid until the thread asks for
// the same matrix again. Owner, a type of the caller, and kSlot distinguish matrices that are in
// use at once.
template <typename Owner, int kSlot>
Matrix<float> ThreadMatrix(int64_t rows, int64_t columns) {
  static thread_local std::vector<float> memory;
  memory.resize(std::max(memory.size(), static_cast<size_t>(rows * columns)));
  return {memory.data(), rows, columns, columns};
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_THREAD_MATRIX_H_
