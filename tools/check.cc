#include "tools/check.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/tensor/deferred.h"
#include "ops/tools/check.h"
#include "ops/tools/commands.h"
#include "ops/tools/printable.h"
#include "server/engine/model/decode_model.h"
#include "server/model/bundle.h"

namespace beamwright::tools {
namespace {

// Reads and compiles a bundle, and lets it go.
absl::Status LoadBundle(const std::string& folder, const std::string& allow_links) {
  std::vector<std::string> links;
  if (!allow_links.empty()) {
    links.push_back(allow_links);
  }
  ops::DeferredScope deferred;  // weights are packed one by one
  BW_ASSIGN_OR_RETURN(model::Bundle bundle, model::LoadBundle(folder, links));
  const auto compiled = engine::DecodeModel::Compile(std::move(bundle));
  // If weights could not be read, whatever else went wrong did so because of them.
  const absl::Status read = deferred.Finish();
  return read.ok() ? compiled.status() : read;
}

bool CheckBundle(const std::string& folder, const std::string& allow_links, std::ostream& output) {
  const absl::Status status = LoadBundle(folder, allow_links);
  output << (status.ok() ? "  can be loaded\n" : "  can't be loaded\n");
  if (!status.ok()) {
    output << "  " << ops::Printable(status.message()) << "\n";
  }
  return status.ok();
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
    output << ops::Printable(path) << ":\n";
    std::error_code error;
    const bool is_bundle = std::filesystem::is_directory(path, error);
    if (!(is_bundle ? CheckBundle : CheckGraph)(path, flags.allow_links, output)) {
      bad.push_back(absl::StrCat("'", path, "'"));
    }
  }
  return bad.empty() ? absl::OkStatus() : Invalid(absl::StrJoin(bad, ", "), " can't be loaded");
}

}  // namespace beamwright::tools
