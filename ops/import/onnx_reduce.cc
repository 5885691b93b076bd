// ONNX's reductions, extreme values, running sums and normalisations.
//
// 1. Reductions: ReadReduction finds the axes, in an attribute or in an input, and whether they are
//    kept. Names that ONNX shares with OpenVINO have one operator; the logarithms and squares are
//    written as a few (ReduceLogSumExp subtracts the maximum before it takes exponentials).
// 2. Normalisations: MVN, mean and variance over given axes, then scale and bias. What differs
//    between them is over which axes the moments are taken and along which axis scale and bias lie:
//    from an axis to the end (LayerNormalization), the positions of each channel
//    (InstanceNormalization), or each group of channels (GroupNormalization). BatchNormalization
//    reads the moments from the file. com.microsoft's operators call LayerNormalized and
//    RmsNormalized as well.

#include <limits>

#include "ops/import/onnx_operators.h"

namespace beamwright::ops {

// Reductions, extreme values and running sums.

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

// Normalisations.

namespace {

constexpr double kEpsilon = 1e-5f;

std::vector<int64_t> AxesFrom(OnnxNode& n, int64_t axis, int rank) {
  std::vector<int64_t> axes;
  for (int64_t at = n.Axis(axis, rank); at < rank; ++at) {
    axes.push_back(at);
  }
  return axes;
}

ValueId Normalised(OnnxNode& n, ValueId x, std::vector<int64_t> axes, double epsilon) {
  return n.Add("MVN", {x, n.List(axes)},
               {{"normalize_variance", true}, {"eps", epsilon}, {"eps_mode", "inside_sqrt"}});
}

// A list of one number a channel (axis 1), as it multiplies x.
ValueId PerChannel(OnnxNode& n, ValueId list, int rank) {
  std::vector<int64_t> pattern(static_cast<size_t>(rank), 1);
  if (rank >= 2) {
    pattern[1] = -1;
  }
  return Reshaped(n, list, pattern);
}

ValueId ScaledPerChannel(OnnxNode& n, ValueId x, int rank) {
  const ValueId scaled = n.Add("Multiply", {x, PerChannel(n, n.In(1), rank)});
  return n.Add("Add", {scaled, PerChannel(n, n.In(2), rank)});
}

void LayerNormalization(OnnxNode& n) {
  const double epsilon = n.Float("epsilon", kEpsilon);
  n.Ignore("stash_type");  // the type of intermediate values, f32 here
  const ValueId x = n.In(0);
  const std::vector<int64_t> axes = AxesFrom(n, n.Int("axis", -1), n.Rank(x));
  n.Out(0, LayerNormalized(n, x, axes, epsilon, n.In(1), n.In(2)));
  WriteMoments(n, x, axes, epsilon, 1);
}

void RmsNormalization(OnnxNode& n) {
  n.Ignore("stash_type");
  const ValueId x = n.In(0);
  const std::vector<int64_t> axes = AxesFrom(n, n.Int("axis", -1), n.Rank(x));
  n.Out(0, RmsNormalized(n, x, axes, n.Float("epsilon", kEpsilon), n.In(1), 1));
}

// With the statistics that training found.
void BatchNormalization(OnnxNode& n) {
  n.Ignore("momentum");
  if (n.version() < 9 && n.Int("spatial", 1) != 1) {
    n.Unsupported("attribute 'spatial' must be 1");
  }
  if (n.version() >= 14 && n.Flag("training_mode", false)) {
    n.Unsupported("attribute 'training_mode' must be 0");
  }
  n.Out(0, n.Add("BatchNormInference", {n.In(0), n.In(1), n.In(2), n.In(3), n.In(4)},
                 {{"epsilon", n.Float("epsilon", kEpsilon)}}));
}

void InstanceNormalization(OnnxNode& n) {
  const ValueId x = n.In(0);
  const int rank = n.Rank(x);
  const ValueId y = Normalised(n, x, AxesFrom(n, 2, rank), n.Float("epsilon", kEpsilon));
  n.Out(0, ScaledPerChannel(n, y, rank));
}

// Scale and bias: one a group until opset 20, then one a channel.
void GroupNormalization(OnnxNode& n) {
  const ValueId x = n.In(0);
  const int rank = n.Rank(x);
  const int64_t groups = n.Int("num_groups", 0);
  const double epsilon = n.Float("epsilon", kEpsilon);
  if (n.version() >= 21) {
    n.Ignore("stash_type");
  }
  if (n.ok() && (groups < 1 || rank < 2)) {
    n.Fail("attribute 'num_groups' is ", groups, " and the rank ", rank,
           "; they must be at least 1 and 2");
    return;
  }
  if (n.version() >= 21) {
    n.Out(0,
          n.Add("GroupNormalization", n.inputs(), {{"num_groups", groups}, {"epsilon", epsilon}}));
    return;
  }
  const ValueId grouped = Reshaped(n, x, {0, groups, -1});
  const ValueId y = ScaledPerChannel(n, Normalised(n, grouped, {2}, epsilon), 3);
  n.Out(0, n.Add("Reshape", {y, ShapeList(n, x)}, {{"special_zero", false}}));
}

// x / |x|, and 0 where that is 0.
void LpNormalization(OnnxNode& n) {
  const ValueId x = n.In(0);
  const int64_t p = n.Int("p", 2);
  if (p != 1 && p != 2) {
    n.Fail("attribute 'p' is ", p, "; it must be 1 or 2");
  }
  const ValueId norm = n.Add(p == 1 ? "ReduceL1" : "ReduceL2", {x, n.List({n.Int("axis", -1)})},
                             {{"keep_dims", true}});
  const ValueId zero = n.Like(0, x);
  const ValueId none = n.Add("Equal", {norm, zero});
  const ValueId divisor = n.Add("Select", {none, n.Like(1, x), norm});
  n.Out(0, n.Add("Select", {none, zero, n.Add("Divide", {x, divisor})}));
}

// x / (bias + alpha * mean)^beta, the mean being that of the squares of `size` channels around, of
// which those that there are not count as zeros. The channels stand on an axis of windows for that.
void LocalResponseNormalization(OnnxNode& n) {
  const ValueId x = n.In(0);
  const int rank = n.Rank(x);
  const int64_t size = n.Int("size", 0);
  const double alpha = n.Float("alpha", 1e-4f);
  const double beta = n.Float("beta", 0.75);
  const double bias = n.Float("bias", 1);
  if (n.ok() && (rank < 2 || size < 1)) {
    n.Fail("the rank is ", rank, " and attribute 'size' is ", size,
           "; they must be at least 2 and 1");
  }
  const std::vector<int64_t> ones = {1, 1};
  const auto first = [](int64_t number) { return std::vector<int64_t>{number, 0}; };
  const ValueId squares = Reshaped(n, n.Add("Multiply", {x, x}), {0, 0, -1});
  const ValueId means = n.Add("AvgPool", {n.Add("Unsqueeze", {squares, n.List({1})})},
                              {{"kernel", std::vector<int64_t>{size, 1}},
                               {"strides", ones},
                               {"pads_begin", first((size - 1) / 2)},
                               {"pads_end", first(size / 2)},
                               {"auto_pad", "explicit"},
                               {"rounding_type", "floor"},
                               {"exclude-pad", false}});
  const ValueId shaped = n.Add("Reshape", {means, ShapeList(n, x)}, {{"special_zero", false}});
  const ValueId sum =
      n.Add("Add", {n.Add("Multiply", {shaped, n.Like(alpha, x)}), n.Like(bias, x)});
  n.Out(0, n.Add("Divide", {x, n.Add("Power", {sum, n.Like(beta, x)})}));
}

// (x - mean) / (deviation + 1e-9)
void MeanVarianceNormalization(OnnxNode& n) {
  n.Out(0, n.Add("MVN", {n.In(0), n.List(n.Ints("axes", {0, 2, 3}))},
                 {{"normalize_variance", true}, {"eps", 1e-9}, {"eps_mode", "outside_sqrt"}}));
}

}  // namespace

ValueId LayerNormalized(OnnxNode& n, ValueId x, const std::vector<int64_t>& axes, double epsilon,
                        ValueId scale, ValueId bias) {
  const ValueId y = n.Add("Multiply", {Normalised(n, x, axes, epsilon), scale});
  return bias.present() ? n.Add("Add", {y, bias}) : y;
}

void WriteMoments(OnnxNode& n, ValueId x, const std::vector<int64_t>& axes, double epsilon,
                  int mean) {
  if (!n.Wants(mean) && !n.Wants(mean + 1)) {
    return;
  }
  const ValueId average = n.Add("ReduceMean", {x, n.List(axes)}, {{"keep_dims", true}});
  const ValueId difference = n.Add("Subtract", {x, average});
  const ValueId square = n.Add("Multiply", {difference, difference});
  const ValueId variance = n.Add("ReduceMean", {square, n.List(axes)}, {{"keep_dims", true}});
  const ValueId deviation = n.Add("Sqrt", {n.Add("Add", {variance, n.Like(epsilon, x)})});
  n.Out(mean, average);
  n.Out(mean + 1, n.Add("Divide", {n.Like(1, x), deviation}));
}

ValueId RmsNormalized(OnnxNode& n, ValueId x, const std::vector<int64_t>& axes, double epsilon,
                      ValueId scale, int inverse) {
  const ValueId square =
      n.Add("ReduceMean", {n.Add("Multiply", {x, x}), n.List(axes)}, {{"keep_dims", true}});
  const ValueId root = n.Add("Sqrt", {n.Add("Add", {square, n.Like(epsilon, x)})});
  if (inverse >= 0 && n.Wants(inverse)) {
    n.Out(inverse, n.Add("Divide", {n.Like(1, x), root}));
  }
  return n.Add("Multiply", {n.Add("Divide", {x, root}), scale});
}

std::vector<OnnxOperator> OnnxNormalization() {
  return {
      {"BatchNormalization", {7, 9, 14, 15}, 5, 5, 5, "BatchNormInference", BatchNormalization},
      {"GroupNormalization",
       {18, 21},
       3,
       3,
       1,
       "GroupNormalization, or MVN, Multiply, Add",
       GroupNormalization},
      {"InstanceNormalization", {6, 22}, 3, 3, 1, "MVN, Multiply, Add", InstanceNormalization},
      // Before opset 17 it is ONNX Runtime's own, which its optimiser writes into this domain.
      {"LayerNormalization", {1, 17}, 2, 3, 3, "MVN, Multiply, Add", LayerNormalization},
      {"LRN", {1, 13}, 1, 1, 1, "AvgPool, Power, Divide", LocalResponseNormalization},
      {"LpNormalization", {1, 22}, 1, 1, 1, "ReduceL1 or ReduceL2, Divide", LpNormalization},
      {"MeanVarianceNormalization", {9, 13}, 1, 1, 1, "MVN", MeanVarianceNormalization},
      {"RMSNormalization", {23}, 2, 2, 1, "ReduceMean, Sqrt, Divide, Multiply", RmsNormalization},
      // ONNX Runtime's own, in this domain.
      {"SimplifiedLayerNormalization",
       {1},
       2,
       2,
       2,
       "ReduceMean, Sqrt, Divide, Multiply",
       RmsNormalization},
  };
}

}  // namespace beamwright::ops
