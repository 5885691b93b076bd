// Damaged files: whatever happens to the bytes of a sound file, the answer is a graph or an error.
// Meant for the sanitizer builds; seeds are fixed.
#include <algorithm>
#include <iterator>
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ops/import/openvino_ir.h"
#include "tests/ops/import/ir_fixture.h"

namespace beamwright::ops {
namespace {

using fixture::Content;
using fixture::Layer;
using fixture::Net;
using fixture::Parameter;
using fixture::Port;
using fixture::Result;
using fixture::Unary;

// Uses as much of the format as fits in a small file.
std::string Seed() {
  Layer loop = fixture::Loop(
      7, "Loop",
      "<input external_port_id=\"2\" internal_layer_id=\"0\" axis=\"1\" start=\"-1\" end=\"0\" "
      "stride=\"-2\" part_size=\"2\"/><input external_port_id=\"3\" internal_layer_id=\"1\"/>"
      "<output external_port_id=\"4\" internal_layer_id=\"10\" axis=\"1\" stride=\"2\"/>"
      "<output external_port_id=\"-1\" internal_layer_id=\"11\" purpose=\"execution_condition\"/>",
      "<edge from-layer=\"11\" to-layer=\"1\"/>",
      Content({Parameter(0, "p", "?,2"),
               Parameter(1, "q", "..."),
               {2,
                "w",
                "Const",
                "element_type=\"boolean\" shape=\"3\" offset=\"1\" size=\"3\"",
                {},
                {Port(0, "3", "precision=\"BOOL\"")}},
               Result(10, "r"),
               Result(11, "s")},
              "0.0-10.0, 2.0-11.0"));
  loop.inputs = {Port(0, ""), Port(1, ""), Port(2, "-1,6"), Port(3, "")};
  loop.outputs = {Port(4, "-1,6", "precision=\"FP32\" names=\"a\\,b,c\"")};
  Layer clamp = Unary(5, "clamp", "Clamp");
  clamp.data = "min=\"-1\" max=\"1e3\"";
  return Net({Parameter(20, "x", "1..4,6"),
              Parameter(21, "y", ""),
              {3,
               "c",
               "Const",
               "element_type=\"f16\" shape=\"2, 2\" offset=\"0\" size=\"8\"",
               {},
               {Port(0, "2,2")}},
              clamp,
              loop,
              Result(22, "r"),
              Result(23, "k")},
             "21.0-7.0, 21.0-7.1, 20.0-5.0, 5.1-7.2, 21.0-7.3, 7.4-22.0, 3.0-23.0");
}

// One or two random edits: flipped, removed, doubled or exchanged bytes; digits become others.
std::string Mutate(const std::string& seed, std::mt19937& random) {
  std::string text = seed;
  const auto place = [&] { return random() % (text.size() + 1); };
  for (unsigned edits = 1 + random() % 2; edits > 0 && !text.empty(); --edits) {
    const size_t at = std::min<size_t>(place(), text.size() - 1);
    const size_t length = std::min<size_t>(random() % 60, text.size() - at);
    switch (random() % 8) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(place(), text.substr(at, length));
        break;
      case 3:
        text.resize(at);
        break;
      default: {  // numbers are where arithmetic can go wrong
        const size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) {
          constexpr const char* kNumbers[] = {"0",
                                              "1",
                                              "2",
                                              "3",
                                              "4",
                                              "5",
                                              "20",
                                              "-1",
                                              "7",
                                              "1000000",
                                              "9223372036854775807",
                                              "-9223372036854775808",
                                              "281474976710656",
                                              "1e999"};
          text.replace(digit, 1, kNumbers[random() % std::size(kNumbers)]);
        }
      }
    }
  }
  return text;
}

TEST(IrMutationTest, DamagedFilesNeverDoHarm) {
  const std::string seed = Seed();
  const std::string weights(16, '\x3c');
  ASSERT_TRUE(fixture::Parse(seed, weights).ok()) << fixture::Parse(seed, weights).status();
  std::mt19937 random(20240611);
  int accepted = 0;
  for (int i = 0; i < 4000; ++i) {
    const absl::StatusOr<Graph> graph = fixture::Parse(Mutate(seed, random), weights);
    if (!graph.ok()) {
      EXPECT_FALSE(graph.status().message().empty());
      EXPECT_LT(graph.status().message().size(), 20'000u);
      continue;
    }
    ++accepted;
    for (size_t n = 0; n < graph->nodes.size(); ++n) {
      for (const ValueId input : graph->nodes[n].inputs) {
        ASSERT_GE(input.node, 0);
        ASSERT_LT(input.node, static_cast<int>(n));
        ASSERT_LT(static_cast<size_t>(input.output), graph->node(input.node).outputs.size());
      }
    }
  }
  // Neither all refused (the edits would prove little) nor all accepted.
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 3900);
}

TEST(IrMutationTest, DamagedDocumentExample) {
  std::string text =
      fixture::ReadTestFile("tests/ops/import/testdata/tensor_iterator_example_2.xml.txt");
  for (size_t at; (at = text.find(" ...>")) != std::string::npos;) {
    text.erase(at, 4);
  }
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    const absl::StatusOr<Graph> graph = fixture::Parse(Mutate(text, random), "short");
    EXPECT_FALSE(graph.ok()) << "the weights are too short whatever the text";
  }
}

}  // namespace
}  // namespace beamwright::ops
