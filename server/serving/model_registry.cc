// How a folder is brought up to date (Update, under load_mutex_; what is served goes on meanwhile):
//
//   1. Fingerprint: the state of its files, taken first, so that a later change is seen by Poll.
//   2. Look: the policy chooses versions; one whose files have not changed stays the same object,
//      others are loaded (LoadVersion; on demand only the head of the bundle is read). TakeLabels
//      gives labels their versions.
//   3. If the newest version is not good, nothing that is served changes. Otherwise Serve puts the
//      new versions in place under mutex_, in one step, and notifies the observer.
//   4. Failures are kept with the folder, for lists and for the error of a load.
//
// LoadAll, Reload and Poll call it for all folders, one, and those that changed.
#include "server/serving/model_registry.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/bundle/repository.h"
#include "engine/status/wire_status.h"
#include "ops/base/status.h"

namespace beamwright::serving {
namespace {

// Identifies a folder; repositories may have folders of the same name.
const std::string& KeyOf(const bundle::ModelFolder& folder) {
  return folder.path.empty() ? folder.versions[0].path : folder.path;
}

// Of a folder with all that decides what is served of it. Files of its versions are among its own
// files; they count once more for a folder of which not all is looked at, as with training data.
std::string Fingerprint(const bundle::ModelFolder& folder) {
  std::string fingerprint =
      absl::StrCat(folder.listed.ToString(), bundle::StateOf(KeyOf(folder)).fingerprint);
  for (const bundle::VersionFolder& version : folder.versions) {
    absl::StrAppend(&fingerprint, "\n", version.version, bundle::StateOf(version.path).fingerprint);
  }
  return fingerprint;
}

}  // namespace

absl::StatusOr<std::vector<bundle::ModelFolder>> FindFolders(const ModelPaths& paths) {
  std::vector<bundle::ModelFolder> folders;
  for (const std::string& path : paths.repositories) {
    BW_ASSIGN_OR_RETURN(std::vector<bundle::ModelFolder> found, bundle::ScanRepository(path));
    if (found.empty()) {
      spdlog::warn("repository '{}' holds no model (<model>/<version>/)", path);
    }
    std::move(found.begin(), found.end(), std::back_inserter(folders));
  }
  for (const std::string& path : paths.models) {
    BW_ASSIGN_OR_RETURN(bundle::ModelFolder found, bundle::FindModel(path));
    folders.push_back(std::move(found));
  }
  return folders;
}

std::vector<ModelRegistry::Version>::const_iterator ModelRegistry::FindVersion(
    const std::vector<Version>& versions, const std::string& number) {
  return std::find_if(versions.begin(), versions.end(), [&number](const Version& version) {
    return version.model->version() == number;
  });
}

absl::StatusOr<ServedModelPtr> ModelRegistry::LoadVersion(const std::string& name,
                                                          const bundle::VersionFolder& folder) {
  if (on_demand()) {
    BW_ASSIGN_OR_RETURN(bundle::BundleHead head, loader_.ReadHead(name, folder));
    return std::make_shared<ServedModel>(std::move(head), folder,
                                         bundle::StateOf(folder.path).bytes);
  }
  BW_ASSIGN_OR_RETURN(ModelPtr model, loader_.Load(name, folder));
  return std::make_shared<ServedModel>(std::move(model));
}

// What a folder has to serve: versions from the newest on until the policy's number is reached, and
// those with labels. A version that is served already and did not change is taken over. If the
// newest is broken, what was served is served on, and the folder has a fault; older versions take
// its place only where nothing was served before.
ModelRegistry::Found ModelRegistry::Look(const bundle::ModelFolder& folder, const Served& before,
                                         const std::function<bool()>& stopped) {
  Found found;
  const auto fail = [&](const std::string& version, absl::Status reason, bool is_newest) {
    if (is_newest) {
      found.fault = reason;
    }
    found.failures.push_back({folder.name, version, std::move(reason)});
  };
  absl::StatusOr<v1::ServingPolicy> policy = bundle::ReadPolicy(folder);
  if (!folder.listed.ok() || !policy.ok()) {
    const absl::Status& reason = folder.listed.ok() ? policy.status() : folder.listed;
    loader_.Refuse(folder.name, "", reason);
    fail("", reason, true);
    return found;
  }
  found.policy = *std::move(policy);
  const bundle::VersionChoice choice = bundle::ChooseVersions(folder, found.policy);
  for (const bundle::VersionFolder& version : choice.candidates) {
    if (stopped != nullptr && stopped()) {
      break;
    }
    if (found.versions.size() >= choice.count && choice.labelled.count(version.version) == 0) {
      continue;
    }
    const bool is_newest = &version == &choice.candidates[0];
    const auto served = FindVersion(before.versions, version.version);
    std::string fingerprint = bundle::StateOf(version.path).fingerprint;
    if (served != before.versions.end() && served->fingerprint == fingerprint) {
      found.versions.push_back(*served);
      continue;
    }
    absl::StatusOr<ServedModelPtr> loaded = LoadVersion(folder.name, version);
    if (loaded.ok() && !found.versions.empty() &&
        (*loaded)->name() != found.versions[0].model->name()) {
      loaded = Invalid("bundle '", version.path, "': its name is '", (*loaded)->name(),
                       "', and that of a newer version '", found.versions[0].model->name(), "'");
    }
    if (loaded.ok()) {
      found.versions.push_back({*std::move(loaded), std::move(fingerprint)});
      continue;
    }
    fail(version.version, loaded.status(), is_newest);
    if (is_newest && !before.versions.empty()) {
      return found;  // nothing will change
    }
    if (served != before.versions.end()) {
      found.versions.push_back(*served);
    }
  }
  for (const bundle::LoadFailure& missing : choice.missing) {
    loader_.Refuse(folder.name, missing.version, missing.reason);
  }
  found.failures.insert(found.failures.end(), choice.missing.begin(), choice.missing.end());
  if (found.versions.empty() && found.fault.ok()) {
    found.fault = choice.missing.empty() ? absl::NotFoundError("the folder has no version")
                                         : choice.missing[0].reason;
  }
  TakeLabels(folder.name, before, found);
  return found;
}

// A label goes with its version; one whose version is not served is listed as a failure, and is a
// fault of the folder if clients use the label already.
void ModelRegistry::TakeLabels(const std::string& name, const Served& before, Found& found) {
  for (const auto& [label, version] : found.policy.labels()) {
    const std::string number = absl::StrCat(version);
    if (FindVersion(found.versions, number) != found.versions.end()) {
      found.labels[label] = number;
      continue;
    }
    const auto failure = std::find_if(
        found.failures.begin(), found.failures.end(),
        [&number](const bundle::LoadFailure& candidate) { return candidate.version == number; });
    const bool known = failure != found.failures.end();
    const absl::Status reason = absl::NotFoundError(
        absl::StrCat("the label '", label, "' names version ", number, ", which is not served",
                     known ? ": " : "", known ? failure->reason.message() : ""));
    loader_.Refuse(name, number, reason);
    if (known) {
      failure->reason = reason;
    } else {
      found.failures.push_back({name, number, reason});
    }
    if (found.fault.ok() && before.labels.count(label) > 0) {
      found.fault = reason;
    }
  }
}

// Puts what was found in the place of what was served, at once for all versions. Two folders can't
// serve one name; a folder whose model has another name now gives up the old one.
absl::Status ModelRegistry::Serve(const std::string& folder, Found& found) {
  const std::string name = found.versions[0].model->name();
  Served served;
  served.folder = folder;
  served.labels = std::move(found.labels);
  served.versions = std::move(found.versions);
  absl::MutexLock lock(&mutex_);
  const auto taken = models_.find(name);
  if (taken != models_.end() && taken->second.folder != folder) {
    return absl::AlreadyExistsError(
        absl::StrCat("another model is served by the name '", name, "'"));
  }
  const auto before = FindByFolder(folder);
  if (before != models_.end() && before->first != name) {
    Tell(before->first, "");  // model.textproto calls it something else now
    models_.erase(before);
  }
  models_[name] = std::move(served);
  folders_[folder].served_as = name;
  Tell(name, models_[name].versions[0].model->version());
  return absl::OkStatus();
}

// One folder, anew: Look reads without the lock, which takes long, then Serve changes what is
// served under it. With a fault nothing changes but the list of failures.
absl::Status ModelRegistry::Update(const bundle::ModelFolder& folder,
                                   const std::function<bool()>& stopped) {
  Served before;
  {
    absl::ReaderMutexLock lock(&mutex_);
    if (const auto served = FindByFolder(KeyOf(folder)); served != models_.end()) {
      before = served->second;
    }
  }
  // Taken first: what changes while it is read is looked at again.
  std::string fingerprint = Fingerprint(folder);
  Found found = Look(folder, before, stopped);
  absl::Status status;
  if (found.versions.empty() || (!before.versions.empty() && !found.fault.ok())) {
    const std::string version = found.failures.empty() ? "" : found.failures[0].version;
    // Damaged files and memory that does not suffice are no faults of the bundle.
    const absl::StatusCode code = found.fault.code();
    const bool is_other =
        code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kResourceExhausted;
    status = absl::Status(
        is_other ? code : absl::StatusCode::kFailedPrecondition,
        absl::StrCat("failed to load '", folder.name, "' version ", version,
                     before.versions.empty() ? ": " : ", what was served is served on: ",
                     found.fault.message()));
  } else {
    const std::string newest = found.versions[0].model->version();
    status = Serve(KeyOf(folder), found);
    if (!status.ok()) {
      found.failures.push_back({folder.name, newest, status});
      loader_.Refuse(folder.name, newest, status);
    }
  }
  absl::MutexLock lock(&mutex_);
  Folder& seen = folders_[KeyOf(folder)];
  seen.fingerprint = std::move(fingerprint);
  seen.failures = std::move(found.failures);
  return status;
}

absl::StatusOr<std::unique_ptr<ModelRegistry>> ModelRegistry::Load(
    const ModelPaths& paths, const std::function<bool()>& stopped, LoadOptions options) {
  auto registry = std::make_unique<ModelRegistry>(paths, std::move(options));
  BW_RETURN_IF_ERROR(registry->LoadAll(stopped));
  return registry;
}

absl::Status ModelRegistry::LoadAll(const std::function<bool()>& stopped) {
  BW_ASSIGN_OR_RETURN(const std::vector<bundle::ModelFolder> folders, FindFolders(paths_));
  absl::MutexLock loading(&load_mutex_);
  for (const bundle::ModelFolder& folder : folders) {
    if (stopped != nullptr && stopped()) {
      return absl::CancelledError("stopped while models were loading");
    }
    Update(folder, stopped).IgnoreError();  // logged, and listed
  }
  if (stopped != nullptr && stopped()) {
    return absl::CancelledError("stopped while models were loading");
  }
  absl::MutexLock lock(&mutex_);
  if (!models_.empty()) {
    return absl::OkStatus();
  }
  std::vector<std::string> reasons;
  for (const auto& [name, folder] : folders_) {
    for (const bundle::LoadFailure& failure : folder.failures) {
      reasons.push_back(std::string(failure.reason.message()));
    }
  }
  return reasons.empty() ? absl::NotFoundError("there is no model to serve")
                         : absl::FailedPreconditionError(absl::StrCat(
                               "no model can be served: ", absl::StrJoin(reasons, "; ")));
}

absl::StatusOr<std::shared_ptr<const void>> ModelRegistry::Announce(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  if (!announced_.insert(name).second) {
    return absl::AbortedError(
        absl::StrCat("a load of '", name, "' is under way; ask again when it has ended"));
  }
  return std::shared_ptr<const void>(this, [this, name](const void*) {
    absl::MutexLock unlist(&mutex_);
    announced_.erase(name);
  });
}

std::string ModelRegistry::FolderServedAs(const std::string& name) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (const auto served = models_.find(name); served != models_.end()) {
    return served->second.folder;
  }
  // One that was unloaded; another that serves by a new name is not meant by its old one.
  for (const auto& [folder, known] : folders_) {
    if (known.served_as == name && FindByFolder(folder) == models_.end()) {
      return folder;
    }
  }
  return "";
}

absl::Status ModelRegistry::Reload(const std::string& name) {
  absl::MutexLock loading(&load_mutex_);
  const std::string key = FolderServedAs(name);
  BW_ASSIGN_OR_RETURN(const std::vector<bundle::ModelFolder> folders, FindFolders(paths_));
  const auto folder =
      std::find_if(folders.begin(), folders.end(), [&](const bundle::ModelFolder& candidate) {
        return key.empty() ? candidate.name == name : KeyOf(candidate) == key;
      });
  return folder == folders.end()
             ? absl::NotFoundError(
                   absl::StrCat("failed to load '", name, "': no path has a model of that name"))
             : Update(*folder);
}

// Folders whose fingerprint changed are updated, new ones among them; folders that are gone are
// forgotten.
void ModelRegistry::Poll() {
  absl::MutexLock loading(&load_mutex_);
  const absl::StatusOr<std::vector<bundle::ModelFolder>> folders = FindFolders(paths_);
  if (!folders.ok()) {
    spdlog::warn("the model folders can't be looked at; nothing changes: {}",
                 std::string(folders.status().message()));
    return;
  }
  std::set<std::string> there;
  for (const bundle::ModelFolder& folder : *folders) {
    there.insert(KeyOf(folder));
    const std::string fingerprint = Fingerprint(folder);
    bool changed = false;
    {
      absl::ReaderMutexLock lock(&mutex_);
      const auto known = folders_.find(KeyOf(folder));
      changed = known == folders_.end() || known->second.fingerprint != fingerprint;
    }
    if (changed) {
      Update(folder).IgnoreError();  // logged, and listed
    }
  }
  std::vector<std::string> gone;
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const auto& [name, folder] : folders_) {
      if (there.count(name) == 0) {
        gone.push_back(name);
      }
    }
  }
  for (const std::string& folder : gone) {
    Forget(folder);
  }
}

void ModelRegistry::Forget(const std::string& folder) {
  absl::MutexLock lock(&mutex_);
  if (const auto served = FindByFolder(folder); served != models_.end()) {
    spdlog::info("model {}: its folder is gone; it is no longer served", served->first);
    Tell(served->first, "");
    models_.erase(served);
  }
  folders_.erase(folder);
}

void ModelRegistry::Unload(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  const auto served = models_.find(name);
  if (served == models_.end()) {
    return;
  }
  std::vector<bundle::LoadFailure>& failures = folders_[served->second.folder].failures;
  failures.clear();
  for (const Version& version : served->second.versions) {
    spdlog::info("model {} version {} unloaded", name, version.model->version());
    failures.push_back({name, version.model->version(), absl::CancelledError("unloaded")});
  }
  models_.erase(served);
  Tell(name, "");
}

void ModelRegistry::Observe(ServingObserver observer) {
  absl::MutexLock lock(&mutex_);
  serving_observer_ = std::move(observer);
  for (const auto& [key, folder] : folders_) {
    for (const bundle::LoadFailure& failure : folder.failures) {
      if (models_.find(failure.model) == models_.end()) {
        Tell(failure.model, "");
      }
    }
  }
  for (const auto& [name, served] : models_) {
    Tell(name, served.versions[0].model->version());
  }
}

void ModelRegistry::Tell(const std::string& model, const std::string& version) const {
  if (serving_observer_ != nullptr) {
    serving_observer_(model, version);
  }
}

ModelRegistry::Models::const_iterator ModelRegistry::FindByFolder(const std::string& folder) const {
  return std::find_if(models_.begin(), models_.end(),
                      [&](const auto& entry) { return entry.second.folder == folder; });
}

}  // namespace beamwright::serving
