// Bounds what inference of types and shapes may compute from constants (folding): a small file
// could otherwise ask for huge constants or for hours of work.
//
// MayFold checks the size of results against that of the operands, the bytes of all results against
// those of the file's constants, and the work, counted as bytes and products (Products), against a
// budget that grows with the constants. A node that does not fit is not folded; it runs with each
// request instead. Bodies and repeated inference of loops have bounds that are errors (AddBody,
// AddRepeated).
#include "ops/graph/inference_budget.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {
namespace {

// One result may not be much larger than what it is computed from ...
constexpr int64_t kFreeBytes = 1 << 20;
constexpr int64_t kGrowth = 8;
// ... and all together take no more than this and kGrowth times the constants of the file.
constexpr int64_t kFreeTotal = 32 << 20;
// Smaller values take no more than the nodes that they belong to.
constexpr int64_t kSmallBytes = 256;
// Work is counted in bytes read and written, and in products. About as many fit into a second as
// are free.
constexpr double kFreeWork = 1 << 29;
constexpr double kWorkPerByte = 256;
// At most this many nodes are inferred a second time.
constexpr int64_t kMaxRepeatedNodes = 1 << 18;

int64_t BytesOf(absl::Span<const Tensor* const> values) {
  int64_t bytes = 0;
  for (const Tensor* value : values) {
    bytes += value->num_bytes();
  }
  return bytes;
}

// What an operator computes that does more than touch its values once: at most so much.
double Products(const Node& node, absl::Span<const Tensor* const> values, double outputs) {
  static const auto* const costly = new absl::flat_hash_set<std::string>(
      {"AvgPool", "EmbeddingBagOffsets", "EmbeddingBagOffsetsSum", "EmbeddingBagPacked",
       "EmbeddingBagPackedSum", "EmbeddingSegmentsSum", "GRUCell", "LSTMCell", "MaxPool",
       "RNNCell"});
  static const auto* const filters =
      new absl::flat_hash_set<std::string>({"Convolution", "ConvolutionBackpropData",
                                            "GroupConvolution", "GroupConvolutionBackpropData"});
  std::vector<double> sizes = {outputs};
  for (const Tensor* value : values) {
    sizes.push_back(std::max<double>(static_cast<double>(value->num_elements()), 1));
  }
  double all = 1;
  for (const double size : sizes) {
    all *= size;
  }
  if (node.op == "Einsum") {
    return all / outputs;
  }
  if (node.op == "MatMul") {
    return std::sqrt(all);  // [m, k] [k, n] [m, n]
  }
  if (filters->contains(node.op) && sizes.size() == 3) {
    return std::max(sizes[0], sizes[1]) * sizes[2];  // each place meets each weight at most
  }
  if (node.op == "MatMulInteger" || node.op == "QLinearMatMul" || costly->contains(node.op)) {
    std::sort(sizes.rbegin(), sizes.rend());
    return sizes.size() < 2 ? 0 : sizes[0] * sizes[1];
  }
  return 0;
}

}  // namespace

void InferenceBudget::AddConstant(const Tensor& constant) {
  if (constant.num_bytes() > kSmallBytes && counted_.insert(constant.place()).second) {
    constant_bytes_ += constant.num_bytes();
  }
}

int64_t InferenceBudget::MaxFoldedBytes(absl::Span<const Tensor* const> values) {
  return std::max(kFreeBytes, kGrowth * BytesOf(values));
}

bool InferenceBudget::MayFold(const Node& node, absl::Span<const Tensor* const> values,
                              absl::Span<const ValueInfo> outputs) {
  const int64_t most = MaxFoldedBytes(values);
  int64_t bytes = 0;
  int64_t elements = 0;
  for (const ValueInfo& output : outputs) {
    const absl::StatusOr<int64_t> count = CheckedNumElements(output.shape.dims());
    if (!count.ok() || *count > most) {
      return false;
    }
    bytes += *count * SizeOf(output.dtype);
    elements += *count;
  }
  const double work = work_ + static_cast<double>(BytesOf(values) + bytes) +
                      Products(node, values, std::max<double>(static_cast<double>(elements), 1));
  if (work > kFreeWork + kWorkPerByte * static_cast<double>(constant_bytes_)) {
    return false;
  }
  if (bytes > kSmallBytes) {
    if (bytes > most || bytes > kFreeTotal + kGrowth * constant_bytes_ - held_.fold_bytes) {
      return false;
    }
    held_.fold_bytes += bytes;
  }
  work_ = work;
  return true;
}

absl::Status InferenceBudget::AddBody() {
  return ++held_.bodies > kMaxBodies
             ? absl::ResourceExhaustedError(
                   absl::StrCat("more than ", kMaxBodies, " bodies of loops and branches"))
             : absl::OkStatus();
}

absl::Status InferenceBudget::AddRepeated(size_t num_nodes) {
  repeated_nodes_ += static_cast<int64_t>(num_nodes);
  return repeated_nodes_ > kMaxRepeatedNodes
             ? absl::ResourceExhaustedError(
                   "the shapes of states in nested loops take too long to infer")
             : absl::OkStatus();
}

}  // namespace beamwright::ops
