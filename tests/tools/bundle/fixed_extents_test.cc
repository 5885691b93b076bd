// An export for one length of its example must be reported before it is served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/graph/inference.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"
#include "tools/bundle/encoder_layout.h"

namespace beamwright::tools {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::GraphBuilder;

ops::Graph Inferred(ops::Graph graph) {
  EXPECT_TRUE(InferGraph(graph, ops::Operators()).ok());
  return graph;
}

// Source [rows, length] to memory of the same extents.
ops::Graph Encoder(int64_t length) {
  GraphBuilder graph;
  const auto source = graph.Parameter("source", ops::DType::kF32, {-1, length});
  graph.Result("annotations", graph.Add("Tanh", {source}));
  return Inferred(graph.Build());
}

ops::Graph Decoder(int64_t length) {
  GraphBuilder graph;
  const auto memory = graph.Parameter("memory", ops::DType::kF32, {-1, length});
  graph.Result("logits", graph.Add("Tanh", {memory}));
  return Inferred(graph.Build());
}

std::vector<std::string> Lines(int64_t encoder_length, int64_t decoder_length) {
  v1::EncoderConfig config;
  config.set_input("source");
  ops::DecoderRoles roles;
  ops::MemoryRole& memory = roles.memory.emplace_back();
  memory.input = "memory";
  memory.encoder_output = "annotations";
  const ops::Graph encoder = Encoder(encoder_length);
  return FixedExtents(&encoder, config, Decoder(decoder_length), roles);
}

TEST(FixedExtents, OpenOnesNeedNoLine) { EXPECT_THAT(Lines(-1, -1), IsEmpty()); }

TEST(FixedExtents, ALengthOfTheSourceIsToldWithTheRemedy) {
  EXPECT_THAT(Lines(9, 9),
              ElementsAre(AllOf(HasSubstr("every source must have exactly 9 positions: the export "
                                          "fixed axis 1 of 'source' f32[?, 9]"),
                                HasSubstr("dynamic_axes={'source': {0: 'rows', 1: 'length'}"))));
}

TEST(FixedExtents, AMemoryThatTheEncoderVariesIsTold) {
  EXPECT_THAT(Lines(-1, 7),
              ElementsAre(AllOf(HasSubstr("the encoder gives 'annotations' f32[?, ?], but the "
                                          "decoder takes 'memory' f32[?, 7]: the export fixed "
                                          "axis 1"),
                                HasSubstr("dynamic_axes={'memory'"))));
}

}  // namespace
}  // namespace beamwright::tools
