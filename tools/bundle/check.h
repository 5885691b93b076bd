// What `beamwright-graph check` does: loads graph files and model bundles as the server does, and
// says what it found.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_CHECK_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_CHECK_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace beamwright::tools {

struct CheckFlags {
  std::vector<std::string> paths;  // graph files, and folders with a model.textproto
  std::string allow_links;
};
// An error names what can't be loaded; what is wrong with each is printed.
absl::Status Check(const CheckFlags& flags, std::ostream& output);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_CHECK_H_
