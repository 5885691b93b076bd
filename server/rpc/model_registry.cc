#include "server/rpc/model_registry.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "ops/base/status.h"
#include "server/rpc/rpc_status.h"

namespace beamwright::rpc {
namespace {

absl::StatusOr<std::vector<model::ModelFolder>> FindFolders(const ModelPaths& paths) {
  std::vector<model::ModelFolder> folders;
  for (const std::string& path : paths.repositories) {
    BW_ASSIGN_OR_RETURN(std::vector<model::ModelFolder> found, model::ScanRepository(path));
    if (found.empty()) {
      spdlog::warn("repository '{}' holds no model (<model>/<version>/)", path);
    }
    std::move(found.begin(), found.end(), std::back_inserter(folders));
  }
  for (const std::string& path : paths.models) {
    BW_ASSIGN_OR_RETURN(model::ModelFolder found, model::FindModel(path));
    folders.push_back(std::move(found));
  }
  return folders;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelRegistry>> ModelRegistry::Load(
    const ModelPaths& paths, const std::function<bool()>& stopped) {
  BW_ASSIGN_OR_RETURN(const std::vector<model::ModelFolder> folders, FindFolders(paths));
  std::unique_ptr<ModelRegistry> registry(new ModelRegistry);
  for (const model::ModelFolder& folder : folders) {
    if (stopped != nullptr && stopped()) {
      return absl::CancelledError("stopped while models were loading");
    }
    const model::LoadReport report = model::LoadNewest(
        folder, [&](model::Bundle bundle) { return registry->Add(std::move(bundle)); });
    for (const model::LoadFailure& failure : report.failures) {
      spdlog::error("model {} version {} cannot be served: {}", failure.model, failure.version,
                    std::string(failure.reason.message()));
      registry->failures_.push_back(failure);
    }
  }
  if (registry->models_.empty()) {
    std::vector<std::string> reasons;
    for (const model::LoadFailure& failure : registry->failures_) {
      reasons.push_back(std::string(failure.reason.message()));
    }
    return reasons.empty() ? absl::NotFoundError("there is no model to serve")
                           : absl::FailedPreconditionError(absl::StrCat(
                                 "no model can be served: ", absl::StrJoin(reasons, "; ")));
  }
  return registry;
}

absl::Status ModelRegistry::Add(model::Bundle bundle) {
  const auto taken = models_.find(bundle.name);
  if (taken != models_.end()) {
    return absl::AlreadyExistsError(
        absl::StrCat("another model is served by the name '", bundle.name, "'"));
  }
  const absl::Time start = absl::Now();
  BW_ASSIGN_OR_RETURN(const ModelPtr compiled, engine::DecodeModel::Compile(std::move(bundle)));
  spdlog::info("model {} version {} loaded in {:.2f} s, numerics {}", compiled->name(),
               compiled->version(), absl::ToDoubleSeconds(absl::Now() - start),
               compiled->numerics());
  Served& served = models_[compiled->name()];
  served.versions[compiled->version()] = compiled;
  served.newest = compiled;
  return absl::OkStatus();
}

std::string ModelRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, served] : models_) {
    names.push_back(absl::StrCat("'", name, "'"));
  }
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<ModelPtr> ModelRegistry::Lookup(const std::string& name,
                                               const std::string& version) const {
  if (name.empty() && models_.size() != 1) {
    return Invalid("model: is not set, and there are ", models_.size(), " models: ", Names());
  }
  const auto model = name.empty() ? models_.begin() : models_.find(name);
  if (model == models_.end()) {
    return absl::NotFoundError(
        absl::StrCat("Request for unknown model: '", name, "' is not found; served: ", Names()));
  }
  const Served& served = model->second;
  if (version.empty()) {
    return served.newest;
  }
  const auto found = served.versions.find(version);
  if (found == served.versions.end()) {
    const std::string versions = absl::StrJoin(
        served.versions, ", ",
        [](std::string* out, const auto& entry) { absl::StrAppend(out, "'", entry.first, "'"); });
    return absl::NotFoundError(absl::StrCat("Request for unknown model: '", model->first,
                                            "' version '", version,
                                            "' is not found; served: ", versions));
  }
  return found->second;
}

std::vector<v1::ModelSummary> ModelRegistry::List() const {
  std::vector<v1::ModelSummary> list;
  for (const auto& [name, served] : models_) {
    for (const auto& [version, compiled] : served.versions) {
      v1::ModelSummary& summary = list.emplace_back();
      summary.set_name(name);
      summary.set_version(version);
      summary.set_description(compiled->config().description());
      summary.set_ready(true);
    }
  }
  for (const model::LoadFailure& failure : failures_) {
    v1::ModelSummary& summary = list.emplace_back();
    summary.set_name(failure.model);
    summary.set_version(failure.version);
    summary.set_reason(ToRpcStatus(failure.reason).message());
  }
  return list;
}

}  // namespace beamwright::rpc
