// Names: what models may be called, and which name was probably meant by one that does not exist.
#ifndef BEAMWRIGHT_OPS_BASE_NAMES_H_
#define BEAMWRIGHT_OPS_BASE_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright {

// How far two names are from each other: for messages that say which one was meant.

// How many characters have to be inserted, removed or replaced (Levenshtein 1966). Its time is the
// product of the lengths.
size_t EditDistance(absl::string_view a, absl::string_view b);

// The name that was probably meant by one that does not exist: "did you mean --beam-size?".

// The one of `names` that begins with `given` if there is only one, else the one with the fewest
// letters to change, add or leave out: a third of them at most. Empty: none is near.
std::string NearestName(absl::string_view given, absl::Span<const std::string> names);

// "; did you mean --beam-size?" for the arguments among `given` that begin with -- and are near to
// a flag. `flags` have no dashes. Empty: none is near.
std::string FlagSuggestions(absl::Span<const std::string> given,
                            absl::Span<const std::string> flags);

// The same for the arguments that a CLI::App does not know. A template, so that this folder needs
// no CLI11.
template <typename App>
std::string FlagSuggestions(const App& app) {
  std::vector<std::string> flags;
  for (const auto* option : app.get_options()) {
    flags.insert(flags.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  return FlagSuggestions(app.remaining(), flags);
}

// What models may be called.

// InvalidArgument unless `name` may name a model: 1 to 128 letters, digits, '.', '_' and '-', no
// dot first.
absl::Status CheckModelName(const std::string& name);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_NAMES_H_
