// `beamwright-graph check PATH...`: Check goes over the paths. A folder is a bundle: CheckBundle
// loads it as the server does, decodes a made-up request with it (TryBundle) and prints what was
// found out about it (FactsOf). A file is a graph: CheckGraph reports every node that cannot
// be loaded (ops::CheckFile). The exit code says whether all of them load.
#include "tools/bundle/check.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/load_model.h"
#include "engine/model/parts.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "tools/bundle/init_parts.h"
#include "tools/graph/check.h"
#include "tools/graph/commands.h"

namespace beamwright::tools {
namespace {

namespace fs = std::filesystem;

using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

std::string Together(absl::string_view what, const v1::Batching& batching) {
  return batching.together() ? absl::StrCat(what, " of several requests together")
                             : absl::StrCat(what, " one at a time, because ", batching.reason());
}

}  // namespace

absl::StatusOr<ModelPtr> TryBundle(const std::string& folder, const std::string& allow_links) {
  std::vector<std::string> links;
  if (!allow_links.empty()) {
    links.push_back(allow_links);
  }
  BW_ASSIGN_OR_RETURN(ModelPtr model, engine::LoadModel(folder, links, {}));
  BW_RETURN_IF_ERROR(engine::TryModel(model, folder, links, {}));
  return model;
}

std::vector<std::string> FactsOf(const engine::DecodeModel& model) {
  const v1::ModelDescription description = model.Describe();
  std::vector<std::string> facts;
  if (description.has_encoder_batching()) {
    facts.push_back(Together("encodes sources", description.encoder_batching()));
  }
  if (description.has_length_batching()) {
    const v1::Batching& lengths = description.length_batching();
    facts.push_back(absl::StrCat("encodes sources of unequal length ",
                                 lengths.together() ? "together" : "apart, because ",
                                 lengths.reason()));
  }
  facts.push_back(Together("steps rows", description.step_batching()));
  if (description.has_streaming()) {
    const v1::StreamingDescription& streaming = description.streaming();
    facts.push_back(absl::StrCat("a stream is read in chunks of ", streaming.chunk(),
                                 " frames, the next ", streaming.shift(), " later; each gives ",
                                 streaming.frames(), " frames, and states of ",
                                 streaming.state_bytes(), " bytes"));
  }
  if (model.parts().picture.has_value()) {
    const v1::PictureConfig& picture = model.parts().picture->config();
    facts.push_back(absl::StrCat(
        "reads pictures, PNG or JPEG: ", picture.channels() == 1 ? "grey" : "in colour", ", ",
        picture.height(), " pixels high, ",
        picture.width() == 0 ? std::string("as wide as their ratio gives")
                             : absl::StrCat(picture.width(), " wide")));
  }
  for (const engine::ScorerPart& scorer : model.parts().scorers) {
    if (!scorer.note.empty()) {
      facts.push_back(absl::StrCat("scorer '", scorer.name, "' is ", scorer.note));
    }
  }
  return facts;
}

namespace {

// "; check FOLDER/1, ..." for the folder of a model, whose versions are bundles.
std::string VersionsBelow(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> versions;
  if (!fs::exists(folder / kConfigFile, error)) {
    for (auto at = fs::directory_iterator(folder, error); !error && at != fs::end(at);
         at.increment(error)) {
      if (fs::exists(at->path() / kConfigFile, error)) {
        versions.push_back(at->path().string());
      }
    }
  }
  std::sort(versions.begin(), versions.end());
  return versions.empty() ? "" : absl::StrCat("; check ", absl::StrJoin(versions, ", "));
}

bool CheckBundle(const std::string& folder, const std::string& allow_links, std::ostream& output) {
  const auto model = TryBundle(folder, allow_links);
  output << (model.ok() ? "  can be loaded\n" : "  can't be loaded\n");
  if (!model.ok()) {
    output << "  " << Printable(absl::StrCat(model.status().message(), VersionsBelow(folder)))
           << "\n";
    return false;
  }
  for (const std::string& fact : FactsOf(**model)) {
    output << "  " << Printable(fact) << "\n";
  }
  return true;
}

bool CheckGraph(const std::string& file, const std::string& allow_links, std::ostream& output) {
  const ops::GraphFindings findings = ops::CheckFile(file, allow_links);
  output << ops::CheckText(findings, 2);
  return findings.ok();
}

}  // namespace

absl::Status Check(const CheckFlags& flags, std::ostream& output) {
  std::vector<std::string> bad;
  for (const std::string& path : flags.paths) {
    output << Printable(path) << ":\n";
    std::error_code error;
    const bool is_bundle = fs::is_directory(path, error);
    if (!(is_bundle ? CheckBundle : CheckGraph)(path, flags.allow_links, output)) {
      bad.push_back(absl::StrCat("'", path, "'"));
    }
  }
  return bad.empty() ? absl::OkStatus() : Invalid(absl::StrJoin(bad, ", "), " can't be loaded");
}

}  // namespace beamwright::tools
