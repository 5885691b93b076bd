// The two forms of decoder graph that are compiled: a step graph, or a graph with one loop over the
// target sequence that holds the whole step. Other exports are brought into the second form.
#ifndef BEAMWRIGHT_OPS_DECODER_DECODER_FORM_H_
#define BEAMWRIGHT_OPS_DECODER_DECODER_FORM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

struct DecoderForm {
  Graph graph;
  GraphInfo info;
  int loop_node = -1;   // of the loop over the target sequence; -1: a step graph
  bool joined = false;  // the loop was made of layers and loops
  // Parameters of a step graph that take [rows, layers, ...] where the export has [layers, rows,
  // ...] (ops/decoder/step_form.h), by name.
  std::vector<std::string> moved_states;
};

// A graph without loops, or whose states name their outputs, is a step graph. Else what works time
// step by time step around its loops is moved into one (ops/decoder/target_loop.h). Errors name the
// field of model.textproto or the layer.
absl::StatusOr<DecoderForm> FormDecoder(Graph graph, const DecoderPorts& ports);

// Takes off a graph what a search does itself: loops that run once, and states reordered by a beam
// index. `graph` as InferGraph leaves it, before and after.
absl::Status LeaveTheStep(Graph& graph);

// Index into graph.results of the Result that an input of a step graph (index into
// graph.parameters) goes on with: as configured, or, for a variable (ReadValue and Assign), the one
// of the same name. -1: the input is not a state. A configured state that goes on with nothing, or
// with what it cannot be, is InvalidArgument.
absl::StatusOr<int> FindStateResult(const Graph& graph, const DecoderPorts& ports,
                                    size_t parameter);

// Index into graph.results of the result with this name; the only one if the name is empty.
// InvalidArgument names the field and the results that there are; `whose` the graph is.
absl::StatusOr<int> FindResult(const Graph& graph, const std::string& field,
                               const std::string& name, const char* whose = "decoder");

// The same for attention_output; -1 if the configuration names none.
absl::StatusOr<int> FindAttention(const Graph& graph, const DecoderPorts& ports);

// What is known of the value that result number `result` hands on.
const ValueInfo& InfoOfResult(const Graph& graph, int result);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_DECODER_FORM_H_
