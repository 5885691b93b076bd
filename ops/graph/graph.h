// Graph: what every importer produces and everything behind reads. One internal vocabulary of
// operators (docs/operators.md), whatever the file was; nodes stand in topological order.
//
// A Parameter, Constant and Result are nodes as well: op "Parameter" (no inputs, one output),
// "Constant" (its tensor in `constant`), "Result" (one input, no outputs).
#ifndef BEAMWRIGHT_OPS_GRAPH_GRAPH_H_
#define BEAMWRIGHT_OPS_GRAPH_GRAPH_H_

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// Attributes of a node: named values of a few kinds. Importers fill them, operators read them by
// typed getters; an attribute that no operator reads is an error at load (see Validate), never a
// silent default.

using AttributeValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>,
                                    std::vector<double>, std::vector<std::string>>;

// Copies share their values until one of them is set: a graph is copied by each pass over it.
class Attributes {
 public:
  using Map = std::map<std::string, AttributeValue>;

  void Set(std::string name, AttributeValue value);
  bool Has(const std::string& name) const { return values().count(name) > 0; }
  const Map& values() const;

  // The attribute as a T, `fallback` if absent; InvalidArgument naming it if it has another kind.
  // Integers are taken where floats are asked for.
  absl::StatusOr<int64_t> Int(const std::string& name, int64_t fallback) const;
  absl::StatusOr<double> Float(const std::string& name, double fallback) const;
  absl::StatusOr<bool> Bool(const std::string& name, bool fallback) const;
  absl::StatusOr<std::string> String(const std::string& name, std::string fallback) const;
  absl::StatusOr<std::vector<int64_t>> Ints(const std::string& name,
                                            std::vector<int64_t> fallback) const;
  absl::StatusOr<std::vector<double>> Floats(const std::string& name,
                                             std::vector<double> fallback) const;
  absl::StatusOr<std::vector<std::string>> Strings(const std::string& name,
                                                   std::vector<std::string> fallback) const;

 private:
  std::shared_ptr<Map> values_;  // null: none
};

// An output of a node. node < 0: an absent optional input.
struct ValueId {
  int node = -1;
  int output = 0;
  bool present() const { return node >= 0; }
  friend bool operator==(const ValueId&, const ValueId&) = default;
};

// What is known of a value before it is computed.
struct ValueInfo {
  DType dtype = DType::kUndefined;
  PartialShape shape;
  std::vector<std::string> names;  // tensor names of the file, may be empty
};

struct Loop;
struct If;

struct Node {
  std::string op;    // internal operator name, for example "MatMul"
  std::string name;  // the layer's name in the file; need not be unique
  Attributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueInfo> outputs;
  Tensor constant;                     // op "Constant" only
  std::shared_ptr<const Loop> loop;    // op "Loop" only
  std::shared_ptr<const If> branches;  // op "If" only
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<int> parameters;  // node indices, in the order of the file
  std::vector<int> results;     // node indices, in the order of the file
  // What the file says of itself that does not hold, for people; it was passed over. Only as an
  // importer leaves the graph.
  std::vector<std::string> warnings;

  const Node& node(int index) const { return nodes[static_cast<size_t>(index)]; }
  Node& node(int index) { return nodes[static_cast<size_t>(index)]; }
  const ValueInfo& info(ValueId id) const {
    return node(id.node).outputs[static_cast<size_t>(id.output)];
  }
};

// "MatMul 'decoder/logits'": how messages name a node.
std::string Describe(const Node& node);
// Name of a Parameter or Result for people and files: its tensor name if it has one, else the
// layer's. A Result is named after the value that it reads where that has a tensor name.
std::string PortName(const Graph& graph, int node);

// The one loop form: TensorIterator, OpenVINO's Loop, ONNX's Loop and Scan, and sequences of
// recurrent cells are translated into it. The body is iterated; each body Parameter is fed by
// exactly one LoopInput. A body reads nothing but its Parameters: what it uses from outside is an
// invariant input. All back edges act together: an iteration's Results are complete before a
// Parameter changes.
struct LoopInput {
  enum class Kind {
    kSliced,     // part t of an axis of the node's input
    kCarried,    // first the node's input, then the body result `back_edge` of the iteration before
    kInvariant,  // the node's input in each iteration
    kIteration,  // the iteration's number from 0, a scalar (or [1] if declared so), i64 or i32; no
                 // node input
  };
  Kind kind = Kind::kInvariant;
  int input = -1;           // index into Node::inputs
  int body_parameter = -1;  // index into Graph::parameters of the body
  int back_edge = -1;       // kCarried: index into Graph::results of the body
  // kSliced: inclusive range as in TensorIterator-1; negative values count from the end. Part t of
  // the range is taken in the direction of stride; inside a part the order ascends.
  int64_t axis = 0;
  int64_t start = 0;
  int64_t end = -1;
  int64_t stride = 1;
  int64_t part_size = 1;
  bool drop_axis = false;     // true: the slice loses the axis (part_size 1)
  bool may_be_empty = false;  // true: an empty axis has no parts (Scan); else it is an error
  int64_t external_id = -1;   // the file's own number for the node input, for messages
};

struct LoopOutput {
  enum class Kind {
    kLastValue,     // the value of the last iteration
    kConcatenated,  // parts joined along an axis that the body's result has; scalars are stacked
    kStacked,       // parts joined along a new axis
  };
  Kind kind = Kind::kLastValue;
  int output = -1;        // index into Node::outputs
  int body_result = -1;   // index into Graph::results of the body
  int64_t axis = 0;       // kStacked: counted in the output's rank
  bool reversed = false;  // the last iteration's part comes first
  int64_t part_size = 1;  // kConcatenated: extent of each part on the axis
};

// The number of iterations is the least of: the parts of the sliced inputs (which must agree), the
// trip count unless negative, and the iterations until the condition is false. A trip count above
// the number of parts is an error. With no parts, no trip count and no condition_result the body
// runs once. A loop that only its condition bounds ends with an error after
// kMaxUnboundedIterations.
//
// Zero iterations give each last-value output whose result is a back edge's source the initial
// value of that state; any other last-value output is an error. Concatenated and stacked outputs
// are empty on their axis; their other extents must follow from the inputs or the body's
// declarations, else it is an error. Errors name the output.
struct Loop {
  // How the items of a batch iterate: rows of a recurrent sequence, or items of a Scan of opset 8.
  enum class Items {
    kTogether,  // the body sees the whole batch; there are no lengths
    // Every state, slice and result has the batch on axis 0, and item b takes part in the first
    // lengths[b] positions of the sliced axis only. Elsewhere it holds its states and its parts of
    // outputs are zeros. Read backwards (all slices with negative stride), that is from its last
    // valid element on. Last-value outputs must be sources of back edges.
    kHeld,
    // Each item of axis 0 of every carried and sliced input runs alone, and the body does not see
    // that axis; `axis` of slices and outputs counts in one item. Item b runs over the first
    // lengths[b] elements of the sliced axes. Outputs get the batch back on axis 0 and are filled
    // with zeros behind an item's last part.
    kApart,
  };

  Graph body;
  std::vector<LoopInput> inputs;
  std::vector<LoopOutput> outputs;
  // Node inputs (indices, -1: none), integer and boolean of one element: number of iterations at
  // most (negative value: unbounded) and whether to begin. condition_result: body result, a boolean
  // of one element, read after each iteration: whether another follows (index into body.results,
  // -1: none). ONNX's Loop without a condition input ignores its body's condition: leave it -1.
  int trip_count_input = -1;
  int condition_input = -1;
  int condition_result = -1;
  // False: each state keeps its shape (TensorIterator, Scan). True: only its type (Loop).
  bool states_may_change_shape = false;

  // Only with sliced inputs, and without trip count and conditions. lengths_input: node input [b],
  // i32 or i64, each in [0, extent of the sliced axis]; -1: all items run over the whole axis.
  Items items = Items::kTogether;
  int lengths_input = -1;
};

inline constexpr int64_t kMaxUnboundedIterations = 1'000'000;

// One branch of an If. It reads nothing but its Parameters: an importer makes values from outside
// inputs of the node.
struct Branch {
  Graph body;
  std::vector<int> inputs;   // for each body Parameter the index into Node::inputs
  std::vector<int> results;  // for each of the node's outputs the index into body.results
};

// Runs one of two graphs. Each output has one type; its shape is what both branches allow. A
// condition known at load leaves one branch, and the other one is not looked at.
struct If {
  int condition_input = 0;  // index into Node::inputs: boolean of one element
  Branch then_branch;
  Branch else_branch;
};

// Calls `visit(const Graph&, absl::string_view what)` for each graph inside the node: "body",
// "then branch", "else branch".
template <typename Visit>
void VisitBodies(const Node& node, Visit visit) {
  if (node.loop != nullptr) {
    visit(node.loop->body, "body");
  }
  if (node.branches != nullptr) {
    visit(node.branches->then_branch.body, "then branch");
    visit(node.branches->else_branch.body, "else branch");
  }
}

// What a node is called in the file that it came from, where the internal vocabulary has another
// name for it: ONNX's Max is a Maximum here, an LSTM layer a Loop. People know the former, so
// Describe names it. It is an attribute that no operator reads, so that copies
// of a node keep it.

inline constexpr char kFileOperator[] = "file_operator";

// Nodes `begin` and later of the graph were made of one of `type`, those in bodies of the loops
// among them too.
void SetFileOperator(const std::string& type, size_t begin, Graph& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_GRAPH_H_
