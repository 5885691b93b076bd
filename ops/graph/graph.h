// Graph: what every importer produces and everything behind reads. One internal vocabulary of
// operators (docs/operators.md), whatever the file was; nodes stand in topological order.
//
// A Parameter, Constant and Result are nodes as well: op "Parameter" (no inputs, one output),
// "Constant" (its tensor in `constant`), "Result" (one input, no outputs).
#ifndef BEAMWRIGHT_OPS_GRAPH_GRAPH_H_
#define BEAMWRIGHT_OPS_GRAPH_GRAPH_H_

#include <memory>
#include <string>
#include <vector>

#include "ops/graph/attributes.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

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

struct Node {
  std::string op;    // internal operator name, for example "MatMul"
  std::string name;  // the layer's name in the file; need not be unique
  Attributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueInfo> outputs;
  Tensor constant;                   // op "Constant" only
  std::shared_ptr<const Loop> loop;  // op "Loop" only
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<int> parameters;  // node indices, in the order of the file
  std::vector<int> results;     // likewise

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

// The one loop form (TensorIterator, Loop and Scan are translated into it). The body is iterated;
// each body Parameter is fed by exactly one LoopInput.
struct LoopInput {
  enum class Kind {
    kSliced,     // part t of an axis of the node's input
    kCarried,    // first the node's input, then the body result `back_edge` of the iteration before
    kInvariant,  // the node's input in each iteration
    kIteration,  // the iteration's number, i64 or i32, from 0; no node input
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
  bool drop_axis = false;    // true: the slice loses the axis (Scan; part_size 1)
  int64_t external_id = -1;  // the file's own number for the node input, for messages
};

struct LoopOutput {
  enum class Kind {
    kLastValue,     // the value of the last iteration
    kConcatenated,  // parts joined along an axis that the body's result has
    kStacked,       // parts joined along a new axis
  };
  Kind kind = Kind::kLastValue;
  int output = -1;       // index into Node::outputs
  int body_result = -1;  // index into Graph::results of the body
  int64_t axis = 0;
  bool reversed = false;  // the last iteration's part comes first
  int64_t part_size = 1;  // kConcatenated: extent of each part on the axis
};

struct Loop {
  Graph body;
  std::vector<LoopInput> inputs;
  std::vector<LoopOutput> outputs;
  // Node inputs (indices, -1: none): number of iterations at most (negative value: unbounded) and
  // initial condition; condition_result: body result read after each iteration (index into
  // body.results, -1: none).
  int trip_count_input = -1;
  int condition_input = -1;
  int condition_result = -1;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_GRAPH_H_
