// EmbeddingBagOffsets and EmbeddingBagPacked: sums or means of rows of a table, by bags of indices,
//
//   out[bag] = sum over i in bag of weight[i] table[indices[i]]
//
// With offsets, bag b is indices[offsets[b]] up to indices[offsets[b + 1]] - 1; an empty bag is the
// row default_index, or zeros. Packed, all bags have the same size: indices is [bags, size].
// SumBags (embedding_sum.h) computes both; here are the shapes and the checks of indices and
// offsets, which come from requests.
//
// Weights are for sums only, as the operators are defined.
//
// Example with offsets: indices {4, 1, 7, 7}, offsets {0, 1, 1}, default_index 2. Bag 0 is row 4,
// bag 1 is empty and so row 2, bag 2 is rows 1 + 7 + 7.
#include "absl/strings/ascii.h"
#include "ops/kernels/embedding_sum.h"
#include "ops/kernels/inputs.h"

namespace beamwright::ops {
namespace {

struct BagOptions {
  bool mean = false;
};

// Version 3 of the operators has no attribute `reduction`: it is a sum.
absl::StatusOr<BagOptions> ParseBag(const Node& node) {
  BW_ASSIGN_OR_RETURN(std::string reduction, node.attributes.String("reduction", "sum"));
  reduction = absl::AsciiStrToLower(reduction);
  if (reduction != "sum" && reduction != "mean") {
    return Invalid("attribute reduction: '", reduction, "' is not supported, only sum and mean");
  }
  return BagOptions{reduction == "mean"};
}

absl::Status CheckTable(const InputInfo& table) {
  if (!IsFloat(table.dtype) && !IsInteger(table.dtype)) {
    return Invalid("emb_table: element type ", Name(table.dtype),
                   " is not supported, only integers and floats");
  }
  return table.shape.has_rank() && table.shape.rank() == 0
             ? Invalid("emb_table: must have rank 1 or more")
             : absl::OkStatus();
}

absl::Status ExpectSameType(const InputInfo& input, absl::string_view name, const InputInfo& like,
                            absl::string_view like_name) {
  return input.dtype == like.dtype ? absl::OkStatus()
                                   : Invalid(name, ": element type ", Name(input.dtype),
                                             " is not that of ", like_name, ", ", Name(like.dtype));
}

absl::Status CheckWeights(const BagOptions& options, absl::Span<const InputInfo> inputs,
                          size_t index) {
  if (!Present(inputs, index)) {
    return absl::OkStatus();
  }
  if (options.mean) {
    return Invalid("per_sample_weights: not allowed with reduction mean");
  }
  const PartialShape& weights = inputs[index].shape;
  const PartialShape& indices = inputs[1].shape;
  BW_RETURN_IF_ERROR(ExpectSameType(inputs[index], "per_sample_weights", inputs[0], "emb_table"));
  bool fits = !weights.has_rank() || !indices.has_rank() || weights.rank() == indices.rank();
  for (int axis = 0; fits && axis < weights.rank() && axis < indices.rank(); ++axis) {
    fits = MergeExtents(weights.dim(axis), indices.dim(axis)).ok();
  }
  return fits ? absl::OkStatus()
              : Invalid("per_sample_weights: shape ", weights.ToString(),
                        " is not that of indices, ", indices.ToString());
}

// The table's shape with `bags` in place of its rows.
PartialShape BagShape(const InputInfo& table, int64_t bags) {
  if (!table.shape.has_rank()) {
    return PartialShape();
  }
  Shape dims = table.shape.dims();
  dims[0] = bags;
  return PartialShape(std::move(dims));
}

struct OffsetsOp {
  using Options = BagOptions;
  enum Input : size_t { kTable, kIndices, kOffsets, kDefaultIndex, kWeights };
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseBag(node); }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 5, outputs));
    BW_RETURN_IF_ERROR(CheckTable(inputs[kTable]));
    BW_RETURN_IF_ERROR(ExpectType(inputs[kIndices], "indices", {DType::kI64, DType::kI32}));
    BW_RETURN_IF_ERROR(ExpectRank(inputs[kIndices], "indices", 1));
    BW_RETURN_IF_ERROR(ExpectSameType(inputs[kOffsets], "offsets", inputs[kIndices], "indices"));
    BW_RETURN_IF_ERROR(ExpectRank(inputs[kOffsets], "offsets", 1));
    if (Present(inputs, kDefaultIndex)) {
      BW_RETURN_IF_ERROR(
          ExpectSameType(inputs[kDefaultIndex], "default_index", inputs[kIndices], "indices"));
      BW_RETURN_IF_ERROR(ExpectRank(inputs[kDefaultIndex], "default_index", 0));
    }
    BW_RETURN_IF_ERROR(CheckWeights(options, inputs, kWeights));
    outputs[0].dtype = inputs[kTable].dtype;
    outputs[0].shape = BagShape(inputs[kTable], ListLength(inputs[kOffsets]));
    return absl::OkStatus();
  }

  static absl::Status CheckOffsets(const Tensor& offsets, int64_t items) {
    int64_t before = 0;
    for (int64_t b = 0; b < offsets.num_elements(); ++b) {
      const int64_t offset = IntAt(offsets, b);
      if (offset < 0 || offset > items) {
        return Invalid("offsets[", b, "]: ", offset, " is outside [0, ", items, "]");
      }
      if (offset < before) {
        return Invalid("offsets[", b, "]: ", offset, " is below offsets[", b - 1, "], ", before,
                       "; they must ascend");
      }
      before = offset;
    }
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& offsets = *inputs[kOffsets];
    const int64_t items = inputs[kIndices]->num_elements();
    const Tensor* default_input = InputOrNull(inputs, kDefaultIndex);
    const int64_t default_index = default_input == nullptr ? -1 : IntAt(*default_input, 0);
    BW_RETURN_IF_ERROR(CheckIndices(*inputs[kIndices], inputs[kTable]->dim(0)));
    BW_RETURN_IF_ERROR(CheckOffsets(offsets, items));
    BW_RETURN_IF_ERROR(CheckDefaultIndex(default_index, inputs[kTable]->dim(0)));
    const auto items_of = [&](int64_t bag) {
      const bool is_last = bag + 1 == offsets.num_elements();
      return std::pair(IntAt(offsets, bag), is_last ? items : IntAt(offsets, bag + 1));
    };
    SumBags(context.num_threads,
            {inputs[kTable], inputs[kIndices], InputOrNull(inputs, kWeights), default_index},
            options.mean, items_of, outputs[0]);
    return absl::OkStatus();
  }

  // As for EmbeddingSegmentsSum: offsets follow from the number of rows, a bag each.
  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const bool weights_fit = !Present(inputs, kWeights) || rows[kWeights] == rows[kIndices];
    const bool default_fits = !Present(inputs, kDefaultIndex) || IsFixed(rows[kDefaultIndex]);
    return IsFixed(rows[kTable]) && IsRows(rows[kIndices]) && IsExtent(rows[kOffsets]) &&
                   weights_fit && default_fits
               ? RowsAt(0, 1)
               : kMixedRows;
  }
};

struct PackedOp {
  using Options = BagOptions;
  enum Input : size_t { kTable, kIndices, kWeights };
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseBag(node); }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 3, outputs));
    BW_RETURN_IF_ERROR(CheckTable(inputs[kTable]));
    BW_RETURN_IF_ERROR(ExpectType(inputs[kIndices], "indices", {DType::kI64, DType::kI32}));
    BW_RETURN_IF_ERROR(ExpectRank(inputs[kIndices], "indices", 2));
    BW_RETURN_IF_ERROR(CheckWeights(options, inputs, kWeights));
    const PartialShape& indices = inputs[kIndices].shape;
    outputs[0].dtype = inputs[kTable].dtype;
    outputs[0].shape =
        BagShape(inputs[kTable], indices.has_rank() ? indices.dim(0) : PartialShape::kDynamic);
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    BW_RETURN_IF_ERROR(CheckIndices(*inputs[kIndices], inputs[kTable]->dim(0)));
    const int64_t per_bag = inputs[kIndices]->dim(1);
    SumBags(
        context.num_threads, {inputs[kTable], inputs[kIndices], InputOrNull(inputs, kWeights)},
        options.mean, [&](int64_t bag) { return std::pair(bag * per_bag, (bag + 1) * per_bag); },
        outputs[0]);
    return absl::OkStatus();
  }

  // Packed: a bag is a row of the indices, so bags are rows where the indices are.
  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const bool weights_fit = !Present(inputs, kWeights) || rows[kWeights] == rows[kIndices];
    return IsFixed(rows[kTable]) && IsRows(rows[kIndices]) && rows[kIndices].axis == 0 &&
                   weights_fit
               ? rows[kIndices]
               : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kEmbeddingBagOffsets = CodeOf<OffsetsOp>(&OffsetsOp::Rows);
constinit const OperatorCode kEmbeddingBagPacked = CodeOf<PackedOp>(&PackedOp::Rows);

}  // namespace beamwright::ops
