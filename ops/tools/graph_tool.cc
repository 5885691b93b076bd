#include "ops/tools/graph_tool.h"

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/compile/scopes.h"
#include "ops/graph/inference.h"
#include "ops/import/graph_file.h"
#include "ops/import/onnx.h"
#include "ops/loop/operators.h"
#include "ops/tools/printable.h"
#include "ops/tools/run.h"
#include "ops/tools/show.h"

namespace beamwright::ops {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct Flags {
  std::string file;
  bool json = false;
  std::string inputs;
  std::string outputs;
  int threads = 1;
};

// The scope of every node in a loop's body, by body. Bodies live as long as the graph.
using ScopeMap = std::map<const Graph*, std::vector<Scope>>;

void CollectScopes(const Graph& graph, const GraphInfo& info, ScopeMap& scopes) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    size_t body = 0;
    VisitBodies(node, [&](const Graph& inner, absl::string_view) {
      const GraphInfo* const inner_info = info.bodies[i][body++].get();
      if (inner_info == nullptr) {
        return;
      }
      if (node.loop != nullptr) {
        scopes[&inner] = FindScopes(*node.loop, *inner_info);
      }
      CollectScopes(inner, *inner_info, scopes);
    });
  }
}

// Shows what the file declares if more can't be known; then the reason is a remark, and an error
// unless it is only that an operator is missing here.
absl::Status Show(const Flags& flags, std::ostream& output) {
  ImportOptions import;
  import.keep_unknown_layers = true;
  BW_ASSIGN_OR_RETURN(Graph graph, ReadGraph(flags.file, import));
  ShowOptions options;
  for (const std::string& node : UnsupportedNodes(graph, Operators())) {
    options.remarks.push_back(absl::StrCat("operator not supported: ", node));
  }
  const bool all_supported = options.remarks.empty();
  Graph inferred = graph;
  const absl::StatusOr<GraphInfo> info = InferGraph(inferred, Operators());
  const absl::Status& status = info.status();
  ScopeMap scopes;
  if (info.ok()) {
    graph = std::move(inferred);
    CollectScopes(graph, *info, scopes);
    options.note = [&scopes](const Graph& shown, int node) {
      const auto it = scopes.find(&shown);
      return it == scopes.end()
                 ? std::string()
                 : absl::StrCat("scope ", Name(it->second[static_cast<size_t>(node)]));
    };
  } else {
    options.remarks.push_back(
        absl::StrCat("types and shapes are those that the file declares: ", status.message()));
  }
  output << (flags.json ? ShowJson(graph, options) : ShowText(graph, options));
  return all_supported ? status : absl::OkStatus();
}

absl::Status Run(const Flags& flags, std::ostream& output) {
  BW_ASSIGN_OR_RETURN(Graph graph, ReadGraph(flags.file));
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, Model::Compile(std::move(graph)));
  BW_ASSIGN_OR_RETURN(const TensorMap inputs, ReadNpz(flags.inputs));
  ExecutionContext context;
  context.num_threads = flags.threads;
  BW_ASSIGN_OR_RETURN(const TensorMap outputs, RunModel(*model, context, inputs));
  BW_RETURN_IF_ERROR(WriteNpz(flags.outputs, outputs));
  for (const auto& [name, tensor] : outputs) {
    output << Printable(name) << "  " << Name(tensor.dtype()) << ToString(tensor.shape()) << "\n";
  }
  return absl::OkStatus();
}

// The tables of docs/operators.md.
void ListOperators(std::ostream& output) {
  output << "| operator | attributes |\n| --- | --- |\n";
  for (const Operator& op : Operators().all()) {
    const std::string attributes = absl::StrJoin(op.attributes, ", ");
    output << absl::StrCat("| ", op.name, " | ", attributes, attributes.empty() ? "|" : " |", "\n");
  }
  output << "\n| ONNX operator | from opset | becomes |\n| --- | --- | --- |\n";
  for (const OnnxOperatorLine& line : ListOnnxOperators()) {
    output << absl::StrCat("| ", line.name, " | ", line.since, " | ", line.becomes, " |\n");
  }
}

void DefineCommands(CLI::App& app, Flags& flags) {
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 bad file or input, 2 bad command line.");
  constexpr const char* kFile =
      "Graph file: OpenVINO IR (.xml, with its weights in the .bin file beside it) or ONNX (.onnx)";
  CLI::App* show = app.add_subcommand("show", "Print inputs, outputs, nodes and loops of a graph");
  show->add_option("FILE", flags.file, kFile)->required();
  show->add_flag("--json", flags.json, "Print JSON");
  CLI::App* run = app.add_subcommand("run", "Run a graph once on inputs from a file");
  run->add_option("FILE", flags.file, kFile)->required();
  run->add_option("--inputs", flags.inputs,
                  "NumPy .npz file with one array for each input, by the names that `show` prints")
      ->required();
  run->add_option("--outputs", flags.outputs,
                  "NumPy .npz file to write, one array for each output; replaced if it exists")
      ->required();
  run->add_option("--threads", flags.threads, "Threads to use at most, 1 to 1024 (default: 1)")
      ->check(CLI::Range(1, 1024));
  app.add_subcommand("operators", "List the operators that graphs may contain, as Markdown tables");
}

}  // namespace

int RunGraphTool(int argc, const char* const* argv, std::ostream& output, std::ostream& errors) {
  Flags flags;
  CLI::App app("Looks at graph files and runs them.", "beamwright-graph");
  DefineCommands(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    output << app.help();
    return kDone;
  } catch (const CLI::ParseError& error) {
    errors << "beamwright-graph: " << error.what();
    for (const std::string& argument : app.remaining()) {
      errors << "; not understood: '" << Printable(argument) << "'";
    }
    errors << " (--help tells more)\n";
    return kUsage;
  }
  if (app.got_subcommand("operators")) {
    ListOperators(output);
    return kDone;
  }
  const absl::Status status = app.got_subcommand("show") ? Show(flags, output) : Run(flags, output);
  if (!status.ok()) {
    errors << "beamwright-graph: " << Printable(status.message()) << "\n";
    return kFailed;
  }
  return kDone;
}

}  // namespace beamwright::ops
