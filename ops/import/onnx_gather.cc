// Reading and writing at indices.
#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_pieces.h"
#include "ops/import/onnx_text.h"

namespace beamwright::ops {
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
