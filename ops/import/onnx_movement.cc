// ONNX's operators that move elements: they join, cut, repeat and permute, read and write at
// indices.
//
// Most of them have one operator here. What differs from opset to opset is where a parameter comes
// from: Split's lengths, Slice's starts and Pad's margins are attributes in old opsets and inputs
// later, and an input may be known only when the graph runs. Each function brings the old form to
// the new one, with constants in the place of attributes, and keeps constants where they are known:
// later passes can fold only these.

#include <algorithm>

#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_operators.h"

namespace beamwright::ops {

// Operators that join, cut, repeat and permute.

namespace {

void Concat(OnnxNode& n) {
  if (!n.HasAttribute("axis")) {
    n.Fail("attribute 'axis' is missing");
  }
  n.Out(0, n.Add("Concat", n.inputs(), {{"axis", n.Int("axis", 0)}}));
}

void Transpose(OnnxNode& n) { n.Out(0, n.Add("Transpose", {n.In(0), n.List(n.Ints("perm"))})); }

// Lengths of equal parts, the last one shorter where they do not divide; empty if the extent is not
// known.
std::vector<int64_t> EqualParts(OnnxNode& n, int64_t axis, int64_t count) {
  if (!n.HasRank(n.In(0))) {
    return {};
  }
  const int known_axis = n.Axis(axis, n.Rank(n.In(0)));
  if (!n.ok()) {
    return {};
  }
  const int64_t extent = n.info(n.In(0)).shape.dim(known_axis);
  if (extent == PartialShape::kDynamic) {
    return {};
  }
  const int64_t part = (extent + count - 1) / count;
  std::vector<int64_t> lengths(static_cast<size_t>(count), part);
  lengths.back() = extent - part * (count - 1);
  if (lengths.back() < 0) {
    n.Fail("axis ", axis, " of ", extent, " elements does not make ", count, " parts");
  }
  return lengths;
}

// Lengths: an attribute until opset 12, then an input; without them parts are equal.
void Split(OnnxNode& n) {
  const int64_t axis = n.Int("axis", 0);
  const int count = n.num_outputs();
  ValueId lengths;
  if (n.version() < 13) {
    const std::vector<int64_t> values = n.Ints("split");
    lengths = values.empty() ? ValueId() : n.List(values);
  } else {
    lengths = n.In(1);
  }
  if (n.version() >= 18 && n.HasAttribute("num_outputs")) {
    if (lengths.present() || n.Int("num_outputs", 0) != count) {
      n.Fail("attribute 'num_outputs' is ", n.Int("num_outputs", 0), "; it must be the ", count,
             " outputs that there are, and stand without input 1");
    }
    const std::vector<int64_t> values = EqualParts(n, axis, count);
    lengths = values.empty() ? ValueId() : n.List(values);
  }
  const ValueId first =
      lengths.present()
          ? n.Add("VariadicSplit", {n.In(0), n.Scalar(axis), lengths}, {}, count)
          : n.Add("Split", {n.In(0), n.Scalar(axis)}, {{"num_splits", int64_t{count}}}, count);
  for (int i = 0; i < count; ++i) {
    n.Out(i, {first.node, i});
  }
}

// As many ones as `starts` has elements, of its type.
ValueId Ones(OnnxNode& n, ValueId starts) {
  const PartialShape& shape = n.info(starts).shape;
  const ValueId one = n.Like(1, starts);
  if (shape.is_static()) {
    return n.Add("Broadcast", {one, n.List({shape.dims().begin(), shape.dims().end()})},
                 {{"mode", "numpy"}});
  }
  return n.Add("Broadcast", {one, ShapeList(n, starts)}, {{"mode", "numpy"}});
}

void Slice(OnnxNode& n) {
  if (n.version() < 10) {
    const std::vector<int64_t> starts = n.Ints("starts");
    std::vector<int64_t> axes = n.Ints("axes");
    for (size_t i = 0; !n.HasAttribute("axes") && i < starts.size(); ++i) {
      axes.push_back(static_cast<int64_t>(i));
    }
    n.Out(0, n.Add("Slice", {n.In(0), n.List(starts), n.List(n.Ints("ends")),
                             n.List(std::vector<int64_t>(starts.size(), 1)), n.List(axes)}));
    return;
  }
  if (n.num_inputs() < 3) {
    n.Fail("has ", n.num_inputs(), " inputs; Slice of opset ", n.version(), " takes 3 to 5");
    return;
  }
  std::vector<ValueId> inputs = {n.In(0), n.In(1), n.In(2), n.Has(4) ? n.In(4) : Ones(n, n.In(1))};
  if (n.Has(3)) {
    inputs.push_back(n.In(3));
  }
  n.Out(0, n.Add("Slice", inputs));
}

struct Margins {
  ValueId before;
  ValueId after;
};

// Margins of `axes` that are known only when the graph runs: zeros for the others.
Margins ScatterMargins(OnnxNode& n) {
  const ValueId zeros = n.List(std::vector<int64_t>(static_cast<size_t>(n.Rank(n.In(0))), 0));
  const ValueId halves = n.Add("Split", {n.In(1), n.Scalar(0)}, {{"num_splits", int64_t{2}}}, 2);
  const auto scatter = [&](int half) {
    const ValueId margins{halves.node, halves.present() ? half : 0};
    return n.Add("ScatterElementsUpdate", {zeros, n.In(3), margins, n.Scalar(0)});
  };
  return {scatter(0), scatter(1)};
}

// [before of each axis, after of each axis]; with `axes` only of these.
Margins ReadMargins(OnnxNode& n) {
  const bool axes_known = !n.Has(3) || n.Known(n.In(3)) != nullptr;
  if (n.version() < 11 || (n.Known(n.In(1)) != nullptr && axes_known)) {
    const std::vector<int64_t> pads = n.version() < 11 ? n.Ints("pads") : n.KnownInts(1, "pads");
    const size_t half = pads.size() / 2;
    std::vector<int64_t> before(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(half));
    std::vector<int64_t> after(pads.begin() + static_cast<ptrdiff_t>(half), pads.end());
    if (n.Has(3)) {
      const std::vector<int64_t> axes = n.KnownInts(3, "axes");
      const int rank = n.Rank(n.In(0));
      std::vector<int64_t> all_before(static_cast<size_t>(rank), 0);
      std::vector<int64_t> all_after(static_cast<size_t>(rank), 0);
      if (n.ok() && (axes.size() != half || after.size() != half)) {
        n.Fail("pads has ", pads.size(), " elements; ", axes.size(), " axes need two each");
      }
      for (size_t i = 0; n.ok() && i < axes.size(); ++i) {
        const auto axis = static_cast<size_t>(n.Axis(axes[i], rank));
        if (n.ok()) {
          all_before[axis] = before[i];
          all_after[axis] = after[i];
        }
      }
      before = std::move(all_before);
      after = std::move(all_after);
    }
    return {n.List(before), n.List(after)};
  }
  if (n.Has(3)) {
    return ScatterMargins(n);
  }
  const ValueId halves = n.Add("Split", {n.In(1), n.Scalar(0)}, {{"num_splits", int64_t{2}}}, 2);
  return {halves, {halves.node, halves.present() ? 1 : 0}};
}

void Pad(OnnxNode& n) {
  const std::string mode = n.String("mode", "constant");
  const bool wraps = mode == "wrap" && n.version() >= 19;
  if (mode != "constant" && mode != "edge" && mode != "reflect" && !wraps) {
    n.Fail("attribute 'mode' is ", Quote(mode), "; it must be constant, edge, reflect or wrap");
    return;
  }
  const ValueId x = n.In(0);
  const Margins margins = ReadMargins(n);
  const double fill = n.version() < 11 ? n.Float("value", 0) : 0;
  const ValueId value = n.Has(2) ? AsScalar(n, n.In(2)) : n.Like(fill, x);
  std::vector<ValueId> inputs = {x, margins.before, margins.after};
  if (mode == "constant") {
    inputs.push_back(value);
  }
  n.Out(0, n.Add("Pad", inputs, {{"pad_mode", mode}}));
}

void ReverseSequence(OnnxNode& n) {
  const int64_t batch_axis = n.Int("batch_axis", 1);
  const int64_t time_axis = n.Int("time_axis", 0);
  n.Out(0, n.Add("ReverseSequence", {n.In(0), n.In(1)},
                 {{"batch_axis", batch_axis}, {"seq_axis", time_axis}}));
}

int64_t BlockSize(OnnxNode& n) {
  const int64_t size = n.Int("blocksize", 0);
  if (size < 1) {
    n.Fail("attribute 'blocksize' is ", size, "; it must be at least 1");
  }
  return size;
}

// DCR: channels hold [block, block, C']; CRD: [C', block, block].
// Between space and depth; the attribute 'mode' came with an opset.
void MoveBlocks(OnnxNode& n, const char* op, int opset_of_mode) {
  const std::string mode = n.version() < opset_of_mode ? "DCR" : n.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    n.Fail("attribute 'mode' is ", Quote(mode), "; it must be DCR or CRD");
  }
  n.Out(0, n.Add(op, {n.In(0)},
                 {{"block_size", BlockSize(n)},
                  {"mode", mode == "DCR" ? "blocks_first" : "depth_first"}}));
}

void DepthToSpace(OnnxNode& n) { MoveBlocks(n, "DepthToSpace", 11); }

void SpaceToDepth(OnnxNode& n) { MoveBlocks(n, "SpaceToDepth", 28); }

}  // namespace

std::vector<OnnxOperator> OnnxMovement() {
  return {
      {"Concat", {4, 11, 13}, 1, kAnyNumber, 1, "Concat", Concat},
      {"DepthToSpace", {1, 11, 13, 28}, 1, 1, 1, "DepthToSpace", DepthToSpace},
      {"Pad", {2, 11, 13, 18, 19, 21, 23, 24, 25}, 1, 4, 1, "Pad", Pad},
      {"ReverseSequence", {10, 28}, 2, 2, 1, "ReverseSequence", ReverseSequence},
      {"Slice", {1, 10, 11, 13}, 1, 5, 1, "Slice", Slice},
      {"SpaceToDepth", {1, 13, 28}, 1, 1, 1, "SpaceToDepth", SpaceToDepth},
      {"Split", {2, 11, 13, 18}, 1, 2, kAnyNumber, "Split, VariadicSplit", Split},
      {"Tile", {6, 13}, 2, 2, 1, "Tile"},
      {"Transpose", {1, 13, 21, 23, 24, 25}, 1, 1, 1, "Transpose", Transpose},
  };
}

// Reading and writing at indices.

namespace {

void Gather(OnnxNode& n) {
  n.Out(0, n.Add("Gather", {n.In(0), n.In(1), n.Scalar(n.Int("axis", 0))}));
}

void GatherElements(OnnxNode& n) {
  n.Out(0, n.Add("GatherElements", {n.In(0), n.In(1)}, {{"axis", n.Int("axis", 0)}}));
}

void GatherNd(OnnxNode& n) {
  const int64_t batch_dims = n.version() < 12 ? 0 : n.Int("batch_dims", 0);
  n.Out(0, n.Add("GatherND", {n.In(0), n.In(1)}, {{"batch_dims", batch_dims}}));
}

// none, add, mul, and from opset 18 on min and max, in OpenVINO's words.
std::string ScatterReduction(OnnxNode& n) {
  const std::string reduction = n.version() < 16 ? "none" : n.String("reduction", "none");
  if (reduction == "add") {
    return "sum";
  }
  if (reduction == "mul") {
    return "prod";
  }
  if (reduction != "none" && (n.version() < 18 || (reduction != "min" && reduction != "max"))) {
    n.Fail("attribute 'reduction' is ", Quote(reduction), "; it must be none, add, mul",
           n.version() < 18 ? "" : ", min or max");
  }
  return reduction;
}

void ScatterElements(OnnxNode& n) {
  const std::string reduction = ScatterReduction(n);
  n.Out(0, n.Add("ScatterElementsUpdate", {n.In(0), n.In(1), n.In(2), n.Scalar(n.Int("axis", 0))},
                 {{"reduction", reduction}, {"use_init_val", true}}));
}

void ScatterNd(OnnxNode& n) {
  n.Out(0, n.Add("ScatterNDUpdate", n.inputs(), {{"reduction", ScatterReduction(n)}}));
}

// Indices and depth may be of any numeric type; negative indices count from the end; what is
// outside gives a row of the first value.
void OneHot(OnnxNode& n) {
  const int64_t axis = n.Int("axis", -1);
  const ValueId depth = ConvertTo(n, AsScalar(n, n.In(1)), DType::kI64);
  const ValueId index = ConvertTo(n, n.In(0), DType::kI64);
  const ValueId off = n.Add("Gather", {n.In(2), n.Scalar(0), n.Scalar(0)});
  const ValueId on = n.Add("Gather", {n.In(2), n.Scalar(1), n.Scalar(0)});
  n.Out(0, n.Add("OneHot", {index, depth, on, off},
                 {{"axis", axis}, {"negative_indices_mode", "normalize"}}));
}

void NonZero(OnnxNode& n) { n.Out(0, n.Add("NonZero", {n.In(0)}, {{"output_type", "i64"}})); }

// The slices along the axis where the condition holds; of the elements in a row without an axis.
void Compress(OnnxNode& n) {
  const bool flat = !n.HasAttribute("axis");
  const ValueId x = flat ? Reshaped(n, n.In(0), {-1}) : n.In(0);
  const ValueId places = n.Add("NonZero", {n.In(1)}, {{"output_type", "i64"}});
  const ValueId indices = n.Add("Squeeze", {places, n.List({0})});
  n.Out(0, n.Add("Gather", {x, indices, n.Scalar(flat ? 0 : n.Int("axis", 0))}));
}

// The triangle of the last two axes on and above (upper) or below diagonal k; zeros elsewhere.
void Trilu(OnnxNode& n) {
  const bool upper = n.Flag("upper", true);
  const ValueId x = n.In(0);
  const ValueId k = n.Has(1) ? AsScalar(n, n.In(1)) : n.Scalar(0);
  const ValueId inside = n.Add(upper ? "GreaterEqual" : "LessEqual", {DiagonalNumbers(n, x), k});
  n.Out(0, n.Add("Select", {inside, x, n.Like(0, x)}));
}

}  // namespace

std::vector<OnnxOperator> OnnxGather() {
  return {
      {"Compress", {9, 11, 28}, 2, 2, 1, "NonZero, Gather", Compress},
      {"Gather", {1, 11, 13}, 2, 2, 1, "Gather", Gather},
      {"GatherElements", {11, 13}, 2, 2, 1, "GatherElements", GatherElements},
      {"GatherND", {11, 12, 13}, 2, 2, 1, "GatherND", GatherNd},
      {"NonZero", {9, 13}, 1, 1, 1, "NonZero", NonZero},
      {"OneHot", {9, 11, 28}, 3, 3, 1, "OneHot", OneHot},
      {"Scatter", {9, 11}, 3, 3, 1, "ScatterElementsUpdate", ScatterElements},
      {"ScatterElements", {11, 13, 16, 18}, 3, 3, 1, "ScatterElementsUpdate", ScatterElements},
      {"ScatterND", {11, 13, 16, 18}, 3, 3, 1, "ScatterNDUpdate", ScatterNd},
      {"Trilu", {14}, 1, 2, 1, "Range, Subtract, GreaterEqual, Select", Trilu},
  };
}

}  // namespace beamwright::ops
