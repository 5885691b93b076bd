// The ONNX node test vectors that the distribution ships (libonnx-testdata): tensors and the
// attributes of the one node, read by a small protobuf wire reader of our own.
#ifndef BEAMWRIGHT_TESTS_OPS_KERNELS_ONNX_VECTORS_H_
#define BEAMWRIGHT_TESTS_OPS_KERNELS_ONNX_VECTORS_H_

#include <map>
#include <string>
#include <vector>

#include "ops/graph/graph.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

struct OnnxVectors {
  std::vector<std::string> input_names, output_names;  // of the node; "" for absent
  std::map<std::string, Tensor> tensors;               // every numeric type and boolean
  std::map<std::string, int64_t> attributes;           // integer attributes
  std::map<std::string, AttributeValue> values;        // integers, floats, strings, lists of them

  Tensor input(size_t i) const { return tensors.at(input_names.at(i)); }
  Tensor output(size_t i) const { return tensors.at(output_names.at(i)); }
};

// Whether the vectors are installed.
bool HaveOnnxVectors();
OnnxVectors ReadOnnxVectors(const std::string& test);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_OPS_KERNELS_ONNX_VECTORS_H_
