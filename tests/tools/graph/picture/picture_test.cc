#include "tools/graph/picture/picture.h"

#include <pugixml.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/graph_builder.h"
#include "tools/graph/picture/room.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::GraphBuilder;

PictureView ViewOf(const Graph& graph) {
  PictureView view;
  view.title = "The file";
  view.parts.push_back({"", &graph, nullptr, {}});
  view.mark = [](const Graph&, int) { return NodeMark(); };
  return view;
}

std::vector<std::vector<std::string>> Labels(const Room& room) {
  std::vector<std::vector<std::string>> labels;
  for (const Box& box : room.boxes) {
    std::vector<std::string>& lines = labels.emplace_back();
    for (const BoxLine& line : box.lines) {
      lines.push_back(line.label);
    }
  }
  return labels;
}

Graph ChainGraph() {
  GraphBuilder builder;
  const ValueId x = builder.Parameter("x", DType::kF32, {2, 3});
  const ValueId weight = builder.Constant(Tensor::Zeros(DType::kF32, {3, 4}));
  const ValueId product = builder.Add("MatMul", {x, weight});
  const ValueId sum =
      builder.Add("Add", {product, builder.Constant(Tensor::Zeros(DType::kF32, {4}))});
  const ValueId shaped = builder.Add(
      "Reshape", {sum, builder.Add("Concat", {builder.Add("ShapeOf", {x}), builder.Ints({1})})});
  builder.Result("y", builder.Add("Add", {shaped, product}));
  Graph graph = builder.Build();
  graph.node(weight.node).outputs[0].shape = PartialShape({3, 4});
  return graph;
}

// A MatMul that two read begins a box; what reads one value alone goes on with it.
TEST(RoomTest, ConstantsAndExtentsAreFoldedAndChainsShareABox) {
  const Graph graph = ChainGraph();
  int numbers = 0;
  const Room room = MakeRoom(graph, nullptr, {}, numbers);
  EXPECT_THAT(Labels(room),
              ElementsAre(ElementsAre("x"), ElementsAre("MatMul"), ElementsAre("Add", "Reshape"),
                          ElementsAre("Add"), ElementsAre("y")));
  EXPECT_THAT(room.boxes[1].lines[0].chips, ElementsAre("3×4"));
  EXPECT_TRUE(room.boxes[1].lines[0].heavy);
  EXPECT_THAT(room.boxes[2].lines[1].chips, ElementsAre("extents"));
  EXPECT_TRUE(room.boxes[2].lines[1].quiet);
  EXPECT_EQ(room.edges.size(), 5u);
}

Graph LoopGraph() {
  GraphBuilder body;
  const ValueId h = body.Parameter("h", DType::kF32, {2});
  body.Result("h_next", body.Add("Add", {h, body.Parameter("x", DType::kF32, {2})}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs.push_back(
      {.kind = LoopInput::Kind::kCarried, .input = 0, .body_parameter = 0, .back_edge = 0});
  loop.inputs.push_back({.kind = LoopInput::Kind::kSliced, .input = 1, .body_parameter = 1});
  loop.outputs.push_back({.output = 0, .body_result = 0});
  GraphBuilder builder;
  const ValueId start = builder.Parameter("start", DType::kF32, {2});
  builder.Result("last",
                 builder.Loop({start, builder.Parameter("xs", DType::kF32, {5, 2})}, loop, 1));
  return builder.Build();
}

TEST(RoomTest, ALoopIsABoxAroundItsBodyThatSaysWhatItsPortsAre) {
  const Graph graph = LoopGraph();
  int numbers = 0;
  const Room room = MakeRoom(graph, nullptr, {}, numbers);
  const Box& box = room.boxes[static_cast<size_t>(room.box_of[2])];
  ASSERT_EQ(box.rooms.size(), 1u);
  EXPECT_THAT(Labels(*box.rooms[0]), ElementsAre(ElementsAre("⟲ h"), ElementsAre("x[t]"),
                                                 ElementsAre("Add"), ElementsAre("⟲ next h")));
  EXPECT_GT(box.width, box.rooms[0]->layout.width);
  EXPECT_GT(box.height, box.rooms[0]->layout.height);
}

TEST(RoomTest, ABranchWithoutNodesOfItsOwnHasARoomToo) {
  const auto pass_on = [] {
    GraphBuilder branch;
    branch.Result("out", branch.Parameter("in", DType::kF32, {2}));
    return branch.Build();
  };
  GraphBuilder builder;
  const ValueId condition = builder.Parameter("condition", DType::kBool, {});
  const ValueId x = builder.Parameter("x", DType::kF32, {2});
  builder.Result("y", builder.If({condition, x}, pass_on(), pass_on()));
  int numbers = 0;
  const Graph graph = builder.Build();
  const Room room = MakeRoom(graph, nullptr, {}, numbers);
  EXPECT_EQ(room.boxes[static_cast<size_t>(room.box_of[2])].rooms.size(), 2u);
  EXPECT_EQ(numbers, 3);
}

// Names that would end an attribute, an element, a script or a comment.
constexpr char kEvil[] = "\"><script>alert(1)</script><!--' onload='x' &lt; \x01\xff\xE2\x80\xA8";

Graph EvilGraph() {
  GraphBuilder builder;
  const ValueId x = builder.Parameter(kEvil, DType::kF32, {2});
  builder.Result(kEvil, builder.Add(kEvil, {x}, {{kEvil, std::string(kEvil)}}, kEvil));
  Graph graph = builder.Build();
  graph.name = kEvil;
  return graph;
}

TEST(PictureTest, NamesDoNotBecomeMarkup) {
  const Graph graph = EvilGraph();
  PictureView view = ViewOf(graph);
  view.title = kEvil;
  view.parts[0].title = kEvil;
  view.remarks = {kEvil};
  view.mark = [](const Graph&, int) { return NodeMark{Scope::kRow, true, kEvil, kEvil}; };
  const std::string svg = PictureSvg(view);
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(svg.c_str())) << svg;
  EXPECT_TRUE(document.select_nodes("//script").empty());
  EXPECT_TRUE(document.select_nodes("//@onload").empty());
  EXPECT_EQ(document.select_nodes("//g[@class='node']").size(), 3u);
  const std::string html = PictureHtml(kEvil, {view});
  for (const char* markup : {"<script>alert", "<!--", "\x01", "\xff"}) {
    EXPECT_FALSE(absl::StrContains(html, markup)) << markup;
  }
  // The data ends where its script element does, and is a line for JavaScript too.
  const size_t data = html.find("id=\"data\">");
  ASSERT_NE(data, std::string::npos);
  EXPECT_FALSE(
      absl::StrContains(html.substr(data, html.find("</script>", data) - data), "\xE2\x80\xA8"));
}

TEST(PictureTest, EveryDrawnNodeHasAnElementAndEveryNodeItsData) {
  const Graph graph = LoopGraph();
  const std::string html = PictureHtml("loop", {ViewOf(graph)});
  for (const char* node : {"0.0", "0.1", "0.2", "0.3", "1.0", "1.1", "1.2", "1.3"}) {
    EXPECT_THAT(html, HasSubstr(absl::StrCat("data-node=\"", node, "\"")));
  }
  EXPECT_THAT(html, HasSubstr("'x' slices axis 0 of input 1"));
}

// The page asks nothing of the network, and the policy names its own style and script by hash.
TEST(PictureTest, ThePolicyAllowsNothingButThePage) {
  const Graph graph = LoopGraph();
  const std::string html = PictureHtml("loop", {ViewOf(graph)});
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, HasSubstr("script-src 'sha256-"));
  EXPECT_THAT(html, HasSubstr("style-src 'sha256-"));
  EXPECT_THAT(html, Not(HasSubstr("unsafe-inline")));
  EXPECT_THAT(html, Not(HasSubstr("src=\"")));
  EXPECT_THAT(html, Not(HasSubstr("@STYLE@")));
}

}  // namespace
}  // namespace beamwright::ops
