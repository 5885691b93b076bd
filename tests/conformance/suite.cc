#include "tests/conformance/suite.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "ops/import/graph_file.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "ops/numpy/npz.h"
#include "tests/conformance/compare.h"
#include "tools/graph/run.h"

namespace beamwright::ops {
namespace {

constexpr absl::string_view kOperator = "operator";
constexpr absl::string_view kCase = "case";
constexpr absl::string_view kUncovered = "uncovered";

absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path) {
  BW_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return std::vector<std::string>(absl::StrSplit(absl::StripSuffix(text, "\n"), '\n'));
}

std::string GraphFile(const std::string& folder) {
  const std::string onnx = folder + "/model.onnx";
  return std::filesystem::exists(onnx) ? onnx : folder + "/model.xml";
}

// .npz has no bf16: such inputs are stored as f32.
absl::Status NarrowToParameters(const Graph& graph, TensorMap& inputs) {
  for (const int node : graph.parameters) {
    const auto it = inputs.find(PortName(graph, node));
    if (it != inputs.end() && graph.node(node).outputs[0].dtype == DType::kBF16) {
      BW_ASSIGN_OR_RETURN(it->second, Convert(it->second, DType::kBF16));
    }
  }
  return absl::OkStatus();
}

// What is known before a run must hold for what the run yields.
absl::Status CheckInference(const ValueInfo& known, const Tensor& actual) {
  if (known.dtype == actual.dtype() && known.shape.Accepts(actual.shape())) {
    return absl::OkStatus();
  }
  return Invalid("is ", Name(actual.dtype()), ToString(actual.shape()), "; inferred was ",
                 Name(known.dtype), known.shape.ToString());
}

// Outputs are stored in the order of the graph's results, under "0", "1", ...
absl::Status CheckOutputs(const Case& test, const Graph& graph, const std::vector<Tensor>& outputs,
                          const TensorMap& expected) {
  if (outputs.size() != expected.size()) {
    return Invalid("has ", outputs.size(), " outputs, not ", expected.size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto it = expected.find(std::to_string(i));
    if (it == expected.end()) {
      return Invalid("the file of expected outputs lacks '", i, "'");
    }
    const std::string where = absl::StrCat("output ", i);
    const ValueInfo& known = graph.info(graph.node(graph.results[i]).inputs[0]);
    BW_RETURN_IF_ERROR(Annotate(CheckInference(known, outputs[i]), where));
    BW_RETURN_IF_ERROR(Annotate(Compare(outputs[i], it->second, test.tolerance), where));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Case>> ReadSuite(const std::string& suite) {
  const std::string manifest = suite + "/manifest.tsv";
  BW_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(manifest));
  std::vector<Case> cases;
  for (const std::string& line : lines) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    Case test;
    if (fields.size() != 3 || fields[0].empty() || !absl::SimpleAtod(fields[1], &test.tolerance)) {
      return Invalid(manifest, ":", cases.size() + 1,
                     ": not a name, a tolerance and operators, separated by tabs");
    }
    test.name = fields[0];
    test.folder = absl::StrCat(suite, "/", fields[0]);
    test.operators = absl::StrSplit(fields[2], ',', absl::SkipEmpty());
    cases.push_back(std::move(test));
  }
  return cases;
}

absl::StatusOr<SkipList> SkipList::Read(const std::string& path) {
  SkipList list;
  if (path.empty()) {
    return list;
  }
  BW_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(path));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty() || lines[i][0] == '#') {
      continue;
    }
    const std::vector<std::string> words = absl::StrSplit(lines[i], absl::MaxSplits(' ', 2));
    const bool known = words[0] == kOperator || words[0] == kCase || words[0] == kUncovered;
    if (words.size() != 3 || !known || words[2].empty()) {
      return Invalid(path, ":", i + 1, ": not '", kOperator, " NAME REASON', '", kCase,
                     " PATTERN REASON' or '", kUncovered, " NAME REASON'");
    }
    list.lines_.push_back({words[0], words[1], words[2]});
  }
  return list;
}

bool SkipList::Matches(const Line& line, const Case& test) {
  if (line.kind == kOperator) {
    return std::find(test.operators.begin(), test.operators.end(), line.name) !=
           test.operators.end();
  }
  return line.kind == kCase && fnmatch(line.name.c_str(), test.name.c_str(), 0) == 0;
}

std::string SkipList::ReasonFor(const Case& test) const {
  for (const Line& line : lines_) {
    if (Matches(line, test)) {
      return line.kind == kOperator ? absl::StrCat(line.name, ": ", line.reason) : line.reason;
    }
  }
  return "";
}

std::vector<std::string> SkipList::Unused(const std::vector<Case>& cases) const {
  std::vector<std::string> unused;
  for (const Line& line : lines_) {
    if (line.kind != kUncovered &&
        std::none_of(cases.begin(), cases.end(),
                     [&line](const Case& test) { return Matches(line, test); })) {
      unused.push_back(line.name);
    }
  }
  return unused;
}

bool SkipList::ListsAsUncovered(const std::string& op) const {
  return std::any_of(lines_.begin(), lines_.end(), [&op](const Line& line) {
    return line.kind == kUncovered && line.name == op;
  });
}

std::vector<std::string> UncoveredOperators(const std::vector<Case>& cases) {
  std::set<std::string> covered;
  for (const Case& test : cases) {
    for (const std::string& op : test.operators) {
      covered.insert(op == "TensorIterator" ? "loop" : absl::AsciiStrToLower(op));
    }
  }
  std::vector<std::string> uncovered;
  for (const Operator& op : Operators().all()) {
    if (!covered.contains(absl::AsciiStrToLower(op.name))) {
      uncovered.emplace_back(op.name);
    }
  }
  return uncovered;
}

namespace {

// A case with a file `by_item` is run as an encoder is, over several items at once, and must be
// proven to keep them apart.
absl::StatusOr<std::unique_ptr<Model>> CompileCase(const Case& test) {
  BW_ASSIGN_OR_RETURN(Graph graph, ReadGraph(GraphFile(test.folder)));
  if (!std::filesystem::exists(test.folder + "/by_item")) {
    return Model::Compile(std::move(graph));
  }
  RowProof proof;
  absl::StatusOr<std::unique_ptr<Model>> model =
      Model::Compile(std::move(graph), Precision::kF32, RowInputs{0, -1}, proof);
  if (model.ok() && !proof.separable) {
    return Invalid("items are not kept apart: ", proof.reason);
  }
  return model;
}

}  // namespace

absl::Status RunCase(const Case& test) {
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, CompileCase(test));
  int num_sets = 0;
  for (;; ++num_sets) {
    const std::string inputs_file = absl::StrCat(test.folder, "/inputs_", num_sets, ".npz");
    const std::string outputs_file = absl::StrCat(test.folder, "/outputs_", num_sets, ".npz");
    if (!std::filesystem::exists(outputs_file)) {
      break;
    }
    TensorMap inputs;
    if (!model->graph().parameters.empty()) {
      BW_ASSIGN_OR_RETURN(inputs, ReadNpz(inputs_file));
    }
    BW_RETURN_IF_ERROR(NarrowToParameters(model->graph(), inputs));
    BW_ASSIGN_OR_RETURN(const TensorMap expected, ReadNpz(outputs_file));
    BW_ASSIGN_OR_RETURN(const std::vector<Tensor> ordered, OrderInputs(model->graph(), inputs));
    std::vector<Tensor> outputs;
    const std::string where = absl::StrCat("data set ", num_sets);
    BW_RETURN_IF_ERROR(Annotate(model->Run(ExecutionContext(), ordered, outputs), where));
    BW_RETURN_IF_ERROR(Annotate(CheckOutputs(test, model->graph(), outputs, expected), where));
  }
  return num_sets > 0 ? absl::OkStatus() : Invalid("has no outputs_0.npz");
}

}  // namespace beamwright::ops
