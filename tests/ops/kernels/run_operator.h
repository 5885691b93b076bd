// Runs one operator as the library does (infer, make, run) and checks, on the way, that inference
// never contradicts the run, however much of the inputs it knows.
#ifndef BEAMWRIGHT_TESTS_OPS_KERNELS_RUN_OPERATOR_H_
#define BEAMWRIGHT_TESTS_OPS_KERNELS_RUN_OPERATOR_H_

#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

const OperatorSet& TestOperators();

struct Call {
  std::string op;
  std::vector<Tensor> inputs;
  std::vector<std::pair<std::string, AttributeValue>> attributes = {};
  int num_outputs = 1;
  std::vector<size_t> constants = {};  // inputs known at load
  int num_threads = 1;
};

Node MakeNode(const Call& call);
absl::StatusOr<std::vector<Tensor>> RunAll(const Call& call);
// The only output; a failed run is a test failure.
Tensor RunOne(const Call& call);
// The message of a failing call, "" if it succeeds.
std::string ErrorOf(const Call& call);

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  float Float(float low = -1, float high = 1) {
    return std::uniform_real_distribution<float>(low, high)(engine_);
  }
  Tensor Floats(Shape shape, float low = -1, float high = 1);
  Tensor Ints(Shape shape, int64_t low, int64_t high, DType dtype = DType::kI64);

 private:
  std::mt19937 engine_;
};

// Bitwise equality of type, shape and elements.
bool SameBits(const Tensor& a, const Tensor& b);
Tensor I64(Shape shape, std::vector<int64_t> values);
Tensor F32(Shape shape, std::vector<float> values);
std::vector<float> Floats(const Tensor& tensor);
std::vector<int64_t> Integers(const Tensor& tensor);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_OPS_KERNELS_RUN_OPERATOR_H_
