// EmbeddingSegmentsSum: sums rows of a table by segments. segment_ids[i] is the segment of item i,
// in ascending order, so that a segment is a range of items (FindFirstItems); SumBags
// (embedding_sum.h) computes the sums. A segment without items is the row default_index, or zeros.
//
// FindFirstItems only says that something is wrong; CheckSegments then finds the first wrong id for
// the message, which keeps the frequent case fast.
#include "ops/kernels/embedding_segments.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "ops/kernels/embedding_sum.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

enum Input : size_t { kTable, kIndices, kSegmentIds, kNumSegments, kDefaultIndex, kWeights };
constexpr absl::string_view kNames[] = {"emb_table",    "indices",       "segment_ids",
                                        "num_segments", "default_index", "per_sample_weights"};

struct EmbeddingSegmentsSumOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node&) { return Options{}; }

  static absl::Status CheckTypes(absl::Span<const InputInfo> inputs) {
    if (!IsFloat(inputs[kTable].dtype) && !IsInteger(inputs[kTable].dtype)) {
      return Invalid("emb_table: element type ", Name(inputs[kTable].dtype),
                     " is not supported, only integers and floats");
    }
    BW_RETURN_IF_ERROR(ExpectType(inputs[kIndices], "indices", {DType::kI64, DType::kI32}));
    for (size_t i = kSegmentIds; i < inputs.size(); ++i) {
      const size_t like = i == kWeights ? kTable : kIndices;
      if (Present(inputs, i) && inputs[i].dtype != inputs[like].dtype) {
        return Invalid(kNames[i], ": element type ", Name(inputs[i].dtype), " is not that of ",
                       kNames[like], ", ", Name(inputs[like].dtype));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 4, 6, outputs));
    BW_RETURN_IF_ERROR(CheckTypes(inputs));
    static constexpr int kRanks[] = {0, 1, 1, 0, 0, 1};
    for (size_t i = kIndices; i < inputs.size(); ++i) {
      if (Present(inputs, i)) {
        BW_RETURN_IF_ERROR(ExpectRank(inputs[i], kNames[i], kRanks[i]));
      }
    }
    for (const size_t i : {kSegmentIds, kWeights}) {
      if (Present(inputs, i) &&
          !MergeExtents(ListLength(inputs[i]), ListLength(inputs[kIndices])).ok()) {
        return Invalid(kNames[i], ": has ", ListLength(inputs[i]), " elements, expected ",
                       ListLength(inputs[kIndices]), ", as indices has");
      }
    }
    outputs[0].dtype = inputs[kTable].dtype;
    outputs[0].shape = PartialShape();
    if (!inputs[kTable].shape.has_rank()) {
      return absl::OkStatus();
    }
    if (inputs[kTable].shape.rank() == 0) {
      return Invalid("emb_table: must have rank 1 or more");
    }
    Shape dims = inputs[kTable].shape.dims();
    Ints segments;
    BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[kNumSegments], "num_segments", segments));
    if (known && segments[0] < 0) {
      return Invalid("num_segments: ", segments[0], " is negative");
    }
    dims[0] = known ? segments[0] : PartialShape::kDynamic;
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  // InvalidArgument naming the first segment id that is out of range or out of order.
  static absl::Status CheckSegments(const Tensor& segment_ids, int64_t segments) {
    for (int64_t i = 0; i < segment_ids.num_elements(); ++i) {
      const int64_t segment = IntAt(segment_ids, i);
      if (segment < 0 || segment >= segments) {
        return Invalid("segment_ids[", i, "]: ", segment, " is outside [0, ", segments, ")");
      }
      if (i > 0 && segment < IntAt(segment_ids, i - 1)) {
        return Invalid("segment_ids[", i, "]: ", segment, " is below segment_ids[", i - 1, "], ",
                       IntAt(segment_ids, i - 1), "; they must ascend");
      }
    }
    return absl::OkStatus();
  }

  // The first item of each segment, and one past the last of all. False: the ids do not ascend
  // from 0 on, or reach `segments`.
  using FirstItems = absl::InlinedVector<int64_t, 256>;
  template <typename Id>
  static bool FindFirstItems(absl::Span<const Id> ids, int64_t segments, FirstItems& first) {
    first.resize(static_cast<size_t>(segments) + 1);
    int64_t next = 0;  // the first segment that has not begun
    int64_t before = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t id = ids[i];
      if (id < before || id >= segments) {
        return false;
      }
      for (; next <= id; ++next) {
        first[static_cast<size_t>(next)] = static_cast<int64_t>(i);
      }
      before = id;
    }
    std::fill(first.begin() + next, first.end(), static_cast<int64_t>(ids.size()));
    return true;
  }

  static absl::Status Compute(const Options&, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor* const given_default = InputOrNull(inputs, kDefaultIndex);
    Tensor& output = outputs[0];
    const int64_t segments = output.dim(0);
    const int64_t default_index = given_default == nullptr ? -1 : IntAt(*given_default, 0);
    BW_RETURN_IF_ERROR(CheckIndices(*inputs[kIndices], inputs[kTable]->dim(0)));
    const Tensor& ids = *inputs[kSegmentIds];
    const int64_t width = segments == 0 ? 0 : output.num_elements() / segments;
    FirstItems first;
    const auto find_first = [&] {
      return ids.dtype() == DType::kI32 ? FindFirstItems(ids.span<int32_t>(), segments, first)
                                        : FindFirstItems(ids.span<int64_t>(), segments, first);
    };
    // Segments of nothing may be any number.
    if (width == 0 || !find_first()) {
      BW_RETURN_IF_ERROR(CheckSegments(ids, segments));
    }
    BW_RETURN_IF_ERROR(CheckDefaultIndex(default_index, inputs[kTable]->dim(0)));
    if (width == 0) {
      return absl::OkStatus();
    }
    const auto items_of = [&first](int64_t segment) {
      const auto at = static_cast<size_t>(segment);
      return std::pair(first[at], first[at + 1]);
    };
    SumBags(context.num_threads,
            {inputs[kTable], inputs[kIndices], InputOrNull(inputs, kWeights), default_index},
            /*mean=*/false, items_of, output);
    return absl::OkStatus();
  }

  // The items of a row are m indices (and weights); their segments, and the number of segments,
  // follow from the number of rows. That no segment is in two rows is confirmed by the comparison
  // of one row with three when the model is loaded.
  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const bool weights_fit = !Present(inputs, kWeights) || rows[kWeights] == rows[kIndices];
    const bool default_fits = !Present(inputs, kDefaultIndex) || IsFixed(rows[kDefaultIndex]);
    return IsFixed(rows[kTable]) && IsRows(rows[kIndices]) && IsExtent(rows[kSegmentIds]) &&
                   IsExtent(rows[kNumSegments]) && weights_fit && default_fits
               ? RowsAt(0, 1)
               : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kEmbeddingSegmentsSum =
    CodeOf<EmbeddingSegmentsSumOp>(&EmbeddingSegmentsSumOp::Rows);

}  // namespace beamwright::ops
