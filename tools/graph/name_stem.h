// Names of states on either side of a step: what is left of "h_prev" and "next_h" once the words
// are taken away that only say which side they stand on.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_NAME_STEM_H_
#define BEAMWRIGHT_TOOLS_GRAPH_NAME_STEM_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright::ops {

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

#endif  // BEAMWRIGHT_TOOLS_GRAPH_NAME_STEM_H_
