// The commands of beamwright-graph that look at one graph file: show, run, bench, check and the
// list of operators.
//
// Show reads leniently (ReadForInspection): operators that are not supported stay in the graph and
// become remarks, and where types cannot be inferred those that the file declares are shown.
// CollectNotes adds the scope of each node of a loop's body and the cost of every node.
//
// Run bounds time and memory, since a graph may compute for ever or ask for any amount: the
// deadline and the memory limit stop the work at the next operator or iteration, and a Watchdog
// ends the process if neither is looked at in time.
//
// CheckFile reads as the server does; only if that fails, it reads leniently, so that all operators
// that are missing are listed at once.
#include "tools/graph/commands.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "ops/base/memory.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/base/utf8.h"
#include "ops/compile/scopes.h"
#include "ops/graph/inference.h"
#include "ops/import/graph_file.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "ops/tensor/tensor_memory.h"
#include "tools/graph/check.h"
#include "tools/graph/run.h"
#include "tools/graph/show.h"

namespace beamwright::ops {
namespace {

// Ends the program when a command takes too long, even if it computes without looking at a clock.
class Watchdog {
 public:
  // Unless this is destroyed within `timeout` and a moment in which loops can still say where they
  // are, prints "beamwright-graph: <message>" to standard error and exits with 1.
  Watchdog(absl::Duration timeout, const std::string& message);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  absl::Notification done_;
  std::thread thread_;
};

constexpr absl::Duration kMoment = absl::Milliseconds(500);

Watchdog::Watchdog(absl::Duration timeout, const std::string& message)
    : thread_([this, timeout, text = Printable(message)] {
        if (!done_.WaitForNotificationWithTimeout(timeout + kMoment)) {
          std::fprintf(stderr, "beamwright-graph: %s\n", text.c_str());
          std::_Exit(1);
        }
      }) {}

Watchdog::~Watchdog() {
  done_.Notify();
  thread_.join();
}

// The notes on every node of a graph. Bodies live as long as the graph that contains them.
struct Notes {
  std::vector<std::string> scopes;  // of a loop's body, else empty
  std::vector<NodeCost> costs;
};
using NoteMap = std::map<const Graph*, Notes>;

std::vector<std::string> ScopeNotes(const Loop& loop, const GraphInfo& info) {
  std::vector<std::string> notes;
  for (const Scope scope : FindScopes(loop, info)) {
    notes.push_back(absl::StrCat("scope ", Name(scope)));
  }
  for (const int node : HoistedProducts(loop, info)) {
    absl::StrAppend(&notes[static_cast<size_t>(node)],
                    loop.body.node(node).op == "MatMul" ? "" : "; its product with W token",
                    ", over a sequence for all steps at once");
  }
  return notes;
}

void CollectNotes(const Graph& graph, const GraphInfo& info, NoteMap& notes) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    notes[&graph].costs.push_back(CostOf(graph, info, static_cast<int>(i)));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    size_t body = 0;
    VisitBodies(node, [&](const Graph& inner, absl::string_view) {
      const GraphInfo* const inner_info = info.bodies[i][body++].get();
      if (inner_info == nullptr) {
        return;
      }
      if (node.loop != nullptr) {
        notes[&inner].scopes = ScopeNotes(*node.loop, *inner_info);
      }
      CollectNotes(inner, *inner_info, notes);
    });
  }
}

// Reads a graph to look at it: operators that are not supported stay in it.
absl::StatusOr<Graph> ReadForInspection(const std::string& path, const std::string& allow_links) {
  ImportOptions import;
  import.keep_unknown_layers = true;
  import.allow_links = allow_links;
  return ReadGraph(path, import);
}

absl::StatusOr<std::unique_ptr<Model>> ReadAndCompile(const std::string& path,
                                                      const std::string& allow_links) {
  DeferredScope deferred;  // weights are packed one by one
  ImportOptions import;
  import.allow_links = allow_links;
  BW_ASSIGN_OR_RETURN(Graph graph, ReadGraph(path, import));
  absl::StatusOr<std::unique_ptr<Model>> model = Model::Compile(std::move(graph));
  BW_RETURN_IF_ERROR(deferred.Finish());
  return model;
}

// A graph is read as `run` and the server read it; only where that fails is it read leniently, to
// find everything at once that is missing.
GraphFindings CheckGraphOf(const std::string& path, const std::string& allow_links) {
  ImportOptions import;
  import.allow_links = allow_links;
  absl::StatusOr<Graph> graph = ReadGraph(path, import);
  if (graph.ok()) {
    return CheckGraph(*std::move(graph));
  }
  GraphFindings findings;
  absl::StatusOr<Graph> lenient = ReadForInspection(path, allow_links);
  if (lenient.ok()) {
    findings = CheckGraph(*std::move(lenient));
  }
  if (findings.unsupported.empty()) {
    findings = GraphFindings();
    findings.status = graph.status();
  }
  return findings;
}

}  // namespace

GraphFindings CheckFile(const std::string& path, const std::string& allow_links) {
  DeferredScope deferred;
  GraphFindings findings = CheckGraphOf(path, allow_links);
  const absl::Status read = deferred.Finish();
  findings.status = read.ok() ? findings.status : read;
  return findings;
}

// Shows what the file declares if more can't be known; then the reason is a remark, and an error
// unless it is only that an operator is missing here.
absl::Status Show(const ShowFlags& flags, std::ostream& output) {
  const DeferredScope deferred;  // the elements of large constants are not shown
  BW_ASSIGN_OR_RETURN(Graph graph, ReadForInspection(flags.file, flags.allow_links));
  ShowOptions options;
  for (const std::string& node : UnsupportedNodes(graph, Operators())) {
    options.remarks.push_back(absl::StrCat("operator not supported: ", node));
  }
  const bool all_supported = options.remarks.empty();
  Graph inferred = graph;
  const absl::StatusOr<GraphInfo> info = InferGraph(inferred, Operators());
  const absl::Status& status = info.status();
  NoteMap notes;
  if (info.ok()) {
    graph = std::move(inferred);
    CollectNotes(graph, *info, notes);
    options.note = [&notes](const Graph& shown, int node) {
      const auto it = notes.find(&shown);
      return it == notes.end() || it->second.scopes.empty()
                 ? std::string()
                 : it->second.scopes[static_cast<size_t>(node)];
    };
    options.cost = [&notes](const Graph& shown, int node) {
      const auto it = notes.find(&shown);
      return it == notes.end() ? NodeCost() : it->second.costs[static_cast<size_t>(node)];
    };
  } else {
    options.remarks.push_back(
        absl::StrCat("types and shapes are those that the file declares: ", status.message()));
  }
  output << (flags.dot    ? ShowDot(graph, options)
             : flags.json ? ShowJson(graph, options)
                          : ShowText(graph, options));
  return all_supported ? status : absl::OkStatus();
}

absl::Status Run(const RunFlags& flags, std::ostream& output) {
  const absl::Duration timeout = absl::Seconds(flags.timeout_seconds);
  const Watchdog watchdog(
      timeout, absl::StrCat("'", flags.file, "': --timeout ", flags.timeout_seconds, " s is over"));
  constexpr int64_t kUsualBytes = int64_t{2} << 30;
  const int64_t usable = UsableMemoryBytes();
  const int64_t most = flags.max_memory > 0 ? flags.max_memory
                       : usable > 0         ? std::min(usable, kUsualBytes)
                                            : kUsualBytes;
  const MemoryLimit memory(most);
  ExecutionContext context;
  context.num_threads = flags.threads;
  context.deadline = SteadyNow() + timeout;
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                      ReadAndCompile(flags.file, flags.allow_links));
  NpzLimits limits;
  limits.max_bytes = std::min(limits.max_bytes, most);
  BW_ASSIGN_OR_RETURN(const TensorMap inputs, ReadNpz(flags.inputs, limits));
  BW_ASSIGN_OR_RETURN(const TensorMap outputs, RunModel(*model, context, inputs));
  BW_RETURN_IF_ERROR(WriteNpz(flags.outputs, outputs));
  for (const auto& [name, tensor] : outputs) {
    output << Printable(name) << "  " << Name(tensor.dtype()) << ToString(tensor.shape()) << "\n";
  }
  return absl::OkStatus();
}

absl::Status Bench(const BenchFlags& flags, std::ostream& output) {
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                      ReadAndCompile(flags.file, flags.allow_links));
  std::vector<BenchResult> results;
  if (!flags.inputs.empty()) {
    BW_ASSIGN_OR_RETURN(const TensorMap given, ReadNpz(flags.inputs));
    BW_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, OrderInputs(model->graph(), given));
    for (const int threads : flags.threads) {
      BW_ASSIGN_OR_RETURN(const BenchResult result,
                          BenchModel(*model, inputs, threads, flags.seconds));
      results.push_back(result);
    }
    output << (flags.json ? BenchJson(results) : BenchText(results));
    return absl::OkStatus();
  }
  for (const int64_t batch : flags.batches) {
    for (const int64_t length : flags.lengths) {
      for (const int threads : flags.threads) {
        const BenchCase inputs{batch, length, threads};
        BW_ASSIGN_OR_RETURN(const BenchResult result, BenchModel(*model, inputs, flags.seconds));
        results.push_back(result);
      }
    }
  }
  output << (flags.json ? BenchJson(results) : BenchText(results));
  return absl::OkStatus();
}

void ListOperators(std::ostream& output) {
  // A row for each list of attributes, in the order of its first operator.
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  for (const Operator& op : Operators().all()) {
    const std::string attributes = absl::StrJoin(op.attributes, ", ");
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const auto& other) { return other.first == attributes; });
    if (row == rows.end()) {
      row = rows.insert(rows.end(), {attributes, {}});
    }
    row->second.push_back(std::string(op.name));
  }
  output << "| operators | attributes |\n| --- | --- |\n";
  for (const auto& [attributes, names] : rows) {
    output << absl::StrCat("| ", absl::StrJoin(names, ", "), " | ",
                           attributes.empty() ? "none" : attributes, " |\n");
  }

  // A row for each opset, and one for each other domain; in brackets what an operator becomes where
  // its name differs.
  std::map<std::string, std::vector<std::string>> domains;
  std::map<int, std::vector<std::string>> opsets;
  for (const OnnxOperatorLine& line : ListOnnxOperators()) {
    const size_t dot = line.name.rfind('.');
    const std::string name = line.name.substr(dot == std::string::npos ? 0 : dot + 1);
    std::vector<std::string>& row =
        dot == std::string::npos ? opsets[line.since] : domains[line.name.substr(0, dot)];
    row.push_back(name == line.becomes ? name : absl::StrCat(name, " (", line.becomes, ")"));
  }
  output << "\n| from opset | ONNX operators, with what they become |\n| --- | --- |\n";
  for (const auto& [opset, names] : opsets) {
    output << absl::StrCat("| ", opset, " | ", absl::StrJoin(names, ", "), " |\n");
  }
  for (const auto& [domain, names] : domains) {
    output << absl::StrCat("| ", domain, " | ", absl::StrJoin(names, ", "), " |\n");
  }
}

}  // namespace beamwright::ops
