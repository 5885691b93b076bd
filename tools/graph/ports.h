// The inputs and outputs of a graph as lists that guesses are made on, the names by which people
// and files address them, and the stems of names of states. Private to tools/.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_PORTS_H_
#define BEAMWRIGHT_TOOLS_GRAPH_PORTS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

// The inputs or outputs of a graph as lists that guesses are made on.

struct Port {
  int node = -1;     // the Parameter or Result
  std::string name;  // PortName
  ValueInfo info;
};
using Ports = std::vector<Port>;

Ports InputPorts(const Graph& graph);
Ports OutputPorts(const Graph& graph);

// "'h' f32[?, 256], 'c' f32[?, 256]", or "none".
std::string Listing(const Ports& ports);

using PortTest = std::function<bool(const Port&)>;
Ports Where(const Ports& ports, const PortTest& test);
// nullptr if no port has that name.
const Port* FindPort(const Ports& ports, const std::string& name);

// Could one value be both? Unknown ranks and extents fit everything.
bool Fits(const ValueInfo& a, const ValueInfo& b);

// The names by which people and files address a graph's inputs and outputs.

// PortName of each of `nodes` (Graph::parameters or Graph::results), made unique: names in a file
// need not be, so the second of a name gets "#2" behind it, the third "#3".
std::vector<std::string> UniquePortNames(const Graph& graph, absl::Span<const int> nodes);

// Names of states on either side of a step: what is left of "h_prev" and "next_h" once the words
// are taken away that only say which side they stand on.

// The words of a name in lower case: split at everything but letters and digits, and where a small
// letter meets a capital one. "decoder/prevHidden.0" is decoder, prev, hidden, 0.
std::vector<std::string> NameWords(absl::string_view name);

// Whether one of the name's words is one of `words`.
bool HasWord(absl::string_view name, absl::Span<const absl::string_view> words);

// The name's words without in and out, prev and next, past and present, old and new and their like,
// joined by '_'. Empty if nothing else is there.
std::string NameStem(absl::string_view name);

// The stem without PyTorch's h0 or h_0 for the first and hn or h_n for the last state as well: of
// an input "0" is dropped at the end, of an output "n".
std::string LooseStem(absl::string_view name, bool is_input);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_PORTS_H_
