// What `beamwright-graph check` finds: whether a graph can be loaded, all operators that stand in
// the way at once, and what a search pays for stepping it (docs/architecture.md, 'Rows').
#ifndef BEAMWRIGHT_TOOLS_GRAPH_CHECK_H_
#define BEAMWRIGHT_TOOLS_GRAPH_CHECK_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ops/compile/row_proof.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

// How a search would step the graph as a decoder.
struct StepFinding {
  std::string what;      // "Loop 'decoder.loop'", "step graph with token 'x' and states 'h', 'c'"
  int instructions = 0;  // of a step
  // Computed before, once per request.
  std::vector<std::string> once_per_request;
  // Empty: the rows of all requests run together. Else why they run one at a time.
  std::string row_by_row;
  // Then what may be the cause; empty: not known.
  std::string perhaps;
  // Of the instructions those that run request by request, where rows run together.
  std::vector<std::string> per_request;
  bool reads_memory = false;  // false: a decoder without an encoder, such as a language model
};

struct GraphFindings {
  std::vector<std::string> unsupported;  // every node whose operator is missing
  absl::Status status;                   // the first other fault; OK if the graph compiles
  std::vector<std::string> warnings;     // Graph::warnings
  std::optional<StepFinding> step;       // none if the graph is not a decoder
  std::string no_step;                   // then why not
  // What the graph is for a search by frames, and what serves it; empty: nothing that is known.
  std::string frames;
  // Of what may be an encoder: whether sources of several requests run through it together.
  std::optional<RowProof> encoder;

  bool ok() const { return unsupported.empty() && status.ok(); }
};

// `graph`: as the importer leaves it, unknown layers kept.
GraphFindings CheckGraph(Graph graph);

// For people; names from the file are made printable. Lines are indented by `indent` blanks.
std::string CheckText(const GraphFindings& findings, int indent);

// Extents that an export wrote down as numbers where they are open: PyTorch's TorchScript exporter
// does that to nn.MultiheadAttention's memory, and to views by x.size(). Such a graph loads, and
// works for sources of one length alone.

// The first Reshape whose constant target can't be made of the extents that are known, with what to
// do, for people: some number in it is an open extent's, or a factor of one (the heads of rows *
// heads are no fault). So it explains what fails, and proves nothing. Empty: none. Bodies
// are looked into. `graph` as InferGraph leaves it.
std::string FrozenReshape(const Graph& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_CHECK_H_
