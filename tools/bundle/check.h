// What `beamwright-graph check` does: loads graph files and model bundles as the server does, and
// says what it found. `init` tries its bundles in the same way.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_CHECK_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_CHECK_H_

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/decode_model.h"

namespace beamwright::tools {

// A bundle as the server loads it, to say beforehand what the server would say.

// Reads and compiles the bundle, replays its golden requests and decodes a made-up source, through
// encoder and decoder. Errors are those with which the server refuses it.
absl::StatusOr<std::shared_ptr<const engine::DecodeModel>> TryBundle(
    const std::string& folder, const std::string& allow_links);

// What it found of the model, for people: how its sources and steps are batched. One line each.
std::vector<std::string> FactsOf(const engine::DecodeModel& model);

// What `beamwright-graph check` does: loads graph files and model bundles as the server does, and
// says what it found.

struct CheckFlags {
  std::vector<std::string> paths;  // graph files, and folders with a model.textproto
  std::string allow_links;
};
// An error names what can't be loaded; what is wrong with each is printed.
absl::Status Check(const CheckFlags& flags, std::ostream& output);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_CHECK_H_
