// Encoders over embedded source ids, for the question whether sources may be encoded together:
// those that couple the sources of a batch, by value, by position or by their number, and those
// that the world uses, which do not.
#ifndef BEAMWRIGHT_TESTS_ENGINE_TRIAL_ENCODERS_H_
#define BEAMWRIGHT_TESTS_ENGINE_TRIAL_ENCODERS_H_

#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "beamwright/v1/model.pb.h"
#include "tests/support/graph_builder.h"

namespace beamwright::engine_testing {

inline constexpr int64_t kFeatures = 6;
inline constexpr int kSourceIds = 50;

// What a layer is built from.
struct Layers {
  using Value = ops::ValueId;

  testing_support::GraphBuilder& graph;
  Value lengths;  // [rows]; absent unless the encoder has such an input
  std::mt19937 random{5};

  // Random, about 1 / sqrt(last extent).
  Value Weight(const ops::Shape& shape);
  Value F32(float value) { return graph.Constant(ops::Tensor::Scalar(value)); }
  Value Add(const std::string& op, std::vector<Value> inputs,
            std::vector<std::pair<std::string, ops::AttributeValue>> attributes = {}) {
    return graph.Add(op, std::move(inputs), std::move(attributes));
  }
  Value Reduce(const std::string& op, Value x, std::vector<int64_t> axes, bool keep = true) {
    return Add(op, {x, graph.Ints(std::move(axes))}, {{"keep_dims", keep}});
  }
  Value Transpose(Value x, std::vector<int64_t> order) {
    return Add("Transpose", {x, graph.Ints(std::move(order))});
  }
  // Extent `axis` of x, a scalar.
  Value Extent(Value x, int64_t axis) {
    return Add("Gather", {Add("ShapeOf", {x}, {{"output_type", std::string("i64")}}),
                          graph.Int(axis), graph.Int(0)});
  }
  Value List(Value scalar) { return Add("Unsqueeze", {scalar, graph.Ints({0})}); }
  Value Float(Value x) { return Add("Convert", {x}, {{"destination_type", std::string("f32")}}); }
};

struct TrialEncoder {
  const char* name;
  // x [rows, time, kFeatures] -> the same shape.
  std::function<ops::ValueId(Layers&, ops::ValueId x)> middle;
  v1::LengthInput length_kind = v1::LENGTH_INPUT_NONE;

  friend void PrintTo(const TrialEncoder& encoder, std::ostream* out) { *out << encoder.name; }
};

// Each lets one source of a batch change what another one becomes.
std::vector<TrialEncoder> CouplingEncoders();
// None does.
std::vector<TrialEncoder> UsualEncoders();

// The encoder's graph: ids "source" [rows, time] (and "lengths") -> "first_h" [rows, columns].
ops::Graph BuildEncoder(const TrialEncoder& encoder, int64_t columns);

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_TRIAL_ENCODERS_H_
