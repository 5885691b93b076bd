// How the tokens of a list say where words begin and end.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_SUBWORD_MARK_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_SUBWORD_MARK_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "beamwright/v1/model.pb.h"

namespace beamwright::tools {

// Whether a token has the form of a special one: "<pad>", "[PAD]".
bool LooksSpecial(absl::string_view token);

// Nothing if the tokens bear no mark that is known. `reasons` gets a line that says which, by which
// tokens.
std::optional<v1::SubwordMark> FindSubwordMark(const std::string& side,
                                               const std::vector<std::string>& tokens,
                                               std::vector<std::string>& reasons);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_SUBWORD_MARK_H_
