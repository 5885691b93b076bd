// Random encoders of which each position goes its own way but for recurrent layers: cells,
// directions and layouts as files have them, and between them what looks at one position at a time
// or at last states.
#ifndef BEAMWRIGHT_TESTS_SUPPORT_RECURRENT_ENCODER_H_
#define BEAMWRIGHT_TESTS_SUPPORT_RECURRENT_ENCODER_H_

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ops/import/recurrent_sequence.h"
#include "tests/support/graph_builder.h"
#include "tests/support/random_weight.h"

namespace beamwright::testing_support {

class RecurrentEncoder {
 public:
  using Value = ops::ValueId;

  RecurrentEncoder(uint32_t seed, int64_t num_ids, int64_t width)
      : random_(seed), num_ids_(num_ids), width_(width) {}

  // "source" [rows, length] of ids -> "memory" [rows, one or more for each position, width],
  // "time_first", the same transposed, "first_h" [rows, width], and "last0", "last1", .. as layers
  // have their states.
  ops::Graph Build() {
    const Value source = graph_.Parameter("source", ops::DType::kI64, {-1, -1});
    Value x = graph_.Add("Gather", {Weight({num_ids_, width_}), source, graph_.Int(0)});
    for (int left = Pick(1, 3); left > 0; --left) {
      x = Pick(0, 3) == 0 ? Iterator(x) : Sequence(x);
      for (int between = Pick(0, 2); between > 0; --between) {
        x = Between(x);
      }
      if (Pick(0, 5) == 0) {  // two for each position
        x = graph_.Add("Reshape", {Product(x, width_, 2 * width_), graph_.Ints({0, -1, width_})},
                       {{"special_zero", true}});
      }
    }
    graph_.Result("memory", x);
    graph_.Result("time_first", Transpose(x, {1, 0, 2}));
    graph_.Result("first_h", graph_.Add("Tanh", {Product(last_, width_, width_)}));
    for (size_t i = 0; i < states_.size(); ++i) {
      graph_.Result("last" + std::to_string(i), graph_.Add("Exp", {states_[i]}));
    }
    return graph_.Build();
  }

 private:
  using Layer = ops::RecurrentSequence;

  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  ops::Tensor Random(const ops::Shape& shape) { return RandomWeight(shape, random_); }
  Value Weight(const ops::Shape& shape) { return graph_.Constant(Random(shape)); }

  Value Transpose(Value x, std::vector<int64_t> order) {
    return graph_.Add("Transpose", {x, graph_.Ints(std::move(order))});
  }
  Value Product(Value x, int64_t from, int64_t to) {
    return graph_.Add("MatMul", {x, Weight({from, to})});
  }
  Value Joined(Value a, Value b) {
    return Product(graph_.Add("Concat", {a, b}, {{"axis", int64_t{2}}}), 2 * width_, width_);
  }
  Value Extent(Value x, int64_t axis) {
    return graph_.Add("Gather", {graph_.Add("ShapeOf", {x}), graph_.Ints({axis}), graph_.Int(0)});
  }

  // A sequence operator, in one direction or both.
  Value Sequence(Value x) {
    constexpr Layer::Cell kCells[] = {Layer::Cell::kLstm, Layer::Cell::kGru, Layer::Cell::kRnn};
    constexpr int64_t kGates[] = {4, 3, 1};
    constexpr Layer::Direction kDirections[] = {
        Layer::Direction::kForward, Layer::Direction::kReverse, Layer::Direction::kBidirectional};
    constexpr Layer::Layout kLayouts[] = {Layer::Layout::kOnnx, Layer::Layout::kOnnxBatchFirst,
                                          Layer::Layout::kOpenVino};
    const int cell = Pick(0, 2);
    Layer layer;
    layer.cell = kCells[cell];
    layer.direction = kDirections[Pick(0, 2)];
    layer.layout = kLayouts[Pick(0, 2)];
    layer.weights = Layer::Weights::kOnnx;
    layer.linear_before_reset = cell == 1 && Pick(0, 1) == 1;
    layer.hidden_size = width_;
    const int64_t directions = layer.direction == Layer::Direction::kBidirectional ? 2 : 1;
    const bool is_time_first = layer.layout == Layer::Layout::kOnnx;
    layer.x = is_time_first ? Transpose(x, {1, 0, 2}) : x;
    layer.w = Weight({directions, kGates[cell] * width_, width_});
    layer.r = Weight({directions, kGates[cell] * width_, width_});
    layer.b = Pick(0, 1) == 1 ? Weight({directions, 2 * kGates[cell] * width_}) : Value();
    ops::Graph built = graph_.Build();
    const auto outputs = AppendRecurrentSequence(layer, "layer", built);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    graph_ = GraphBuilder(std::move(built));
    states_.push_back(outputs->h);
    if (cell == 0) {
      states_.push_back(outputs->c);
    }
    last_ = graph_.Add("Gather",
                       {outputs->h, graph_.Int(directions - 1), graph_.Int(is_time_first ? 0 : 1)});
    const std::vector<int64_t> order = is_time_first ? std::vector<int64_t>{2, 0, 1, 3}
                                       : layer.layout == Layer::Layout::kOpenVino
                                           ? std::vector<int64_t>{0, 2, 1, 3}
                                           : std::vector<int64_t>{0, 1, 2, 3};
    const Value flat =
        graph_.Add("Reshape", {Transpose(outputs->y, order), graph_.Ints({0, 0, -1})},
                   {{"special_zero", true}});
    return Product(flat, directions * width_, width_);
  }

  // A loop that a file spells out, over slices that keep their axis, of which the next layer reads
  // outputs in the order of positions, and its first state is what another layer ended with.
  Value Iterator(Value x) {
    const bool is_backward = Pick(0, 1) == 1;
    const Value zeros = graph_.Add(
        "Broadcast",
        {graph_.Constant(ops::Tensor::Scalar(0.0f)),
         graph_.Add("Concat", {Extent(x, 0), graph_.Ints({width_})}, {{"axis", int64_t{0}}})});
    const std::vector<Value> inputs = {x, last_.present() ? last_ : zeros, zeros};
    GraphBuilder body;
    const Value slice = body.Parameter("x", ops::DType::kF32, {-1, 1, width_});
    const Value h = body.Parameter("h", ops::DType::kF32, {-1, width_});
    const Value c = body.Parameter("c", ops::DType::kF32, {-1, width_});
    const Value cell =
        body.Add("LSTMCell",
                 {body.Add("Squeeze", {slice, body.Ints({1})}), h, c,
                  body.Constant(Random({4 * width_, width_})),
                  body.Constant(Random({4 * width_, width_})), body.Constant(Random({4 * width_}))},
                 {{"hidden_size", width_}}, "cell", 2);
    // Something reads the slice as it is, too.
    const Value part = body.Add("Add", {slice, body.Add("Unsqueeze", {cell, body.Ints({1})})});
    body.Result("part", part);
    body.Result("next_h", cell);
    body.Result("next_c", {cell.node, 1});
    ops::Loop loop;
    loop.body = body.Build();
    loop.inputs = {is_backward ? Sliced(0, 0, 1, -1, 0, -1) : Sliced(0, 0, 1), Carried(1, 1, 1),
                   Carried(2, 2, 2)};
    loop.outputs = {testing_support::Joined(0, 0, 1, is_backward), Last(1, 1)};
    const Value y = graph_.Loop(inputs, std::move(loop), 2);
    last_ = {y.node, 1};
    states_.push_back(last_);
    return y;
  }

  // What leaves positions apart.
  Value Between(Value x) {
    switch (Pick(0, 5)) {
      case 0:
        return graph_.Add("Tanh", {graph_.Add("Add", {Product(x, width_, width_), x})});
      case 1: {
        const Value mean = graph_.Add("ReduceMean", {x, graph_.Ints({-1})}, {{"keep_dims", true}});
        return graph_.Add("Subtract", {x, mean});
      }
      case 2:  // the last state with each position, by broadcasting
        return graph_.Add("Add", {x, graph_.Add("Unsqueeze", {last_, graph_.Ints({1})})});
      case 3: {  // and as often as there are positions
        const Value shape = graph_.Add(
            "Concat", {Extent(x, 0), Extent(x, 1), graph_.Ints({width_})}, {{"axis", int64_t{0}}});
        const Value repeated =
            graph_.Add("Broadcast", {graph_.Add("Unsqueeze", {last_, graph_.Ints({1})}), shape});
        return Joined(x, repeated);
      }
      case 4:
        return graph_.Add("SoftMax", {x}, {{"axis", int64_t{2}}});
      default:
        return Joined(graph_.Add("Sigmoid", {x}), x);
    }
  }

  std::mt19937 random_;
  int64_t num_ids_;
  int64_t width_;
  GraphBuilder graph_;
  std::vector<Value> states_;
  Value last_;  // [rows, width]: of the layer before
};

}  // namespace beamwright::testing_support

#endif  // BEAMWRIGHT_TESTS_SUPPORT_RECURRENT_ENCODER_H_
