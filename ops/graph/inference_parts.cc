// Parts of the inference of types and shapes: what a file declares is merged with what is inferred
// (MergeInfo), conditions that are known at load (ReadCondition), the budget of folding
// (InferenceBudget), and constants that are computed only when they are read (DeferResults).
#include "ops/graph/inference_parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "ops/graph/inference.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {

absl::Status MergeInfo(absl::string_view what, const ValueInfo& declared, ValueInfo& inferred) {
  if (inferred.dtype == DType::kUndefined) {
    inferred.dtype = declared.dtype;
  } else if (declared.dtype != DType::kUndefined && declared.dtype != inferred.dtype) {
    return Invalid(what, " is declared ", Name(declared.dtype), " but is ", Name(inferred.dtype));
  }
  if (!declared.shape.has_rank()) {
    return absl::OkStatus();
  }
  if (!inferred.shape.has_rank()) {
    inferred.shape = declared.shape;
    return absl::OkStatus();
  }
  const auto conflict = [&] {
    return Invalid(what, " is declared ", declared.shape.ToString(), " but is ",
                   inferred.shape.ToString());
  };
  if (declared.shape.rank() != inferred.shape.rank()) {
    return conflict();
  }
  Shape merged = inferred.shape.dims();
  for (size_t axis = 0; axis < merged.size(); ++axis) {
    const int64_t dim = declared.shape.dims()[axis];
    if (dim == PartialShape::kDynamic) {
      continue;
    }
    if (merged[axis] != PartialShape::kDynamic && merged[axis] != dim) {
      return conflict();
    }
    merged[axis] = dim;
  }
  inferred.shape = PartialShape(merged);
  return absl::OkStatus();
}

// What holds for both: extents that differ are open. For the results of two branches.
PartialShape JoinShapes(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) {
    return PartialShape();
  }
  Shape dims = a.dims();
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    dims[axis] = dims[axis] == b.dims()[axis] ? dims[axis] : PartialShape::kDynamic;
  }
  return PartialShape(std::move(dims));
}

absl::Status SetParameter(absl::string_view what, Graph& body, size_t parameter, DType dtype,
                          const PartialShape& shape) {
  ValueInfo& declared = body.node(body.parameters[parameter]).outputs[0];
  ValueInfo given;
  given.names = declared.names;
  given.dtype = dtype;
  given.shape = shape;
  BW_RETURN_IF_ERROR(MergeInfo(what, declared, given));
  declared = std::move(given);
  return absl::OkStatus();
}

const ValueInfo& ResultInfo(const Graph& body, int index) {
  return body.info(body.node(body.results[static_cast<size_t>(index)]).inputs[0]);
}

bool MayHaveOneElement(const PartialShape& shape) {
  return !shape.has_rank() || std::all_of(shape.dims().begin(), shape.dims().end(),
                                          [](int64_t dim) { return dim == 1 || dim < 0; });
}

absl::StatusOr<KnownCondition> ReadCondition(absl::string_view what, const InputInfo& input) {
  if (input.dtype != DType::kBool || !MayHaveOneElement(input.shape)) {
    return Invalid(what, " is ", Name(input.dtype), input.shape.ToString(),
                   "; it must be one boolean");
  }
  if (input.value == nullptr) {
    return KnownCondition{};
  }
  return KnownCondition{true, *input.value->data<bool>()};
}

// Bounds what inference of types and shapes may compute from constants (folding): a small file
// could otherwise ask for huge constants or for hours of work.
//
// MayFold checks the size of results against that of the operands, the bytes of all results against
// those of the file's constants, and the work, counted as bytes and products (Products), against a
// budget that grows with the constants. A node that does not fit is not folded; it runs with each
// request instead. Bodies and repeated inference of loops have bounds that are errors (AddBody,
// AddRepeated).

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

namespace {

// Output `index` of the kernel, straight into `out` where the kernel can write there.
absl::Status FillOutput(const Kernel& kernel, const std::vector<Tensor>& values, size_t num_outputs,
                        size_t index, const ValueInfo& info, std::byte* out) {
  std::vector<const Tensor*> inputs;
  for (const Tensor& value : values) {
    inputs.push_back(&value);
  }
  std::vector<Tensor> outputs(num_outputs);
  outputs[index] = Tensor(info.dtype, info.shape.dims(),
                          std::shared_ptr<std::byte>(out, [](std::byte*) {}), nullptr);
  BW_RETURN_IF_ERROR(kernel.Run(ExecutionContext(), inputs, absl::MakeSpan(outputs)));
  const Tensor& result = outputs[index];
  if (result.place() != out) {
    std::memcpy(out, result.bytes(), static_cast<size_t>(result.num_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace

// Large results of folded nodes are computed again when they are read, instead of being held: the
// kernel and its inputs are kept. Results that are views of an input take no memory and stay.
absl::Status DeferResults(std::shared_ptr<const Kernel> kernel,
                          absl::Span<const Tensor* const> values, std::vector<Tensor>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    Tensor& result = results[i];
    const bool is_view = std::any_of(values.begin(), values.end(), [&result](const Tensor* value) {
      return value->has_value() && result.place() >= value->place() &&
             result.place() < value->place() + value->num_bytes();
    });
    if (is_view || !result.has_value() || !IsDeferred(result.num_bytes())) {
      continue;
    }
    std::vector<Tensor> inputs;
    for (const Tensor* const value : values) {
      inputs.push_back(*value);
    }
    const ValueInfo info{result.dtype(), PartialShape(result.shape()), {}};
    result = Tensor();
    BW_ASSIGN_OR_RETURN(result, MakeConstant(info.dtype, info.shape.dims(),
                                             [kernel, inputs = std::move(inputs),
                                              count = results.size(), i, info](std::byte* out) {
                                               return FillOutput(*kernel, inputs, count, i, info,
                                                                 out);
                                             }));
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
