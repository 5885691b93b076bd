// The command line of beamwright-graph.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_TOOL_H_
#define BEAMWRIGHT_TOOLS_GRAPH_TOOL_H_

#include <ostream>

namespace beamwright::tools {

// Returns the exit code: 0 done, 1 bad file or input (one line "beamwright-graph: ..." to
// `errors`), 2 bad command line (also one line).
int RunGraphTool(int argc, const char* const* argv, std::ostream& output, std::ostream& errors);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_GRAPH_TOOL_H_
