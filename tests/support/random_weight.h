// Weights of random graphs.
#ifndef BEAMWRIGHT_TESTS_SUPPORT_RANDOM_WEIGHT_H_
#define BEAMWRIGHT_TESTS_SUPPORT_RANDOM_WEIGHT_H_

#include <cmath>
#include <random>

#include "ops/tensor/tensor.h"

namespace beamwright::testing_support {

// Of f32, so small that sums over the last axis stay where activations are not flat.
inline ops::Tensor RandomWeight(const ops::Shape& shape, std::mt19937& random) {
  ops::Tensor tensor(ops::DType::kF32, shape);
  const float size = 1.5f / std::sqrt(static_cast<float>(shape.back()));
  std::uniform_real_distribution<float> value(-size, size);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = value(random);
  }
  return tensor;
}

}  // namespace beamwright::testing_support

#endif  // BEAMWRIGHT_TESTS_SUPPORT_RANDOM_WEIGHT_H_
