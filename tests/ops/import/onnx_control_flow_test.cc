// If, Loop, Scan and sequences of cells as ONNX writes them: names of the graphs around a body,
// conditions, directions and axes.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/loop/model.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
namespace {

using fixture::GraphOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<Tensor>> RunModel(const std::string& graph, std::vector<Tensor> inputs,
                                             int64_t opset = 17) {
  absl::StatusOr<Graph> read = fixture::Parse(fixture::Model(GraphOf(graph), opset));
  if (!read.ok()) {
    return read.status();
  }
  const auto model = Model::Compile(*std::move(read));
  if (!model.ok()) {
    return model.status();
  }
  std::vector<Tensor> outputs;
  const absl::Status status = (*model)->Run(ExecutionContext(), inputs, outputs);
  if (!status.ok()) {
    return status;
  }
  return outputs;
}

std::vector<float> Floats(const absl::StatusOr<std::vector<Tensor>>& outputs, size_t index = 0) {
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? *ToFloat32(outputs->at(index)) : std::vector<float>();
}

std::string Value(const std::string& name, int type, const std::vector<std::string>& dims) {
  std::string text =
      absl::StrCat("name: '", name, "' type { tensor_type { elem_type: ", type, " shape {");
  for (const std::string& dim : dims) {
    const bool symbol = dim[0] < '0' || dim[0] > '9';
    absl::StrAppend(&text, " dim { ", symbol ? "dim_param: '" : "dim_value: ", dim,
                    symbol ? "' }" : " }");
  }
  return text + " } } }";
}

std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs, const std::string& rest = "") {
  std::string text = absl::StrCat("node { op_type: '", op, "'");
  for (const std::string& input : inputs) {
    absl::StrAppend(&text, " input: '", input, "'");
  }
  for (const std::string& output : outputs) {
    absl::StrAppend(&text, " output: '", output, "'");
  }
  return absl::StrCat(text, " ", rest, " }\n");
}

std::string Body(const std::string& name, const std::string& graph) {
  return absl::StrCat("attribute { name: '", name, "' type: GRAPH g { ", graph, " } }");
}

std::string Attribute(const std::string& name, std::vector<int> values) {
  std::string text = absl::StrCat("attribute { name: '", name, "' type: INTS");
  for (const int value : values) {
    absl::StrAppend(&text, " ints: ", value);
  }
  return text + " }";
}

std::string Int(const std::string& name, int value) {
  return absl::StrCat("attribute { name: '", name, "' type: INT i: ", value, " }");
}

// The inner branch reads x from two graphs further out, and w, an initializer there.
std::string NestedIf() {
  const std::string inner =
      "output { name: 'r' } " + Node("Add", {"x", "w"}, {"s"}) + Node("Add", {"s", "m"}, {"r"});
  const std::string outer_then =
      "output { name: 'q' } " + Node("Neg", {"x"}, {"m"}) +
      Node("If", {"d"}, {"q"},
           Body("then_branch", inner) + Body("else_branch", "output { name: 'm' }"));
  return "input { " + Value("c", 9, {}) + " } input { " + Value("d", 9, {}) + " } input { " +
         Value("x", 1, {"n"}) +
         " } output { name: 'y' } initializer { name: 'w' dims: 1 data_type: 1 float_data: 5 } " +
         Node("If", {"c"}, {"y"},
              Body("then_branch", outer_then) + Body("else_branch", "output { name: 'x' }"));
}

TEST(OnnxControlFlowTest, BranchesReadTheGraphsAroundThem) {
  const Tensor x = Tensor::Of<float>({2}, std::vector<float>{1, 2});
  const auto run = [&](bool c, bool d) {
    return Floats(RunModel(NestedIf(), {Tensor::Scalar(c), Tensor::Scalar(d), x}));
  };
  EXPECT_THAT(run(true, true), ElementsAre(5, 5));
  EXPECT_THAT(run(true, false), ElementsAre(-1, -2));
  EXPECT_THAT(run(false, true), ElementsAre(1, 2));
}

// A branch that a known condition rules out is not looked at: it may hold what there is not, and
// what the shapes contradict, as exports of squeeze do.
TEST(OnnxControlFlowTest, ABranchThatIsNeverTakenMayBeAnything) {
  const Tensor x = Tensor::Of<float>({1, 2}, std::vector<float>{1, 2});
  const std::string good = "output { name: 'p' } " + Node("Neg", {"x"}, {"p"});
  const std::string unknown = "output { name: 'q' } " + Node("Fancy", {"x"}, {"q"});
  const std::string ports = "input { " + Value("x", 1, {"n", "2"}) + " } output { name: 'y' } ";
  for (const bool taken : {true, false}) {
    const std::string branches =
        Body("then_branch", taken ? good : unknown) + Body("else_branch", taken ? unknown : good);
    const std::string value = absl::StrCat("data_type: 9 int32_data: ", taken ? 1 : 0);
    EXPECT_THAT(Floats(RunModel(ports + "initializer { name: 'c' " + value + " } " +
                                    Node("If", {"c"}, {"y"}, branches),
                                {x})),
                ElementsAre(-1, -2));
    const std::string node =
        Node("Constant", {}, {"c"}, "attribute { name: 'value' type: TENSOR t { " + value + " } }");
    EXPECT_THAT(Floats(RunModel(ports + node + Node("If", {"c"}, {"y"}, branches), {x})),
                ElementsAre(-1, -2));
  }
  // y = x.squeeze(1), where n is not known but the second extent is.
  const std::string squeeze = "output { name: 'q' } " + Node("Squeeze", {"x", "one"}, {"q"});
  const std::string graph =
      ports + "initializer { name: 'one' dims: 1 data_type: 7 int64_data: 1 } " +
      Node("Shape", {"x"}, {"s"}) + Node("Gather", {"s", "one"}, {"e"}) +
      Node("Equal", {"e", "one"}, {"c"}) +
      Node("If", {"c"}, {"y"}, Body("then_branch", squeeze) + Body("else_branch", good));
  EXPECT_THAT(Floats(RunModel(graph, {x})), ElementsAre(-1, -2));
  // A condition that only a run knows leaves both.
  const absl::Status status =
      RunModel(
          "input { " + Value("c", 9, {}) + " } " + ports +
              Node("If", {"c"}, {"y"}, Body("then_branch", good) + Body("else_branch", unknown)),
          {Tensor::Scalar(true), x})
          .status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("Fancy"));
}

// The state grows by one element in each iteration: the iteration's number. Stacked: its last one.
std::string GrowingLoop(const std::string& trip, const std::string& condition,
                        const std::string& stop) {
  const std::string body =
      "input { " + Value("i", 7, {}) + " } input { " + Value("go", 9, {}) + " } input { " +
      "name: 's' type { tensor_type { elem_type: 1 } } } output { name: 'go_on' } output { name: "
      "'t' } "
      "output { name: 'e' } " +
      Node("Cast", {"i"}, {"f"}, Int("to", 1)) + Node("Unsqueeze", {"f", "zero"}, {"e"}) +
      Node("Concat", {"s", "e"}, {"t"}, Int("axis", 0)) + Node("Less", {"i", stop}, {"go_on"});
  return "input { " + Value("n", 7, {}) + " } input { " + Value("begin", 9, {}) + " } input { " +
         Value("k", 7, {}) + " } input { " + Value("start", 1, {"1"}) +
         " } output { name: 'final' } output { name: 'parts' } "
         "initializer { name: 'zero' dims: 1 data_type: 7 int64_data: 0 } " +
         Node("Loop", {trip, condition, "start"}, {"final", "parts"}, Body("body", body));
}

TEST(OnnxControlFlowTest, LoopsEndByCountOrConditionAndStatesMayGrow) {
  const auto run = [](const std::string& graph, int64_t n, bool begin, int64_t k) {
    return RunModel(graph, {Tensor::Scalar(n), Tensor::Scalar(begin), Tensor::Scalar(k),
                            Tensor::Of<float>({1}, std::vector<float>{9})});
  };
  const std::string both = GrowingLoop("n", "begin", "k");
  EXPECT_THAT(Floats(run(both, 3, true, 100)), ElementsAre(9, 0, 1, 2));
  EXPECT_THAT(Floats(run(both, 100, true, 1)), ElementsAre(9, 0, 1));
  EXPECT_THAT(Floats(run(both, 3, false, 100)), ElementsAre(9));
  EXPECT_THAT(Floats(run(both, 0, true, 100)), ElementsAre(9));
  EXPECT_EQ(run(both, 3, true, 100)->at(1).shape(), (Shape{3, 1}));
  // Without a condition input the body's condition does not count.
  EXPECT_THAT(Floats(run(GrowingLoop("n", "", "k"), 3, true, -1)), ElementsAre(9, 0, 1, 2));
  EXPECT_THAT(Floats(run(GrowingLoop("", "begin", "k"), 0, true, 2)), ElementsAre(9, 0, 1, 2));
}

// state' = state + a; parts: state' * factor, which stands outside.
std::string Scan(const std::string& attributes) {
  const std::string body =
      "input { name: 's' type { tensor_type { elem_type: 1 } } } "
      "input { name: 'a' type { tensor_type { elem_type: 1 } } } output { name: 't' } output { "
      "name: 'p' } " +
      Node("Add", {"s", "a"}, {"t"}) + Node("Mul", {"t", "factor"}, {"p"});
  return "input { " + Value("s0", 1, {"2"}) + " } input { " + Value("x", 1, {"t", "2"}) +
         " } input { " + Value("factor", 1, {}) +
         " } output { name: 'final' } output { name: 'y' } " +
         Node("Scan", {"s0", "x"}, {"final", "y"},
              Body("body", body) + Int("num_scan_inputs", 1) + attributes);
}

TEST(OnnxControlFlowTest, ScansRunInBothDirectionsAlongAnyAxis) {
  const std::vector<Tensor> inputs = {
      Tensor::Of<float>({2}, std::vector<float>{0, 100}),
      Tensor::Of<float>({3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6}), Tensor::Scalar(10.0f)};
  EXPECT_THAT(Floats(RunModel(Scan(""), inputs)), ElementsAre(9, 112));
  EXPECT_THAT(Floats(RunModel(Scan(""), inputs), 1), ElementsAre(10, 1020, 40, 1060, 90, 1120));
  EXPECT_THAT(Floats(RunModel(Scan(Attribute("scan_input_directions", {1})), inputs), 1),
              ElementsAre(50, 1060, 80, 1100, 90, 1120));
  EXPECT_THAT(Floats(RunModel(Scan(Attribute("scan_output_directions", {1})), inputs), 1),
              ElementsAre(90, 1120, 40, 1060, 10, 1020));
  EXPECT_THAT(Floats(RunModel(Scan(Attribute("scan_output_axes", {-1})), inputs), 1),
              ElementsAre(10, 40, 90, 1020, 1060, 1120));
  const std::vector<Tensor> wide = {
      inputs[0], Tensor::Of<float>({2, 3}, std::vector<float>{1, 3, 5, 2, 4, 6}), inputs[2]};
  std::string graph = Scan(Attribute("scan_input_axes", {1}));
  const size_t shape = graph.find("dim { dim_param: 't' } dim { dim_value: 2 }");
  graph.replace(shape, 43, "dim { dim_value: 2 } dim { dim_param: 't' }");
  EXPECT_THAT(Floats(RunModel(graph, wide), 1), ElementsAre(10, 1020, 40, 1060, 90, 1120));
}

TEST(OnnxControlFlowTest, ScansWithWrongAttributesAreRefused) {
  const auto error = [](const std::string& attributes) {
    return std::string(RunModel(Scan(attributes), {}).status().message());
  };
  EXPECT_THAT(error(Attribute("scan_input_directions", {2})), HasSubstr("has 2; it must be 0"));
  EXPECT_THAT(error(Attribute("scan_input_directions", {0, 0})), HasSubstr("has 2 entries"));
  EXPECT_THAT(error(Attribute("scan_output_axes", {0, 0})), HasSubstr("has 2 entries"));
  EXPECT_THAT(error(Attribute("scan_input_axes", {5})), HasSubstr("node 0 (Scan)"));
  EXPECT_THAT(error(Attribute("scan_output_axes", {3})), HasSubstr("node 0 (Scan)"));
  EXPECT_THAT(error(Attribute("no_such", {0})), HasSubstr("'no_such' is not known to Scan"));
}

// Opset 8: a batch of items, each over its own length.
TEST(OnnxControlFlowTest, ScanOfOpset8RunsEachItemAlone) {
  const std::string body =
      "input { name: 's' type { tensor_type { elem_type: 1 } } } "
      "input { name: 'a' type { tensor_type { elem_type: 1 } } } output { name: 't' } output { "
      "name: 'p' } " +
      Node("Add", {"s", "a"}, {"t"}) + Node("Neg", {"t"}, {"p"});
  const std::string graph = "input { " + Value("lengths", 7, {"b"}) + " } input { " +
                            Value("s0", 1, {"b", "1"}) + " } input { " +
                            Value("x", 1, {"b", "t", "1"}) +
                            " } output { name: 'final' } output { name: 'y' } " +
                            Node("Scan", {"lengths", "s0", "x"}, {"final", "y"},
                                 Body("body", body) + Int("num_scan_inputs", 1));
  const auto outputs =
      RunModel(graph,
               {Tensor::Of<int64_t>({2}, std::vector<int64_t>{1, 3}),
                Tensor::Of<float>({2, 1}, std::vector<float>{10, 20}),
                Tensor::Of<float>({2, 3, 1}, std::vector<float>{1, 2, 3, 4, 5, 6})},
               8);
  EXPECT_THAT(Floats(outputs, 0), ElementsAre(11, 35));
  EXPECT_THAT(Floats(outputs, 1), ElementsAre(-11, 0, 0, -24, -29, -35));
}

}  // namespace

// Sequences of tensors: what becomes of the forms that exporters write is compared with ONNX
// Runtime (tests/conformance); here is what must be refused, and how.

namespace {

using fixture::ErrorOf;
using fixture::GraphOf;
using fixture::Model;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kType[] = "type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } } } }";
constexpr char kHint[] = "torch.stack";

// x -> a Loop of four iterations that appends x to a list ('list'), between `before` and `after`.
// `insert`: the body's node that makes 'list_next' of 'held'; `more`: other nodes of the body.
std::string Graph(const std::string& after, const std::string& insert, const std::string& more = "",
                  const std::string& output = "y") {
  return absl::StrCat(
      "input { name: 'x' ", kType, " } output { name: '", output,
      "' } "
      "node { op_type: 'Constant' output: 'four' attribute { name: 'value_int' type: INT i: 4 } } "
      "node { op_type: 'SequenceEmpty' output: 'empty' } "
      "node { op_type: 'Loop' name: 'loop' input: 'four' input: '' input: 'empty' output: 'list' "
      "attribute { name: 'body' type: GRAPH g { input { name: 'i' } input { name: 'go' } "
      "input { name: 'held' } output { name: 'go' } output { name: 'list_next' } ",
      more, insert, "} } } ", after);
}

constexpr char kAppend[] =
    "node { op_type: 'SequenceInsert' name: 'append' input: 'held' input: 'x' output: 'list_next' "
    "} ";
constexpr char kJoin[] =
    "node { op_type: 'ConcatFromSequence' name: 'join' input: 'list' output: 'y' "
    "attribute { name: 'axis' type: INT i: 0 } } ";

std::string Error(const std::string& graph) { return ErrorOf(Model(GraphOf(graph))); }

TEST(OnnxSequencesTest, GrownListsAreJoined) { EXPECT_EQ(Error(Graph(kJoin, kAppend)), ""); }

TEST(OnnxSequencesTest, OtherReadersAreNamed) {
  EXPECT_THAT(
      Error(Graph("node { op_type: 'SequenceErase' name: 'erase' input: 'list' output: 'l' } "
                  "node { op_type: 'ConcatFromSequence' name: 'join' input: 'l' output: 'y' "
                  "attribute { name: 'axis' type: INT i: 0 } }",
                  kAppend)),
      AllOf(HasSubstr("'erase' (SequenceErase)"), HasSubstr("'join' (ConcatFromSequence)"),
            HasSubstr(kHint)));
}

TEST(OnnxSequencesTest, OtherLoopsKeepTheirLists) {
  const std::string error = "'append' (SequenceInsert)";
  // In front instead of behind.
  EXPECT_THAT(
      Error(Graph(kJoin, absl::StrReplaceAll(kAppend, {{"input: 'x'", "input: 'x' input: 'i'"}}))),
      AllOf(HasSubstr(error), HasSubstr(kHint)));
  // Two elements an iteration.
  EXPECT_THAT(
      Error(
          Graph(kJoin, kAppend,
                "node { op_type: 'SequenceInsert' name: 'first' input: 'held' input: 'x' "
                "output: 'once' } node { op_type: 'SequenceInsert' input: 'once' input: 'x' "
                "output: 'twice' } node { op_type: 'SequenceLength' input: 'twice' output: 'n' }")),
      HasSubstr(error));
  // The body looks at what the list holds.
  EXPECT_THAT(Error(Graph(kJoin,
                          "node { op_type: 'SequenceAt' name: 'last' input: 'held' input: 'i' "
                          "output: 'before' } node { op_type: 'SequenceInsert' name: 'append' "
                          "input: 'held' input: 'before' output: 'list_next' } ")),
              AllOf(HasSubstr(error), HasSubstr("'last' (SequenceAt)")));
}

TEST(OnnxSequencesTest, SequencesAreNoOutputs) {
  EXPECT_THAT(Error(Graph("", kAppend, "", "list")),
              AllOf(HasSubstr("output 'list' is a sequence"), HasSubstr("stack")));
}

TEST(OnnxSequencesTest, ChunksFromBehindAreRefused) {
  const std::string graph = absl::StrCat(
      "input { name: 'x' ", kType,
      " } output { name: 'y' } "
      "node { op_type: 'Constant' output: 'two' attribute { name: 'value_int' type: INT i: 2 } } "
      "node { op_type: 'Constant' output: 'last' attribute { name: 'value_int' type: INT i: -1 } } "
      "node { op_type: 'SplitToSequence' name: 'parts' input: 'x' input: 'two' output: 'p' } "
      "node { op_type: 'SequenceAt' name: 'at' input: 'p' input: 'last' output: 'y' }");
  EXPECT_THAT(Error(graph), AllOf(HasSubstr("'parts' (SplitToSequence)"), HasSubstr("'at'")));
  EXPECT_THAT(Error(absl::StrReplaceAll(graph, {{"i: 2", "i: 1"}})), Not(HasSubstr("parts")));
  EXPECT_THAT(Error(absl::StrReplaceAll(graph, {{"i: -1", "i: 1"}})), Not(HasSubstr("parts")));
}

// Every reader of a list gets the names of its elements: a small file must not ask for gigabytes.
TEST(OnnxSequencesTest, ListsAreNotReadForever) {
  const std::string name(4000, 'x');  // as long as names may be, copied for each reader
  std::string graph = absl::StrCat("input { name: '", name, "' ", kType,
                                   " } output { name: 'y0' } node { op_type: 'SequenceConstruct' "
                                   "output: 'list' input: '",
                                   name, "' } ");
  for (int i = 0; i < 20'000; ++i) {
    absl::StrAppend(&graph, "node { op_type: 'ConcatFromSequence' input: 'list' output: 'y", i,
                    "' attribute { name: 'axis' type: INT i: 0 } } ");
  }
  EXPECT_THAT(Error(graph), HasSubstr("read or copied too often"));
}

TEST(OnnxSequencesTest, TheDomainOfWhatTheyBecomeIsReserved) {
  onnx::ModelProto model = Model(GraphOf(Graph(kJoin, kAppend)));
  onnx::OperatorSetIdProto& import = *model.add_opset_import();
  import.set_domain("beamwright.sequence");
  import.set_version(1);
  EXPECT_THAT(ErrorOf(model), HasSubstr("domain 'beamwright.sequence' is reserved"));
}

}  // namespace

}  // namespace beamwright::ops
