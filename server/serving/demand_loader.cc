// Loads models when they are called (model-control on-demand), and evicts others for them.
//
// 1. Await: a call for a model that is not in memory waits in the queue of loads; calls for the
//    same model share a load. Ask queues a load that no call waits for.
// 2. RunLoads, one thread: takes the first load, makes room (MakeRoom) and loads (Bring). MakeRoom
//    evicts idle models, chosen by ChooseVictims by size and last use, and waits for models that
//    calls still use.
// 3. RunAnswers, another thread: continues the calls (`go`), and answers those whose deadline has
//    passed (Expire), also while a load runs.
//
// A load that failed is not tried again for kRetry: calls get its error at once. A load whose calls
// have all given up is dropped.
#include "server/serving/demand_loader.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/serving/serving_state.h"

namespace beamwright::serving {
namespace {

// Time from a load that failed to the next try.
constexpr absl::Duration kRetry = absl::Seconds(5);
// Interval at which a load that waits for room checks whether a model has become idle: calls that
// end do not notify it.
constexpr absl::Duration kLook = absl::Milliseconds(5);

absl::Status TooManyWait() {
  return status::WithRetryAfter(
      status::WithReason(
          absl::ResourceExhaustedError("too many calls wait for models that are being loaded"),
          status::reason::kQueueFull),
      absl::Seconds(1));
}

absl::Status NotLoadedInTime(const std::string& name) {
  return absl::DeadlineExceededError(
      absl::StrCat("the deadline passed while model '", name, "' was waiting to be loaded"));
}

}  // namespace

DemandLoader::DemandLoader(ModelLoader& loader, EvictionObserver evicted)
    : loader_(loader),
      evicted_(std::move(evicted)),
      load_thread_([this] { RunLoads(); }),
      answer_thread_([this] { RunAnswers(); }) {}

DemandLoader::~DemandLoader() { End(); }

void DemandLoader::End() {
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  absl::MutexLock lock(&end_mutex_);
  if (load_thread_.joinable()) {
    load_thread_.join();
    answer_thread_.join();
  }
}

DemandLoader::Load& DemandLoader::Enqueue(const ServedModelPtr& model) {
  const auto found = std::find_if(loads_.begin(), loads_.end(),
                                  [&](const Load& load) { return load.model == model; });
  return found != loads_.end() ? *found : loads_.emplace_back(Load{model, {}});
}

void DemandLoader::Await(const ServedModelPtr& model, absl::Time deadline, Go go) {
  absl::Status refusal;
  const ModelPtr held = model->model();
  if (held == nullptr) {
    absl::MutexLock lock(&mutex_);
    refusal = ends_                         ? ShuttingDown()
              : num_waiting_ >= kMaxWaiting ? TooManyWait()
                                            : model->CheckPause(SteadyNow());
    if (refusal.ok()) {
      Enqueue(model).waiters.push_back({deadline, std::move(go)});
      ++num_waiting_;
      woken_ = true;
      return;
    }
  }
  go(refusal);
}

void DemandLoader::Ask(const ServedModelPtr& model) {
  absl::MutexLock lock(&mutex_);
  if (!ends_ && model->model() == nullptr && model->CheckPause(SteadyNow()).ok()) {
    Enqueue(model).asked = true;
  }
}

absl::Status DemandLoader::MakeRoom(int64_t bytes) {
  if (bytes > loader_.capacity()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("its files have ", bytes, " bytes, more than all models may have together (",
                     loader_.capacity(), "; max-model-bytes)"));
  }
  for (;;) {
    const int64_t excess = loader_.Held() + bytes - loader_.capacity();
    std::vector<ServedModelPtr> models;
    std::vector<Resident> residents;
    for (const std::weak_ptr<ServedModel>& entry : residents_) {
      if (ServedModelPtr model = entry.lock(); model != nullptr && model->model() != nullptr) {
        residents.push_back({model->bytes(), model->last_use(), model->in_use()});
        models.push_back(std::move(model));
      }
    }
    residents_.assign(models.begin(), models.end());
    if (excess <= 0) {
      return absl::OkStatus();
    }
    for (const size_t victim : ChooseVictims(residents, excess).value_or(std::vector<size_t>())) {
      if (models[victim]->Evict()) {
        spdlog::info("model {} version {} leaves memory for another one", models[victim]->name(),
                     models[victim]->version());
        if (evicted_ != nullptr) {
          evicted_(models[victim]->name());
        }
      }
    }
    if (loader_.Held() + bytes <= loader_.capacity()) {
      continue;
    }
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&ends_), kLook)) {
      return absl::CancelledError();
    }
    if (loads_.front().abandoned()) {
      return absl::AbortedError("no call waits for it any more");
    }
  }
}

absl::Status DemandLoader::Bring(const ServedModelPtr& model) {
  if (model->model() != nullptr) {
    return absl::OkStatus();
  }
  if (const absl::Status status = MakeRoom(model->bytes()); !status.ok()) {
    if (absl::IsResourceExhausted(status)) {
      loader_.Refuse(model->name(), model->version(), status);
    }
    return status;
  }
  absl::StatusOr<ModelPtr> loaded = loader_.Load(model->name(), model->folder());
  BW_RETURN_IF_ERROR(loaded.status());
  residents_.push_back(model);
  model->Put(*std::move(loaded));
  return absl::OkStatus();
}

void DemandLoader::RunLoads() {
  pthread_setname_np(pthread_self(), "bw-demand");
  for (;;) {
    ServedModelPtr model;
    {
      absl::MutexLock lock(&mutex_, absl::Condition(this, &DemandLoader::HasLoad));
      if (ends_) {
        break;
      }
      if (loads_.front().abandoned()) {
        loads_.pop_front();
        continue;
      }
      model = loads_.front().model;
    }
    absl::Status status = Bring(model);
    if (absl::IsAborted(status)) {
      continue;  // perhaps another call waits by now
    }
    if (absl::IsCancelled(status)) {
      status = ShuttingDown();
    } else if (!status.ok()) {
      const absl::Time now = SteadyNow();
      model->Fail(status, now + kRetry);
      status = model->CheckPause(now);
    }
    ModelPtr held = model->model();
    absl::MutexLock lock(&mutex_);
    Expire(SteadyNow());
    for (Waiter& waiter : loads_.front().waiters) {
      answers_.push_back({std::move(waiter.go), status, held});
    }
    num_waiting_ -= loads_.front().waiters.size();
    loads_.pop_front();
  }
  absl::MutexLock lock(&mutex_);
  for (Load& load : loads_) {
    for (Waiter& waiter : load.waiters) {
      answers_.push_back({std::move(waiter.go), ShuttingDown(), nullptr});
    }
  }
  loads_.clear();
  loads_ended_ = true;
}

absl::Time DemandLoader::Expire(absl::Time now) {
  absl::Time next = absl::InfiniteFuture();
  for (Load& load : loads_) {
    const auto late =
        std::stable_partition(load.waiters.begin(), load.waiters.end(),
                              [now](const Waiter& waiter) { return waiter.deadline > now; });
    for (auto it = late; it != load.waiters.end(); ++it) {
      answers_.push_back({std::move(it->go), NotLoadedInTime(load.model->name()), nullptr});
      --num_waiting_;
    }
    load.waiters.erase(late, load.waiters.end());
    for (const Waiter& waiter : load.waiters) {
      next = std::min(next, waiter.deadline);
    }
  }
  return next;
}

void DemandLoader::RunAnswers() {
  pthread_setname_np(pthread_self(), "bw-waiting");
  absl::Time next = absl::InfiniteFuture();
  for (;;) {
    std::vector<Answer> answers;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(this, &DemandLoader::HasAnswer), next - SteadyNow());
      woken_ = false;
      next = Expire(SteadyNow());
      if (answers_.empty() && loads_ended_) {
        return;
      }
      answers.swap(answers_);
    }
    for (Answer& answer : answers) {
      answer.go(answer.status);
      answer = {};  // a call that holds the model now keeps it by itself
    }
  }
}

}  // namespace beamwright::serving
