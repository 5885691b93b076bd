// Sequences of tensors: what becomes of the forms that exporters write is compared with ONNX
// Runtime (tests/conformance); here is what must be refused, and how.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
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
