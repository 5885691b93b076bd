// `init` for models of the translation toolkit Marian, as Firefox ships them.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_INIT_MARIAN_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_INIT_MARIAN_H_

#include <ostream>

#include "absl/status/status.h"
#include "tools/bundle/init.h"

namespace beamwright::tools {

// Whether the one graph given is such a model: a .bin or .npz file.
bool IsMarianModel(const InitOptions& options);

// As InitBundle: the model, both vocabularies and the shortlist as a bundle. Nothing is written
// where they do not belong together.
absl::Status InitMarianBundle(const InitOptions& options, std::ostream& output);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_INIT_MARIAN_H_
