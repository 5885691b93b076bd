// The table bundle with loops in encoder and step that some sources keep from coming to an end:
// 2^40 iterations. What the loops compute adds 0 to what the table says.
#ifndef BEAMWRIGHT_TESTS_ENGINE_HANGING_BUNDLE_H_
#define BEAMWRIGHT_TESTS_ENGINE_HANGING_BUNDLE_H_

#include <string>
#include <utility>
#include <vector>

#include "tests/engine/table_bundle.h"

namespace beamwright::engine_testing {

// Sums of the ids of a source; too large for those that models are tried with at load.
inline constexpr int64_t kHangsInEncoder = 770;
inline constexpr int64_t kHangsInStep = 771;
inline constexpr int64_t kHangsInPrologue = 772;
inline constexpr int64_t kHangingStep = 3;

// 20 ids with this sum.
inline std::vector<int32_t> SourceOfSum(int64_t sum) {
  std::vector<int32_t> ids;
  for (int64_t left = 20; left > 0; --left) {
    ids.push_back(static_cast<int32_t>(sum / left));
    sum -= ids.back();
  }
  return ids;
}

// Zeros like `values`, f32 [rows], after 2^40 iterations if any element of `hangs`, i64 [n], is 1,
// and after one if all are 0.
inline testing_support::GraphBuilder::Value SlowZeros(testing_support::GraphBuilder& graph,
                                                      testing_support::GraphBuilder::Value values,
                                                      testing_support::GraphBuilder::Value hangs) {
  const auto any = graph.Add("ReduceMax", {hangs, graph.Ints({0})}, {{"keep_dims", false}});
  const auto trips =
      graph.Add("Add", {graph.Add("Multiply", {any, graph.Int(int64_t{1} << 40)}), graph.Int(1)});
  testing_support::GraphBuilder body;
  const auto x = body.Parameter("x", ops::DType::kF32, {-1});
  body.Result("y", body.Add("Sin", {x}));
  ops::Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Carried(0, 0, 0)};
  loop.trip_count_input = 1;
  loop.outputs = {testing_support::Last(0, 0)};
  const auto out = graph.Loop({values, trips}, std::move(loop), 1);
  return graph.Add("Multiply", {out, graph.Constant(ops::Tensor::Scalar(0.0f))});
}

inline ops::Graph HangingEncoder(bool always = false) {
  testing_support::GraphBuilder graph;
  const auto source = graph.Parameter("source", ops::DType::kI64, {-1, -1});
  const auto sum = graph.Add("ReduceSum", {source, graph.Ints({1})}, {{"keep_dims", false}});
  const auto is = [&](int64_t which) {
    return graph.Add("Convert", {graph.Add("Equal", {sum, graph.Int(which)})},
                     {{"destination_type", std::string("i64")}});
  };
  const auto floats = graph.Add("Convert", {sum}, {{"destination_type", std::string("f32")}});
  const auto hangs = graph.Add("Maximum", {is(kHangsInEncoder), graph.Int(always ? 1 : 0)});
  const auto zeros = graph.Add("Convert", {SlowZeros(graph, floats, hangs)},
                               {{"destination_type", std::string("i64")}});
  const auto state = graph.Add("FloorMod", {sum, graph.Int(kStates)});
  graph.Result("first_state", graph.Add("Add", {state, zeros}));
  graph.Result("hangs_in_step", is(kHangsInStep));
  graph.Result("hangs_in_prologue", is(kHangsInPrologue));
  return graph.Build();
}

inline ops::Graph HangingStep(const std::vector<float>& table) {
  testing_support::GraphBuilder graph;
  const auto token = graph.Parameter("token", ops::DType::kI64, {-1});
  const auto state = graph.Parameter("state", ops::DType::kI64, {-1});
  const auto count = graph.Parameter("count", ops::DType::kI64, {-1});
  const auto in_step = graph.Parameter("hangs_in_step", ops::DType::kI64, {-1});
  const auto in_prologue = graph.Parameter("hangs_in_prologue", ops::DType::kI64, {-1});
  const auto next = NextStates(graph, state, graph.Add("Multiply", {token, graph.Int(7)}));
  const auto floats = graph.Add("Convert", {next}, {{"destination_type", std::string("f32")}});
  const auto now = graph.Add("Convert", {graph.Add("Equal", {count, graph.Int(kHangingStep)})},
                             {{"destination_type", std::string("i64")}});
  const auto rows = SlowZeros(graph, floats, graph.Add("Multiply", {now, in_step}));
  // Of the request alone.
  const auto memory =
      graph.Add("Convert", {in_prologue}, {{"destination_type", std::string("f32")}});
  const auto request = SlowZeros(graph, memory, in_prologue);
  const auto zeros = graph.Add("Unsqueeze", {graph.Add("Add", {rows, request}), graph.Ints({1})});
  const auto lines = graph.Constant(ops::Tensor::Of<float>({kStates, kVocabulary}, table));
  graph.Result("logits",
               graph.Add("Add", {graph.Add("Gather", {lines, next, graph.Int(0)}), zeros}));
  graph.Result("next_state", next);
  graph.Result("next_count", graph.Add("Add", {count, graph.Int(1)}));
  return graph.Build();
}

inline bundle::Bundle HangingBundle(const std::vector<float>& table) {
  bundle::Bundle bundle = TableBundle(table, {});
  bundle.name = "hanging";
  bundle.encoder = HangingEncoder();
  bundle.decoder = HangingStep(table);
  v1::DecoderConfig& decoder = *bundle.config.mutable_decoder();
  v1::StateConfig& count = *decoder.add_states();
  count.set_input("count");
  count.set_output("next_count");
  count.set_constant(0);
  for (const char* name : {"hangs_in_step", "hangs_in_prologue"}) {
    v1::MemoryConfig& memory = *decoder.add_memory();
    memory.set_input(name);
    memory.set_encoder_output(name);
  }
  return bundle;
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_HANGING_BUNDLE_H_
