// The ONNX node test vectors that the distribution ships (libonnx-testdata): tensors and the
// attributes of the one node, read by a small protobuf wire reader of our own.
#ifndef BEAMWRIGHT_TESTS_OPS_KERNELS_ONNX_VECTORS_H_
#define BEAMWRIGHT_TESTS_OPS_KERNELS_ONNX_VECTORS_H_

#include <map>
#include <string>
#include <vector>

#include "ops/tensor/tensor.h"

namespace beamwright::ops {

struct OnnxVectors {
  std::vector<std::string> input_names, output_names;  // of the node; "" for absent
  std::map<std::string, Tensor> tensors;               // f32 and i32 only
  std::map<std::string, int64_t> attributes;           // integer attributes
};

// Whether the vectors are installed.
bool HaveOnnxVectors();
OnnxVectors ReadOnnxVectors(const std::string& test);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_OPS_KERNELS_ONNX_VECTORS_H_
