// Inputs of a step graph that a search knows without being given them: the number of the step, and
// a mask over the places of a cache that grows. Configured as states without an output of their
// own.
#ifndef BEAMWRIGHT_OPS_DECODER_STEP_INPUTS_H_
#define BEAMWRIGHT_OPS_DECODER_STEP_INPUTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/graph/inference.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {

// Of a variable (ReadValue and Assign), index into graph.results of the result of its input's name;
// -1 if missing.
int VariableResult(const Graph& graph, const std::string& input);

// Whether the ports name an input (a Parameter node) as a state that goes on with nothing, and it
// takes integers: the number of the step.
bool CountsSteps(const Graph& graph, const DecoderPorts& ports, int parameter);

// Whether the ports name an input [rows, places] as a state with the output of another state, a
// cache of higher rank: a mask over that cache as it is after the step, all of the state's
// constant.
bool MasksCache(const Graph& graph, const DecoderPorts& ports, int parameter);

// The node that joins a Parameter with something else, as a step joins a cache with what it adds;
// -1: none.
int JoinOfState(const Graph& graph, int parameter);

// Row axes as of FoldShapes: those of a decoder, and none of a number of the step that all rows
// share. `tokens`: index into graph.parameters, -1: not known.
std::vector<int> StepRowAxes(const Graph& graph, const DecoderPorts& ports, int tokens);

// What the passes of a decoder know (PassContext::decoder).
struct DecoderContext {
  const DecoderPorts& ports;
  std::vector<std::string>* moved_states = nullptr;  // DecoderForm::moved_states
  // JoinTarget: the tokens (index into graph.parameters), their time axis, and the results that the
  // loop gives (indices into graph.results).
  int tokens = -1;
  int time_axis = 0;
  std::vector<int> outputs = {};
};

// The Parameter that takes a step's tokens, as an index into graph.parameters; -1: none of the
// name.
int TokenParameter(const Graph& graph, const DecoderPorts& ports);

// Passes over a step graph (ops/passes/passes.h). Errors name the state.
// Where states grow, the tokens become one token, and states that start with a constant start
// empty, so that all are equally long; a constant of NaN says that a state starts otherwise.
absl::StatusOr<bool> TakeOneToken(Graph& graph, GraphInfo& info, const PassContext& context);
// A mask over a cache becomes a part of the step, which computes it.
absl::StatusOr<bool> AddMasks(Graph& graph, GraphInfo& info, const PassContext& context);
// A number of the step [rows, 1] (or [rows], as the tokens) becomes a state to which each step adds
// 1; a scalar or [1] is left to the loop's own number.
absl::StatusOr<bool> AddStepNumbers(Graph& graph, GraphInfo& info, const PassContext& context);
// KeepComputed of the states that grow and start empty, until nothing changes.
absl::StatusOr<bool> KeepComputedCaches(Graph& graph, GraphInfo& info, const PassContext& context);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_STEP_INPUTS_H_
