// Loads a version of a model from its bundle, within a budget of memory and of time. Load, one
// model at a time:
//
// 1. CheckBudget adds the size of the bundle's files to those of all versions that are still in
//    memory, also of versions that are no longer served but that running calls hold. Together they
//    must fit into max-model-bytes, or the machine's and the cgroup's memory.
// 2. Make reads and compiles the bundle (engine::LoadModel), runs the self-check, golden requests
//    and warm-up (engine::TryModel). A LoadWatch interrupts both when load-timeout is over
//    or the server stops: graphs of a bundle may compute for ever.
// 3. If memory runs out (bad_alloc), the load fails; models that are served need no more memory
//    than they have.
// 4. malloc_trim returns to the system what reading and folding took for a while.
// 5. The log says how the model will run: which precision `auto` chose, which tables were made, and
//    why sources are encoded, or rows stepped, one at a time (LogBatching), since that costs
//    throughput and the model's owner can change it. The observer counts the load.
//
// First a version of a model itself (ServedModel), and which models leave memory for another one.
#include "server/serving/model_loader.h"

#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/load_model.h"
#include "engine/model/parts.h"
#include "engine/status/fault.h"
#include "ops/base/fault_point.h"
#include "ops/base/interruption.h"
#include "ops/base/memory.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/base/threads.h"

namespace beamwright::serving {

ServedModel::ServedModel(ModelPtr model)
    : head_{model->name(), model->version(), {}}, pinned_(std::move(model)) {}

ServedModel::ServedModel(bundle::BundleHead head, bundle::VersionFolder folder, int64_t bytes)
    : head_(std::move(head)), folder_(std::move(folder)), bytes_(bytes) {}

ModelPtr ServedModel::model() const {
  if (pinned_ != nullptr) {
    return pinned_;
  }
  absl::MutexLock lock(&mutex_);
  return model_;
}

ModelPtr ServedModel::Use(uint64_t number) const {
  if (pinned_ != nullptr) {
    return pinned_;
  }
  absl::MutexLock lock(&mutex_);
  last_use_ = std::max(last_use_, number);
  return model_;
}

absl::Status ServedModel::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

absl::Status ServedModel::CheckPause(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  if (failure_.ok() || now >= retry_) {
    return absl::OkStatus();
  }
  return status::WithRetryAfter(
      status::WithReason(
          absl::UnavailableError(absl::StrCat("model '", name(), "' version ", version(),
                                              " could not be loaded; the server's log has the "
                                              "reason")),
          status::reason::kQuarantined),
      retry_ - now);
}

void ServedModel::Put(ModelPtr model) {
  absl::MutexLock lock(&mutex_);
  model_ = std::move(model);
  failure_ = absl::OkStatus();
}

void ServedModel::Fail(absl::Status why, absl::Time until) {
  absl::MutexLock lock(&mutex_);
  failure_ = std::move(why);
  retry_ = until;
}

bool ServedModel::Evict() {
  ModelPtr leaves;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  if (model_ == nullptr || HasCalls()) {
    return false;
  }
  leaves.swap(model_);
  return true;
}

uint64_t ServedModel::last_use() const {
  absl::MutexLock lock(&mutex_);
  return last_use_;
}

bool ServedModel::in_use() const {
  absl::MutexLock lock(&mutex_);
  return HasCalls();
}

std::optional<std::vector<size_t>> ChooseVictims(absl::Span<const Resident> residents,
                                                 int64_t bytes) {
  std::vector<size_t> idle;
  for (size_t i = 0; i < residents.size(); ++i) {
    if (!residents[i].in_use) {
      idle.push_back(i);
    }
  }
  std::sort(idle.begin(), idle.end(),
            [&](size_t a, size_t b) { return residents[a].last_use < residents[b].last_use; });
  size_t count = 0;
  while (bytes > 0 && count < idle.size()) {
    bytes -= residents[idle[count++]].bytes;
  }
  if (bytes > 0) {
    return std::nullopt;
  }
  idle.resize(count);
  return idle;
}

namespace {

// LoadWatch: a model whose graphs do not come to an end must not keep the server from loading other
// models, nor from stopping. While it lives, its interruption, which the computations of a load
// (tables, the self-check, golden requests, warm-up) look at, is raised when the time is over or
// the server is stopped.
class LoadWatch {
 public:
  // stopped: whether the server is stopping, asked again and again on another thread; may be
  // null.
  LoadWatch(absl::Duration timeout, std::function<bool()> stopped);
  LoadWatch(const LoadWatch&) = delete;
  LoadWatch& operator=(const LoadWatch&) = delete;

  const Interruption* interruption() const { return &interruption_; }
  // DeadlineExceeded or Cancelled once the load is interrupted, whatever became of it.
  absl::Status Check() const;

 private:
  const absl::Duration timeout_;
  Interruption interruption_;
  std::atomic<bool> is_late_{false};
  PeriodicThread thread_;  // last: it uses the others
};

constexpr absl::Duration kLookInterval = absl::Milliseconds(50);

LoadWatch::LoadWatch(absl::Duration timeout, std::function<bool()> stopped)
    : timeout_(timeout),
      thread_("bw-load-watch", kLookInterval,
              [this, end = SteadyNow() + timeout, stopped = std::move(stopped)] {
                if (interruption_.raised()) {
                  return;
                }
                is_late_ = SteadyNow() >= end;
                if (is_late_ || (stopped != nullptr && stopped())) {
                  interruption_.Raise();
                }
              }) {}

absl::Status LoadWatch::Check() const {
  if (!interruption_.raised()) {
    return absl::OkStatus();
  }
  return is_late_ ? absl::DeadlineExceededError(
                        absl::StrCat("its graphs did not come to an end in ",
                                     absl::FormatDuration(timeout_), " (load-timeout)"))
                  : absl::CancelledError("the server was stopped while the model was loading");
}

void LogTables(const engine::DecodeModel& model) {
  const ops::TokenTables& tables = model.token_tables();
  if (tables.count > 0) {
    spdlog::info("model {}: tables per token: {}, {} bytes", model.name(), tables.count,
                 tables.bytes);
  } else if (!tables.refused.empty()) {
    spdlog::warn("model {}: no tables per token: {}", model.name(), tables.refused);
  }
}

void LogBatching(const engine::DecodeModel& model) {
  if (model.has_encoder() && !model.encodes_together()) {
    spdlog::warn(
        "model {} version {}: sources are encoded one at a time, because {}; answers are right, "
        "throughput is lower; docs/bring-your-model.md, 'Encoders', says what to change",
        model.name(), model.version(), model.encodes_apart());
  } else if (model.reads_whole_source() && !model.encodes_lengths_together()) {
    spdlog::info(
        "model {} version {}: sources of equal length are encoded together, those of unequal "
        "length are not, because {}",
        model.name(), model.version(), model.lengths_apart());
  }
  if (const std::string reason = model.steps_apart(); !reason.empty()) {
    spdlog::warn(
        "model {} version {}: a step computes one row at a time, because {}; answers are right, "
        "every step costs many times as much; docs/bring-your-model.md, 'Look at it', says what "
        "to change",
        model.name(), model.version(), reason);
  }
}

void LogRefusal(const std::string& model_name, const std::string& version,
                const absl::Status& reason) {
  spdlog::error("model {}{} cannot be served: {}", model_name,
                version.empty() ? "" : absl::StrCat(" version ", version),
                std::string(reason.message()));
}

}  // namespace

absl::StatusOr<bundle::BundleHead> ModelLoader::ReadHead(
    const std::string& model_name, const bundle::VersionFolder& folder) const {
  absl::StatusOr<bundle::BundleHead> head =
      bundle::ReadBundleHead(folder.path, options_.allow_links);
  if (!head.ok()) {
    Refuse(model_name, folder.version, head.status());
  }
  return head;
}

int64_t ModelLoader::capacity() const {
  return options_.max_model_bytes > 0 ? options_.max_model_bytes
                                      : UsableMemoryBytes() / (options_.on_demand ? 3 : 1);
}

int64_t ModelLoader::Held() {
  absl::MutexLock lock(&mutex_);
  return HeldLocked();
}

int64_t ModelLoader::HeldLocked() {
  in_memory_.erase(std::remove_if(in_memory_.begin(), in_memory_.end(),
                                  [](const InMemory& entry) { return entry.model.expired(); }),
                   in_memory_.end());
  int64_t held = 0;
  for (const InMemory& entry : in_memory_) {
    held += entry.bytes;
  }
  return held;
}

absl::Status ModelLoader::CheckBudget(int64_t bytes) {
  const int64_t held = HeldLocked();
  const bool is_set = options_.max_model_bytes > 0;
  const int64_t most = capacity();
  if (most > 0 && held + bytes > most) {
    return absl::ResourceExhaustedError(
        absl::StrCat("its files have ", bytes, " bytes and those of the ", in_memory_.size(),
                     " versions in memory ", held, ": together ", held + bytes, ", and ",
                     is_set ? "max-model-bytes allows " : "machine and cgroup have ", most));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelPtr> ModelLoader::ReadAndCompile(const std::string& path,
                                                     const Interruption* interruption) const {
  engine::CompileOptions compile = options_.compile;
  compile.context.interruption = interruption;
  std::vector<std::string> warnings;
  absl::StatusOr<ModelPtr> model =
      engine::LoadModel(path, options_.allow_links, compile, &warnings);
  for (const std::string& warning : warnings) {
    spdlog::warn("bundle '{}': {}", path, warning);
  }
  return model;
}

absl::StatusOr<ModelPtr> ModelLoader::Make(const bundle::VersionFolder& folder) const {
  BW_RETURN_IF_ERROR(FaultPoint("model.load"));
  const std::string where = absl::StrCat("bundle '", folder.path, "'");
  const LoadWatch watch(options_.timeout, options_.stopped);
  absl::StatusOr<ModelPtr> model = ReadAndCompile(folder.path, watch.interruption());
  absl::Status status = model.status();
  if (model.ok()) {
    status = Annotate(
        engine::TryModel(*model, folder.path, options_.allow_links,
                         {options_.golden_requests, options_.warm_up_rows, watch.interruption()}),
        where);
  }
  // An interrupted load may have failed with any error, or have been read as another fault.
  if (const absl::Status late = watch.Check(); !late.ok()) {
    status = Annotate(late, where);
  }
  BW_RETURN_IF_ERROR(status);
  return model;
}

absl::StatusOr<ModelPtr> ModelLoader::MakeWithin(int64_t bytes,
                                                 const bundle::VersionFolder& folder) {
  BW_RETURN_IF_ERROR(CheckBudget(bytes));
  try {
    return Make(folder);
  } catch (const std::bad_alloc&) {
    // The models that are served need no more memory than they have: the server goes on.
    return absl::ResourceExhaustedError(absl::StrCat("bundle '", folder.path, "': out of memory"));
  }
}

absl::StatusOr<ModelPtr> ModelLoader::Load(const std::string& model_name,
                                           const bundle::VersionFolder& folder) {
  absl::MutexLock lock(&mutex_);
  const absl::Time start = SteadyNow();
  const int64_t bytes = bundle::StateOf(folder.path).bytes;
  absl::StatusOr<ModelPtr> model = MakeWithin(bytes, folder);
  malloc_trim(0);  // else the process keeps the memory of reading and folding
  const absl::Duration took = SteadyNow() - start;
  if (model.ok()) {
    in_memory_.push_back({*model, bytes});
    LogTables(**model);
    for (const engine::ScorerPart& scorer : (*model)->parts().scorers) {
      if (!scorer.note.empty()) {
        spdlog::info("model {}: scorer '{}' is {}", (*model)->name(), scorer.name, scorer.note);
      }
    }
    if (const std::string& note = (*model)->precision_note(); !note.empty()) {
      spdlog::info("model {}: precision auto: {}", (*model)->name(), note);
    }
    LogBatching(**model);
    spdlog::info("model {} version {} loaded in {:.2f} s, numerics {}", (*model)->name(),
                 folder.version, absl::ToDoubleSeconds(took), (*model)->numerics());
    Tell((*model)->name(), true, took);
  } else {
    LogRefusal(model_name, folder.version, model.status());
    Tell(model_name, false, took);
  }
  return model;
}

void ModelLoader::Refuse(const std::string& model_name, const std::string& version,
                         const absl::Status& reason) const {
  LogRefusal(model_name, version, reason);
  Tell(model_name, false, absl::ZeroDuration());
}

void ModelLoader::Tell(const std::string& model_name, bool good, absl::Duration took) const {
  if (options_.observer != nullptr) {
    options_.observer(model_name, good, took);
  }
}

}  // namespace beamwright::serving
