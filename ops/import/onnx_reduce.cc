// Reductions, extreme values and running sums.
#include <limits>

#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_pieces.h"

namespace beamwright::ops {
namespace {

// The axes of a reduction: an attribute or, from opset `input_since` on, an input. None means all
// of them, unless noop_with_empty_axes says that none is meant: then what surrounds the reduction
// is computed still.
ValueId ReductionAxes(OnnxNode& n, int input_since) {
  const ValueId x = n.In(0);
  if (n.version() < input_since) {
    const std::vector<int64_t> axes = n.Ints("axes");
    return axes.empty() ? AllAxes(n, x) : n.List(axes);
  }
  const bool none_is_none = n.Flag("noop_with_empty_axes", false);
  if (!n.Has(1)) {
    return none_is_none ? n.List({}) : AllAxes(n, x);
  }
  const PartialShape& shape = n.info(n.In(1)).shape;
  if (!shape.is_static()) {
    n.Unsupported("the number of axes must be known");
    return {};
  }
  return shape.dims() == Shape{0} && !none_is_none ? AllAxes(n, x) : n.In(1);
}

struct Reduction {
  ValueId axes;
  OnnxBuilder::AttributeList attributes;
};

Reduction ReadReduction(OnnxNode& n, int input_since = 18) {
  const bool keep = n.Flag("keepdims", true);
  return {ReductionAxes(n, input_since), {{"keep_dims", keep}}};
}

void Plain(OnnxNode& n) {
  const Reduction r = ReadReduction(n);
  n.Out(0, n.Add(n.op().becomes, {n.In(0), r.axes}, r.attributes));
}

void ReduceSum(OnnxNode& n) {
  const Reduction r = ReadReduction(n, 13);
  n.Out(0, n.Add("ReduceSum", {n.In(0), r.axes}, r.attributes));
}

void Extreme(OnnxNode& n, const char* op, const char* of_booleans) {
  const Reduction r = ReadReduction(n);
  const bool boolean = n.info(n.In(0)).dtype == DType::kBool;
  n.Out(0, n.Add(boolean ? of_booleans : op, {n.In(0), r.axes}, r.attributes));
}
void ReduceMax(OnnxNode& n) { Extreme(n, "ReduceMax", "ReduceLogicalOr"); }
void ReduceMin(OnnxNode& n) { Extreme(n, "ReduceMin", "ReduceLogicalAnd"); }

void ReduceLogSum(OnnxNode& n) {
  const Reduction r = ReadReduction(n);
  n.Out(0, n.Add("Log", {n.Add("ReduceSum", {n.In(0), r.axes}, r.attributes)}));
}

void ReduceSumSquare(OnnxNode& n) {
  const Reduction r = ReadReduction(n);
  n.Out(0, n.Add("ReduceSum", {n.Add("Multiply", {n.In(0), n.In(0)}), r.axes}, r.attributes));
}

// max + log(sum(exp(x - max))). The maximum is held finite, so that infinities of x come out as the
// formula without it says.
void ReduceLogSumExp(OnnxNode& n) {
  const Reduction r = ReadReduction(n);
  const ValueId x = n.In(0);
  const auto finite = [&](ValueId value) {
    constexpr double kMost = std::numeric_limits<float>::max();
    const double most = n.Type(x) == DType::kF16 ? 65504 : kMost;
    return n.Add("Minimum", {n.Add("Maximum", {value, n.Like(-most, x)}), n.Like(most, x)});
  };
  const ValueId most = finite(n.Add("ReduceMax", {x, r.axes}, {{"keep_dims", true}}));
  const ValueId sum =
      n.Add("ReduceSum", {n.Add("Exp", {n.Add("Subtract", {x, most})}), r.axes}, r.attributes);
  const ValueId most_again = finite(n.Add("ReduceMax", {x, r.axes}, r.attributes));
  n.Out(0, n.Add("Add", {n.Add("Log", {sum}), most_again}));
}

// Of equal elements the first counts, or the last.
void ArgExtreme(OnnxNode& n) {
  const bool last = n.version() >= 12 && n.Flag("select_last_index", false);
  n.Out(0, n.Add(n.op().becomes, {n.In(0)},
                 {{"axis", n.Int("axis", 0)},
                  {"keepdims", int64_t{n.Flag("keepdims", true)}},
                  {"select_last_index", int64_t{last}}}));
}

void TopK(OnnxNode& n) {
  const int64_t axis = n.Int("axis", -1);
  if (n.version() < 10 ? n.num_inputs() != 1 : n.num_inputs() != 2) {
    n.Fail("k must be ", n.version() < 10 ? "an attribute" : "input 1", " at opset ", n.version());
    return;
  }
  const ValueId k = n.version() < 10 ? n.Scalar(n.Int("k", 0)) : AsScalar(n, n.In(1));
  const bool largest = n.version() < 11 || n.Flag("largest", true);
  if (n.version() >= 11) {
    n.Ignore("sorted");  // without it any order will do
  }
  const ValueId top = n.Add("TopK", {n.In(0), k},
                            {{"axis", axis},
                             {"mode", largest ? "max" : "min"},
                             {"sort", "value"},
                             {"index_element_type", "i64"}},
                            2);
  n.Out(0, top);
  n.Out(1, {top.node, top.present() ? 1 : 0});
}

// CumSum and CumProd.
void Cumulative(OnnxNode& n) {
  n.Out(0,
        n.Add(n.op().becomes, {n.In(0), AsScalar(n, n.In(1))},
              {{"exclusive", n.Flag("exclusive", false)}, {"reverse", n.Flag("reverse", false)}}));
}

void Unique(OnnxNode& n) {
  std::vector<ValueId> inputs = {n.In(0)};
  if (n.HasAttribute("axis")) {
    inputs.push_back(n.Scalar(n.Int("axis", 0)));
  }
  const ValueId unique =
      n.Add("Unique", std::move(inputs), {{"sorted", n.Flag("sorted", true)}}, 4);
  for (int i = 0; i < 4; ++i) {
    n.Out(i, {unique.node, unique.present() ? i : 0});
  }
}

}  // namespace

std::vector<OnnxOperator> OnnxReductions() {
  const std::vector<int> usual = {1, 11, 13, 18};
  const std::vector<int> of_logarithms = {1, 11, 13, 18, 28};
  const std::vector<int> extreme = {1, 11, 12, 13, 18, 20};
  return {
      {"ArgMax", {1, 11, 12, 13}, 1, 1, 1, "ArgMax", ArgExtreme},
      {"ArgMin", {1, 11, 12, 13}, 1, 1, 1, "ArgMin", ArgExtreme},
      {"CumProd", {26}, 2, 2, 1, "CumProd", Cumulative},
      {"CumSum", {11, 14}, 2, 2, 1, "CumSum", Cumulative},
      {"ReduceL1", usual, 1, 2, 1, "ReduceL1", Plain},
      {"ReduceL2", usual, 1, 2, 1, "ReduceL2", Plain},
      {"ReduceLogSum", of_logarithms, 1, 2, 1, "ReduceSum, Log", ReduceLogSum},
      {"ReduceLogSumExp", of_logarithms, 1, 2, 1, "ReduceMax, Exp, ReduceSum, Log",
       ReduceLogSumExp},
      {"ReduceMax", extreme, 1, 2, 1, "ReduceMax, ReduceLogicalOr", ReduceMax},
      {"ReduceMean", usual, 1, 2, 1, "ReduceMean", Plain},
      {"ReduceMin", extreme, 1, 2, 1, "ReduceMin, ReduceLogicalAnd", ReduceMin},
      {"ReduceProd", usual, 1, 2, 1, "ReduceProd", Plain},
      {"ReduceSum", {1, 11, 13}, 1, 2, 1, "ReduceSum", ReduceSum},
      {"ReduceSumSquare", usual, 1, 2, 1, "Multiply, ReduceSum", ReduceSumSquare},
      {"Unique", {11, 28}, 1, 1, 4, "Unique", Unique},
      {"TopK", {1, 10, 11, 24}, 1, 2, 2, "TopK", TopK},
  };
}

}  // namespace beamwright::ops
