// ModelRegistry: what is served, for those who ask.
#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/serving/model_registry.h"

namespace beamwright::serving {

std::string ModelRegistry::Names() const {
  return models_.empty() ? "none"
                         : absl::StrJoin(models_, ", ", [](std::string* out, const auto& entry) {
                             absl::StrAppend(out, "'", entry.first, "'");
                           });
}

absl::StatusOr<ModelPtr> ModelRegistry::Lookup(const std::string& name,
                                               const std::string& version) const {
  BW_ASSIGN_OR_RETURN(const ServedModelPtr served, Peek(name, version));
  if (!served->is_on_demand()) {
    return served->model();
  }
  if (ModelPtr model = served->Use(++num_uses_)) {
    return model;
  }
  BW_RETURN_IF_ERROR(served->CheckPause(SteadyNow()));
  demand_->Ask(served);
  return status::WithRetryAfter(
      status::WithReason(absl::UnavailableError(absl::StrCat("model '", served->name(),
                                                             "' is being loaded; try again")),
                         status::reason::kLoading),
      absl::Seconds(1));
}

void ModelRegistry::Await(const std::string& name, const std::string& version, absl::Time deadline,
                          DemandLoader::Go go) const {
  if (!on_demand()) {
    go(absl::OkStatus());
    return;
  }
  const absl::StatusOr<ServedModelPtr> served = Peek(name, version);
  const ModelPtr held = served.ok() ? (*served)->Use(++num_uses_) : nullptr;
  if (!served.ok() || held != nullptr) {
    go(absl::OkStatus());
    return;
  }
  // Once more: another version may be served by the name by then.
  demand_->Await(*served, deadline,
                 [this, name, version, deadline, go = std::move(go)](const absl::Status& status) {
                   if (status.ok()) {
                     Await(name, version, deadline, go);
                   } else {
                     go(status);
                   }
                 });
}

void ModelRegistry::EndWaiting() {
  if (demand_ != nullptr) {
    demand_->End();
  }
}

absl::StatusOr<ServedModelPtr> ModelRegistry::Peek(const std::string& name,
                                                   const std::string& version) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (name.empty() && models_.size() != 1) {
    return status::InvalidField("model", "is not set, and there are ", models_.size(),
                                " models: ", Names());
  }
  const auto found = name.empty() ? models_.begin() : models_.find(name);
  if (found == models_.end()) {
    return absl::NotFoundError(
        absl::StrCat("Request for unknown model: '", name, "' is not found; served: ", Names()));
  }
  const Served& served = found->second;
  if (version.empty()) {
    return served.versions[0].model;
  }
  const auto label = served.labels.find(version);
  const std::string& number = label == served.labels.end() ? version : label->second;
  if (const auto it = FindVersion(served.versions, number); it != served.versions.end()) {
    return it->model;
  }
  std::vector<std::string> known;
  for (const Version& candidate : served.versions) {
    known.push_back(candidate.model->version());
  }
  for (const auto& [text, unused] : served.labels) {
    known.push_back(text);
  }
  return absl::NotFoundError(absl::StrCat("Request for unknown model: '", found->first,
                                          "' version '", version, "' is not found; served: '",
                                          absl::StrJoin(known, "', '"), "'"));
}

void ModelRegistry::AddLabels(const Served& served, v1::ModelSummary& summary) {
  for (const auto& [label, number] : served.labels) {
    if (number == summary.version()) {
      summary.add_labels(label);
    }
  }
}

absl::StatusOr<v1::ModelDescription> ModelRegistry::Describe(const std::string& name,
                                                             const std::string& version) const {
  BW_ASSIGN_OR_RETURN(const ModelPtr model, Lookup(name, version));
  v1::ModelDescription description = model->Describe();
  absl::ReaderMutexLock lock(&mutex_);
  if (const auto served = models_.find(model->name()); served != models_.end()) {
    AddLabels(served->second, *description.mutable_summary());
  }
  return description;
}

std::vector<ServedModelPtr> ModelRegistry::AllListed() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<ServedModelPtr> models;
  for (const auto& [name, served] : models_) {
    for (const Version& version : served.versions) {
      models.push_back(version.model);
    }
  }
  return models;
}

std::vector<ModelPtr> ModelRegistry::AllServed() const {
  std::vector<ModelPtr> models;
  for (const ServedModelPtr& served : AllListed()) {
    if (ModelPtr model = served->model()) {
      models.push_back(std::move(model));
    }
  }
  return models;
}

std::vector<v1::ModelSummary> ModelRegistry::List() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<v1::ModelSummary> list;
  for (const auto& [name, served] : models_) {
    for (const Version& version : served.versions) {
      v1::ModelSummary& summary = list.emplace_back();
      summary.set_name(name);
      summary.set_version(version.model->version());
      summary.set_description(version.model->config().description());
      const absl::Status failure = version.model->failure();
      summary.set_ready(failure.ok());
      if (!failure.ok()) {
        summary.set_reason(status::ToRpcStatus(failure).message());
      } else if (version.model->model() == nullptr) {
        summary.set_not_in_memory(true);
        summary.set_reason("not in memory; the first call loads it");
      }
      AddLabels(served, summary);
    }
  }
  for (const auto& [name, folder] : folders_) {
    for (const bundle::LoadFailure& failure : folder.failures) {
      // One entry a version: one that is served as it was says why it was not taken anew.
      auto entry = std::find_if(list.begin(), list.end(), [&](const v1::ModelSummary& listed) {
        return listed.name() == failure.model && listed.version() == failure.version;
      });
      if (entry == list.end()) {
        entry = list.emplace(entry);
        entry->set_name(failure.model);
        entry->set_version(failure.version);
      }
      entry->set_reason(status::ToRpcStatus(failure.reason).message());
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
