#include "tests/engine/trial_encoders.h"

namespace beamwright::engine_testing {
namespace {

using ops::DType;
using ops::ValueId;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Joined;
using testing_support::Last;
using testing_support::Sliced;

const std::vector<int64_t> kAll = {0, 1, 2};

ValueId Standardised(Layers& in, ValueId x, const std::vector<int64_t>& axes) {
  const ValueId centred = in.Add("Subtract", {x, in.Reduce("ReduceMean", x, axes)});
  const ValueId variance = in.Reduce("ReduceMean", in.Add("Multiply", {centred, centred}), axes);
  const ValueId deviation = in.Add("Sqrt", {in.Add("Add", {variance, in.F32(1e-5f)})});
  return in.Add("Divide", {centred, deviation});
}

ValueId QuantisedByMaximum(Layers& in, ValueId x) {
  const ValueId most = in.Reduce("ReduceMax", in.Add("Abs", {x}), kAll);
  const ValueId scale = in.Add("Divide", {most, in.F32(127)});
  return in.Add("Multiply", {in.Add("Round", {in.Add("Divide", {x, scale})}), scale});
}

ValueId BatchNormInTraining(Layers& in, ValueId x) {
  const ValueId channels = in.Transpose(x, {0, 2, 1});
  const ValueId mean = in.Reduce("ReduceMean", x, {0, 1}, false);
  const ValueId off = in.Add("SquaredDifference", {x, mean});
  const ValueId variance = in.Reduce("ReduceMean", off, {0, 1}, false);
  const ValueId ones =
      in.graph.Constant(ops::Tensor::Of<float>({kFeatures}, std::vector<float>(kFeatures, 1)));
  const ValueId normal =
      in.Add("BatchNormInference", {channels, ones, ones, mean, variance}, {{"epsilon", 1e-5}});
  return in.Transpose(normal, {0, 2, 1});
}

// Both branches of an If over x.
ops::Graph Doubled(bool doubled) {
  GraphBuilder body;
  const ValueId x = body.Parameter("x", DType::kF32, {-1, -1, kFeatures});
  const ValueId factor = body.Constant(ops::Tensor::Scalar(doubled ? 2.0f : 1.0f));
  body.Result("y", body.Add("Multiply", {x, factor}));
  return body.Build();
}

ops::Graph MaximumOfAllTakenOff(bool taken_off) {
  GraphBuilder body;
  const ValueId x = body.Parameter("x", DType::kF32, {-1, -1, kFeatures});
  const ValueId most = body.Add("ReduceMax", {x, body.Ints({0})}, {{"keep_dims", true}});
  body.Result("y", body.Add("Subtract", {x, taken_off ? most : x}));
  return body.Build();
}

ValueId IfOnMaximum(Layers& in, ValueId x) {
  const ValueId most = in.Reduce("ReduceMax", x, kAll, false);
  return in.graph.If({in.Add("Greater", {most, in.F32(3)}), x}, Doubled(true), Doubled(false));
}

ValueId BranchThatMixes(Layers& in, ValueId x) {
  const ValueId is_long = in.Add("Greater", {in.Extent(x, 1), in.graph.Int(1)});
  return in.graph.If({is_long, x}, MaximumOfAllTakenOff(true), MaximumOfAllTakenOff(false));
}

ValueId MixedByReshape(Layers& in, ValueId x) {
  const ValueId target = in.Add(
      "Concat", {in.List(in.Extent(x, 1)), in.List(in.Extent(x, 0)), in.graph.Ints({kFeatures})},
      {{"axis", int64_t{0}}});
  const ValueId mixed = in.Add("Reshape", {x, target}, {{"special_zero", false}});
  return in.Transpose(mixed, {1, 0, 2});
}

// A loop over sources, with a state that goes from one to the next.
ValueId LoopOverSources(Layers& in, ValueId x) {
  GraphBuilder body;
  const ValueId slice = body.Parameter("x", DType::kF32, {1, -1, kFeatures});
  const ValueId state = body.Parameter("state", DType::kF32, {1, 1, kFeatures});
  const ValueId mean = body.Add("ReduceMean", {slice, body.Ints({1})}, {{"keep_dims", true}});
  const ValueId next = body.Add("Add", {state, mean});
  body.Result("part", body.Add("Add", {slice, next}));
  body.Result("next", next);
  ops::Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 0), Carried(1, 1, 1)};
  loop.outputs = {Joined(0, 0, 0)};
  const ValueId zeros = in.graph.Constant(ops::Tensor::Zeros(DType::kF32, {1, 1, kFeatures}));
  return in.graph.Loop({x, zeros}, std::move(loop), 1);
}

// Halves all until the largest is below 1.
ValueId LoopUntilAllAreSmall(Layers& in, ValueId x) {
  GraphBuilder body;
  const ValueId state = body.Parameter("x", DType::kF32, {-1, -1, kFeatures});
  const ValueId half = body.Add("Multiply", {state, body.Constant(ops::Tensor::Scalar(0.7f))});
  const ValueId most = body.Add("ReduceMax", {half, body.Ints({0, 1, 2})}, {{"keep_dims", false}});
  body.Result("half", half);
  body.Result("more", body.Add("Greater", {most, body.Constant(ops::Tensor::Scalar(1.0f))}));
  ops::Loop loop;
  loop.body = body.Build();
  loop.inputs = {Carried(0, 0, 0)};
  loop.outputs = {Last(0, 0)};
  loop.condition_result = 1;
  return in.graph.Loop({x}, std::move(loop), 1);
}

// A loop over time whose state is scaled by the largest of all sources.
ValueId LoopThatMixes(Layers& in, ValueId x) {
  GraphBuilder body;
  const ValueId slice = body.Parameter("x", DType::kF32, {-1, 1, kFeatures});
  const ValueId state = body.Parameter("state", DType::kF32, {-1, 1, kFeatures});
  const ValueId sum = body.Add("Add", {slice, state});
  const ValueId most =
      body.Add("ReduceMax", {body.Add("Abs", {sum}), body.Ints({0})}, {{"keep_dims", true}});
  const ValueId next = body.Add("Divide", {sum, most});
  body.Result("next", next);
  ops::Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 1), Carried(1, 1, 0)};
  loop.outputs = {Joined(0, 0, 1)};
  return in.graph.Loop({x, in.Reduce("ReduceMean", x, {1})}, std::move(loop), 1);
}

ValueId AttentionOverSources(Layers& in, ValueId x) {
  const ValueId scores = in.Add("Einsum", {x, x}, {{"equation", std::string("ntf,mtf->nm")}});
  const ValueId weights = in.Add("SoftMax", {scores}, {{"axis", int64_t{1}}});
  return in.Add("Einsum", {weights, x}, {{"equation", std::string("nm,mtf->ntf")}});
}

// Sources where pixels were meant.
ValueId WindowsOverSources(Layers& in, ValueId x, bool convolution) {
  const std::vector<int64_t> one = {1};
  const std::vector<std::pair<std::string, ops::AttributeValue>> window = {
      {"strides", one}, {"dilations", one}, {"pads_begin", one}, {"pads_end", one}};
  auto pool = window;
  pool.push_back({"kernel", std::vector<int64_t>{3}});
  const ValueId across = in.Transpose(x, {1, 2, 0});
  const ValueId out =
      convolution ? in.Add("Convolution", {across, in.Weight({kFeatures, kFeatures, 3})}, window)
                  : in.Add("MaxPool", {across}, pool);
  return in.Transpose(out, {2, 0, 1});
}

ValueId Rolled(Layers& in, ValueId x) {
  const auto slice = [&](int64_t from, int64_t to) {
    return in.Add("Slice", {x, in.graph.Ints({from}), in.graph.Ints({to}), in.graph.Ints({1}),
                            in.graph.Ints({0})});
  };
  return in.Add("Concat", {slice(1, 1 << 30), slice(0, 1)}, {{"axis", int64_t{0}}});
}

std::vector<TrialEncoder> ByReduction() {
  return {
      {"WhisperClamp",
       [](Layers& in, ValueId x) {
         const ValueId least = in.Add("Subtract", {in.Reduce("ReduceMax", x, kAll), in.F32(2)});
         return in.Add("Maximum", {x, least});
       }},
      {"QuantisedByMaximum", QuantisedByMaximum},
      {"FakeQuantizeInComputedRange",
       [](Layers& in, ValueId x) {
         const ValueId low = in.Reduce("ReduceMin", x, kAll);
         const ValueId high = in.Reduce("ReduceMax", x, kAll);
         return in.Add("FakeQuantize", {x, low, high, low, high}, {{"levels", int64_t{16}}});
       }},
      {"BatchNormInTraining", BatchNormInTraining},
      {"StandardisedOverBatch", [](Layers& in, ValueId x) { return Standardised(in, x, {0}); }},
      {"CentredOverBatch",
       [](Layers& in, ValueId x) {
         return in.Add("Subtract", {x, in.Reduce("ReduceMean", x, {0})});
       }},
      {"MvnOverAll",
       [](Layers& in, ValueId x) {
         return in.Add("MVN", {x, in.graph.Ints(kAll)},
                       {{"eps", 1e-5},
                        {"eps_mode", std::string("inside_sqrt")},
                        {"normalize_variance", true}});
       }},
      {"NormalizeL2OverBatch",
       [](Layers& in, ValueId x) {
         return in.Add("NormalizeL2", {x, in.graph.Ints({0})},
                       {{"eps", 1e-5}, {"eps_mode", std::string("add")}});
       }},
      {"SoftmaxOverBatch",
       [](Layers& in, ValueId x) {
         return in.Add("SoftMax", {x}, {{"axis", int64_t{0}}});
       }},
      {"AnyLoud",
       [](Layers& in, ValueId x) {
         const ValueId any = in.Reduce("ReduceLogicalOr", in.Add("Greater", {x, in.F32(3)}), kAll);
         return in.Add("Select", {any, in.Add("Multiply", {x, in.F32(0.5f)}), x});
       }},
      {"EinsumOverBatch",
       [](Layers& in, ValueId x) {
         const ValueId sum = in.Add("Einsum", {x}, {{"equation", std::string("ntf->tf")}});
         return in.Add("Subtract", {x, sum});
       }},
      {"AttentionOverSources", AttentionOverSources},
      {"MaxPoolOverBatch", [](Layers& in, ValueId x) { return WindowsOverSources(in, x, false); }},
      {"ConvolutionOverBatch",
       [](Layers& in, ValueId x) { return WindowsOverSources(in, x, true); }},
  };
}

std::vector<TrialEncoder> ByOrderOrNumber() {
  return {
      {"TopKOverBatch",
       [](Layers& in, ValueId x) {
         const ValueId top = in.graph.Add(
             "TopK", {x, in.graph.Int(1)},
             {{"axis", int64_t{0}}, {"mode", std::string("max")}, {"sort", std::string("value")}},
             "", 2);
         return in.Add("Subtract", {x, top});
       }},
      {"ArgMaxOverBatch",
       [](Layers& in, ValueId x) {
         const ValueId place =
             in.Add("ArgMax", {x}, {{"axis", int64_t{0}}, {"keepdims", int64_t{1}}});
         return in.Add("Add", {x, in.Float(place)});
       }},
      {"GatherByComputedIndex",
       [](Layers& in, ValueId x) {
         const ValueId loudness = in.Reduce("ReduceSum", x, {1, 2}, false);
         const ValueId loudest =
             in.Add("ArgMax", {loudness}, {{"axis", int64_t{0}}, {"keepdims", int64_t{1}}});
         return in.Add("Add", {x, in.Add("Gather", {x, loudest, in.graph.Int(0)})});
       }},
      {"FirstOfBatchTakenOff",
       [](Layers& in, ValueId x) {
         const ValueId first = in.Add("Gather", {x, in.graph.Ints({0}), in.graph.Int(0)});
         return in.Add("Subtract", {in.Add("Multiply", {x, in.F32(3)}), first});
       }},
      {"CumSumOverBatch",
       [](Layers& in, ValueId x) {
         return in.Add("CumSum", {x, in.graph.Int(0)});
       }},
      {"ReversedBatch",
       [](Layers& in, ValueId x) {
         return in.Add("Reverse", {x, in.graph.Ints({0})}, {{"mode", std::string("index")}});
       }},
      {"RolledBatch", Rolled},
      {"NumberOfNonZeros",
       [](Layers& in, ValueId x) {
         const ValueId places = in.Add("NonZero", {in.Add("Greater", {x, in.F32(1)})},
                                       {{"output_type", std::string("i64")}});
         return in.Add("Multiply", {x, in.Float(in.Extent(places, 1))});
       }},
      {"DividedByBatchSize",
       [](Layers& in, ValueId x) {
         return in.Add("Divide", {x, in.Float(in.Extent(x, 0))});
       }},
      {"PlaceInBatch",
       [](Layers& in, ValueId x) {
         const ValueId places = in.Add("Range", {in.graph.Int(0), in.Extent(x, 0), in.graph.Int(1)},
                                       {{"output_type", std::string("f32")}});
         return in.Add("Add", {x, in.Add("Unsqueeze", {places, in.graph.Ints({1, 2})})});
       }},
      {"NumberOfPlacesInBatch",
       [](Layers& in, ValueId x) {
         const ValueId places = in.Add("Range", {in.graph.Int(0), in.Extent(x, 0), in.graph.Int(1)},
                                       {{"output_type", std::string("i64")}});
         return in.Add("Multiply", {x, in.Float(in.Extent(places, 0))});
       }},
      {"ReshapeOfBatchAndTime", MixedByReshape},
      {"IfOnMaximum", IfOnMaximum},
      {"BranchThatMixes", BranchThatMixes},
      {"LoopOverSources", LoopOverSources},
      {"LoopUntilAllAreSmall", LoopUntilAllAreSmall},
      {"LoopThatMixes", LoopThatMixes},
  };
}

}  // namespace

std::vector<TrialEncoder> CouplingEncoders() {
  std::vector<TrialEncoder> all = ByReduction();
  for (TrialEncoder& encoder : ByOrderOrNumber()) {
    all.push_back(std::move(encoder));
  }
  return all;
}

}  // namespace beamwright::engine_testing
