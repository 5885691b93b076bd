// A bundle as the server loads it, to say beforehand what the server would say.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_TRY_BUNDLE_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_TRY_BUNDLE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/decode_model.h"

namespace beamwright::tools {

// Reads and compiles the bundle, replays its golden requests and decodes a made-up source, through
// encoder and decoder. Errors are those with which the server refuses it.
absl::StatusOr<std::shared_ptr<const engine::DecodeModel>> TryBundle(
    const std::string& folder, const std::string& allow_links);

// What it found of the model, for people: how its sources and steps are batched. One line each.
std::vector<std::string> FactsOf(const engine::DecodeModel& model);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_TRY_BUNDLE_H_
