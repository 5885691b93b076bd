#include "tools/bundle/check.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/base/printable.h"
#include "ops/base/status.h"
#include "tools/bundle/try_bundle.h"
#include "tools/graph/check.h"
#include "tools/graph/commands.h"

namespace beamwright::tools {
namespace {

bool CheckBundle(const std::string& folder, const std::string& allow_links, std::ostream& output) {
  const auto model = TryBundle(folder, allow_links);
  output << (model.ok() ? "  can be loaded\n" : "  can't be loaded\n");
  if (!model.ok()) {
    output << "  " << Printable(model.status().message()) << "\n";
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
    const bool is_bundle = std::filesystem::is_directory(path, error);
    if (!(is_bundle ? CheckBundle : CheckGraph)(path, flags.allow_links, output)) {
      bad.push_back(absl::StrCat("'", path, "'"));
    }
  }
  return bad.empty() ? absl::OkStatus() : Invalid(absl::StrJoin(bad, ", "), " can't be loaded");
}

}  // namespace beamwright::tools
