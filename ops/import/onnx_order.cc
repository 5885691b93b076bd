// Sorts the nodes of an ONNX graph topologically and drops those that no output needs. The format
// demands sorted nodes, but tools that join models write them unsorted.
//
// 1. Order::Define notes which node defines each name; two definitions are an error.
// 2. Mark goes from the outputs backwards. A node also needs the names that the graphs in its
//    attributes (loop bodies, branches) read from outside (AddFreeNames).
// 3. Sort: among nodes whose sources are done, the first in the file comes next, so that a sorted
//    file keeps its order. If nodes are left over, CycleError describes a cycle.
//
// Example: nodes of a file, in its order, and outputs {z}:
//
//   0: z = Add(y, y)    1: w = Exp(x)    2: y = Relu(x)
//   needed: 0, 2        order: 2, 0      node 1 is dropped: no output needs w
//
// The second half of the file bounds what calls of functions may copy. An ONNX function is inlined
// at each call, and functions may call others, so that a file of a few kilobytes could stand for
// terabytes. CopiedBytes estimates what an inlined node takes, and AddCopied refuses files whose
// copies are beyond 16 MiB and four times the file.
#include "ops/import/onnx_order.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "absl/container/flat_hash_map.h"
#include "ops/base/status.h"
#include "ops/import/onnx_messages.h"

namespace beamwright::ops {
namespace {

using Names = absl::flat_hash_set<std::string>;

// Adds the names that the graphs in a node's attributes read without defining them. Nesting is
// bounded by what protobuf parses (100 messages).
void AddFreeNames(const onnx::NodeProto& node, Names& free);

// A name is free if it is read anywhere in the graph and defined nowhere in it. The order of the
// nodes does not matter, since a graph that is not sorted yet is looked at, too.
void AddFreeNames(const onnx::GraphProto& graph, Names& free) {
  Names defined;
  Names read;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    defined.insert(input.name());
  }
  for (const onnx::TensorProto& initializer : graph.initializer()) {
    defined.insert(initializer.name());
  }
  for (const onnx::NodeProto& node : graph.node()) {
    read.insert(node.input().begin(), node.input().end());
    defined.insert(node.output().begin(), node.output().end());
    AddFreeNames(node, read);
  }
  for (const onnx::ValueInfoProto& output : graph.output()) {
    read.insert(output.name());
  }
  for (const std::string& name : read) {
    if (!defined.contains(name)) {
      free.insert(name);
    }
  }
}

void AddFreeNames(const onnx::NodeProto& node, Names& free) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) {
      AddFreeNames(attribute.g(), free);
    }
    for (const onnx::GraphProto& graph : attribute.graphs()) {
      AddFreeNames(graph, free);
    }
  }
}

class Order {
 public:
  explicit Order(const OnnxNodes& nodes)
      : nodes_(nodes), needed_(static_cast<size_t>(nodes.size()), false) {}

  absl::Status Define(const Names& given) {
    for (int i = 0; i < nodes_.size(); ++i) {
      for (const std::string& name : nodes_[i].output()) {
        if (!name.empty() && (given.contains(name) || !writer_.emplace(name, i).second)) {
          return Invalid(Describe(nodes_[i], i), ": ", Quote(name), " is defined twice");
        }
      }
    }
    return absl::OkStatus();
  }

  // Marks what the outputs need, and counts dependencies among it.
  void Mark(absl::Span<const std::string> outputs) {
    std::vector<int> open;
    const auto need = [&](int node) {
      if (!needed_[static_cast<size_t>(node)]) {
        needed_[static_cast<size_t>(node)] = true;
        open.push_back(node);
      }
    };
    for (const std::string& name : outputs) {
      if (const auto found = writer_.find(name); found != writer_.end()) {
        need(found->second);
      }
    }
    sources_.resize(needed_.size());
    while (!open.empty()) {
      const int node = open.back();
      open.pop_back();
      sources_[static_cast<size_t>(node)] = SourcesOf(node);
      for (const int source : sources_[static_cast<size_t>(node)]) {
        need(source);
      }
    }
  }

  // Kahn's algorithm: waits[i] is the number of sources of node i that are not in `order` yet, and
  // `ready` holds the nodes whose number is 0, the smallest index on top. Nodes on a cycle never
  // get there.
  absl::StatusOr<std::vector<int>> Sort() const {
    std::vector<std::vector<int>> readers(needed_.size());
    std::vector<size_t> waits(needed_.size(), 0);
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    size_t count = 0;
    for (size_t i = 0; i < needed_.size(); ++i) {
      if (!needed_[i]) {
        continue;
      }
      ++count;
      waits[i] = sources_[i].size();
      for (const int source : sources_[i]) {
        readers[static_cast<size_t>(source)].push_back(static_cast<int>(i));
      }
      if (waits[i] == 0) {
        ready.push(static_cast<int>(i));
      }
    }
    std::vector<int> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const int reader : readers[static_cast<size_t>(order.back())]) {
        if (--waits[static_cast<size_t>(reader)] == 0) {
          ready.push(reader);
        }
      }
    }
    if (order.size() != count) {
      return CycleError(waits);
    }
    return order;
  }

 private:
  // Nodes that the node reads, each once.
  std::vector<int> SourcesOf(int node) const {
    Names names(nodes_[node].input().begin(), nodes_[node].input().end());
    AddFreeNames(nodes_[node], names);
    std::vector<int> sources;
    for (const std::string& name : names) {
      if (const auto found = writer_.find(name); found != writer_.end()) {
        sources.push_back(found->second);
      }
    }
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    return sources;
  }

  // Describes a cycle: from any node that waits, its sources that wait lead into one.
  absl::Status CycleError(const std::vector<size_t>& waits) const {
    std::vector<bool> seen(waits.size(), false);
    auto at = static_cast<size_t>(
        std::find_if(waits.begin(), waits.end(), [](size_t count) { return count > 0; }) -
        waits.begin());
    while (!seen[at]) {
      seen[at] = true;
      for (const int source : sources_[at]) {
        if (waits[static_cast<size_t>(source)] > 0) {
          at = static_cast<size_t>(source);
          break;
        }
      }
    }
    const auto node = static_cast<int>(at);
    return Invalid(Describe(nodes_[node], node), " depends on itself");
  }

  const OnnxNodes& nodes_;
  std::vector<bool> needed_;
  std::vector<std::vector<int>> sources_;
  absl::flat_hash_map<std::string, int> writer_;  // name of a value -> node
};

}  // namespace

absl::StatusOr<std::vector<int>> OrderOnnxNodes(const OnnxNodes& nodes, const Names& given,
                                                absl::Span<const std::string> outputs) {
  Order order(nodes);
  BW_RETURN_IF_ERROR(order.Define(given));
  order.Mark(outputs);
  return order.Sort();
}

// An initializer may have the name of an input, whose default value it is then; so the two lists
// are checked each by itself.
absl::StatusOr<Names> GivenNames(const onnx::GraphProto& graph) {
  Names names;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (!names.insert(input.name()).second) {
      return Invalid("input ", Quote(input.name()), " occurs twice");
    }
  }
  Names initializers;
  for (const onnx::TensorProto& initializer : graph.initializer()) {
    if (!initializers.insert(initializer.name()).second) {
      return Invalid("initializer ", Quote(initializer.name()), " occurs twice");
    }
  }
  names.insert(initializers.begin(), initializers.end());
  return names;
}

std::vector<std::string> OutputNames(const onnx::GraphProto& graph) {
  std::vector<std::string> names;
  for (const onnx::ValueInfoProto& output : graph.output()) {
    names.push_back(output.name());
  }
  return names;
}

namespace {

constexpr int64_t kFreeCallBytes = int64_t{16} << 20;
constexpr int64_t kGrowth = 4;
// Roughly what a node or a name takes besides its text.
constexpr int64_t kNodeBytes = 256;
constexpr int64_t kNameBytes = 32;

template <typename Names>
int64_t NameBytes(const Names& names) {
  int64_t bytes = 0;
  for (const std::string& name : names) {
    bytes += kNameBytes + static_cast<int64_t>(name.size());
  }
  return bytes;
}

template <typename Nodes>
int64_t NodeBytes(const Nodes& nodes) {
  int64_t bytes = 0;
  for (const onnx::NodeProto& node : nodes) {
    bytes += kNodeBytes + NameBytes(node.input()) + NameBytes(node.output()) +
             static_cast<int64_t>(node.name().size() + node.op_type().size());
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      bytes += static_cast<int64_t>(attribute.name().size()) + CopiedBytes(attribute);
    }
  }
  return bytes;
}

// Nesting is bounded by what protobuf parses (100 messages).
int64_t GraphBytes(const onnx::GraphProto& graph) {
  return NodeBytes(graph.node()) +
         kNodeBytes * (graph.input_size() + graph.output_size() + graph.initializer_size() +
                       graph.value_info_size());
}

}  // namespace

int64_t CopiedBytes(const onnx::AttributeProto& attribute) {
  return static_cast<int64_t>(attribute.s().size()) + NameBytes(attribute.strings()) +
         8 * (attribute.ints_size() + attribute.floats_size()) +
         (attribute.has_g() ? GraphBytes(attribute.g()) : 0);
}

int64_t CopiedBytes(const onnx::FunctionProto& function) {
  return NameBytes(function.input()) + NameBytes(function.output()) + NodeBytes(function.node());
}

absl::Status AddCopied(int64_t bytes, OnnxImport& import) {
  import.copied_bytes += bytes;
  return import.copied_bytes > kFreeCallBytes + kGrowth * import.file_bytes
             ? Invalid("calls of functions repeat more than ", kFreeCallBytes >> 20,
                       " MiB and four times the file")
             : absl::OkStatus();
}

}  // namespace beamwright::ops
