#include "server/serving/model_registry.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "ops/base/status.h"
#include "server/serving/wire_status.h"

namespace beamwright::serving {

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

model::LoadReport ModelRegistry::Compile(const model::ModelFolder& folder,
                                         ModelPtr& compiled) const {
  absl::Time start = absl::Now();
  const model::LoadReport report =
      model::LoadNewest(folder, [&](model::Bundle bundle) -> absl::Status {
        BW_ASSIGN_OR_RETURN(compiled,
                            engine::DecodeModel::Compile(std::move(bundle), paths_.compile));
        return absl::OkStatus();
      });
  const absl::Duration took = absl::Now() - start;
  for (const model::LoadFailure& failure : report.failures) {
    spdlog::error("model {} version {} cannot be served: {}", failure.model, failure.version,
                  std::string(failure.reason.message()));
  }
  if (report.loaded.has_value()) {
    spdlog::info("model {} version {} loaded in {:.2f} s, numerics {}", compiled->name(),
                 compiled->version(), absl::ToDoubleSeconds(took), compiled->numerics());
    const ops::TokenTables& tables = compiled->token_tables();
    if (tables.count > 0) {
      spdlog::info("model {}: tables per token: {}, {} bytes", compiled->name(), tables.count,
                   tables.bytes);
    } else if (!tables.refused.empty()) {
      spdlog::warn("model {}: no tables per token: {}", compiled->name(), tables.refused);
    }
  }
  if (load_observer_ != nullptr) {
    for (const model::LoadFailure& failure : report.failures) {
      load_observer_(failure.model, false, took);
    }
    if (report.loaded.has_value()) {
      load_observer_(compiled->name(), true, took);
    }
  }
  return report;
}

absl::Status ModelRegistry::Serve(const std::string& folder, ModelPtr compiled) {
  const std::string name = compiled->name();
  absl::MutexLock lock(&mutex_);
  const auto taken = models_.find(name);
  if (taken != models_.end() && taken->second.folder != folder) {
    return absl::AlreadyExistsError(
        absl::StrCat("another model is served by the name '", name, "'"));
  }
  const auto before = FindByFolder(folder);
  if (before != models_.end() && before->first != name) {
    // model.textproto calls it something else now.
    if (serving_observer_ != nullptr) {
      serving_observer_(before->first, false);
    }
    models_.erase(before);
  }
  models_[name] = {folder, std::move(compiled)};
  if (serving_observer_ != nullptr) {
    serving_observer_(name, true);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ModelRegistry>> ModelRegistry::Load(
    const ModelPaths& paths, const std::function<bool()>& stopped, const LoadObserver& observer) {
  BW_ASSIGN_OR_RETURN(const std::vector<model::ModelFolder> folders, FindFolders(paths));
  std::unique_ptr<ModelRegistry> registry(new ModelRegistry(paths, observer));
  std::vector<std::string> reasons;
  for (const model::ModelFolder& folder : folders) {
    if (stopped != nullptr && stopped()) {
      return absl::CancelledError("stopped while models were loading");
    }
    ModelPtr compiled;
    model::LoadReport report = registry->Compile(folder, compiled);
    if (report.loaded.has_value()) {
      const std::string version = compiled->version();
      if (absl::Status status = registry->Serve(folder.name, std::move(compiled)); !status.ok()) {
        spdlog::error("model {}: {}", folder.name, std::string(status.message()));
        report.failures.push_back({folder.name, version, std::move(status)});
      }
    }
    for (const model::LoadFailure& failure : report.failures) {
      reasons.push_back(std::string(failure.reason.message()));
    }
    absl::MutexLock lock(&registry->mutex_);
    registry->failures_[folder.name] = std::move(report.failures);
  }
  absl::MutexLock lock(&registry->mutex_);
  if (registry->models_.empty()) {
    return reasons.empty() ? absl::NotFoundError("there is no model to serve")
                           : absl::FailedPreconditionError(absl::StrCat(
                                 "no model can be served: ", absl::StrJoin(reasons, "; ")));
  }
  return registry;
}

absl::Status ModelRegistry::Reload(const std::string& name) {
  absl::MutexLock loading(&load_mutex_);
  std::string folder_name = name;
  {
    absl::ReaderMutexLock lock(&mutex_);
    const auto served = models_.find(name);
    folder_name = served == models_.end() ? name : served->second.folder;
  }
  BW_ASSIGN_OR_RETURN(const std::vector<model::ModelFolder> folders, FindFolders(paths_));
  const auto folder =
      std::find_if(folders.begin(), folders.end(),
                   [&](const model::ModelFolder& f) { return f.name == folder_name; });
  if (folder == folders.end()) {
    return absl::NotFoundError(
        absl::StrCat("failed to load '", name, "': no path has a model of that name"));
  }
  ModelPtr compiled;
  model::LoadReport report = Compile(*folder, compiled);
  absl::Status status;
  {
    absl::ReaderMutexLock lock(&mutex_);
    if (!report.failures.empty() &&
        (!report.loaded.has_value() || FindByFolder(folder_name) != models_.end())) {
      status = absl::FailedPreconditionError(
          absl::StrCat("failed to load '", name, "' version ", report.failures[0].version,
                       ", what was served is served on: ", report.failures[0].reason.message()));
    }
  }
  if (status.ok()) {
    status = Serve(folder_name, std::move(compiled));
  }
  absl::MutexLock lock(&mutex_);
  failures_[folder_name] = std::move(report.failures);
  return status;
}

void ModelRegistry::Unload(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  const auto served = models_.find(name);
  if (served == models_.end()) {
    return;
  }
  spdlog::info("model {} version {} unloaded", name, served->second.model->version());
  failures_[served->second.folder] = {
      {name, served->second.model->version(), absl::CancelledError("unloaded")}};
  models_.erase(served);
  if (serving_observer_ != nullptr) {
    serving_observer_(name, false);
  }
}

void ModelRegistry::Observe(ServingObserver observer) {
  absl::MutexLock lock(&mutex_);
  serving_observer_ = std::move(observer);
}

ModelRegistry::Models::const_iterator ModelRegistry::FindByFolder(const std::string& folder) const {
  return std::find_if(models_.begin(), models_.end(),
                      [&](const auto& entry) { return entry.second.folder == folder; });
}

std::string ModelRegistry::Names() const {
  return models_.empty() ? "none"
                         : absl::StrJoin(models_, ", ", [](std::string* out, const auto& entry) {
                             absl::StrAppend(out, "'", entry.first, "'");
                           });
}

absl::StatusOr<ModelPtr> ModelRegistry::Lookup(const std::string& name,
                                               const std::string& version) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (name.empty() && models_.size() != 1) {
    return Invalid("model: is not set, and there are ", models_.size(), " models: ", Names());
  }
  const auto found = name.empty() ? models_.begin() : models_.find(name);
  if (found == models_.end()) {
    return absl::NotFoundError(
        absl::StrCat("Request for unknown model: '", name, "' is not found; served: ", Names()));
  }
  const ModelPtr& model = found->second.model;
  if (!version.empty() && version != model->version()) {
    return absl::NotFoundError(absl::StrCat("Request for unknown model: '", found->first,
                                            "' version '", version, "' is not found; served: '",
                                            model->version(), "'"));
  }
  return model;
}

std::vector<ModelPtr> ModelRegistry::AllServed() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<ModelPtr> models;
  for (const auto& [name, served] : models_) {
    models.push_back(served.model);
  }
  return models;
}

std::vector<v1::ModelSummary> ModelRegistry::List() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<v1::ModelSummary> list;
  for (const auto& [name, served] : models_) {
    v1::ModelSummary& summary = list.emplace_back();
    summary.set_name(name);
    summary.set_version(served.model->version());
    summary.set_description(served.model->config().description());
    summary.set_ready(true);
  }
  for (const auto& [folder, failures] : failures_) {
    for (const model::LoadFailure& failure : failures) {
      v1::ModelSummary& summary = list.emplace_back();
      summary.set_name(failure.model);
      summary.set_version(failure.version);
      summary.set_reason(ToRpcStatus(failure.reason).message());
    }
  }
  return list;
}

v1::ListModelsResponse ModelRegistry::ListAll() const {
  v1::ListModelsResponse response;
  for (v1::ModelSummary& summary : List()) {
    *response.add_models() = std::move(summary);
  }
  return response;
}

}  // namespace beamwright::serving
