// Cutting text into the tokens of a list that says no more than what each token writes. Private to
// bundle/.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_CUT_TEXT_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_CUT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace beamwright::bundle {

// The id of the token that writes this text; -1: no token does.
using TokenLookUp = absl::FunctionRef<int32_t(absl::string_view)>;

// The longest token with which `text` begins, at most `longest` bytes, and its size; -1: none.
int32_t LongestToken(absl::string_view text, size_t longest, TokenLookUp find, size_t& size);

// The fewest tokens that make up `text`, of as many the longer ones first. Empty if none do, or if
// finding out would take more than some million look-ups.
std::vector<int32_t> CutIntoFewest(absl::string_view text, size_t longest, TokenLookUp find);

// The longest tokens from the left, or, where they leave something over, the fewest.
std::vector<int32_t> CutText(absl::string_view text, size_t longest, TokenLookUp find);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_CUT_TEXT_H_
