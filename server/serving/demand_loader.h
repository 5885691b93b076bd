// DemandLoader: loads models when calls need them, within a budget of memory (--model-control
// on-demand). A call waits for its model and no longer than its deadline; where the budget is full
// the least recently used model leaves that no call holds. A model in use never leaves: a load that
// finds no other waits for one.
#ifndef BEAMWRIGHT_SERVER_SERVING_DEMAND_LOADER_H_
#define BEAMWRIGHT_SERVER_SERVING_DEMAND_LOADER_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/serving/model_loader.h"

namespace beamwright::serving {

// Thread-safe.
class DemandLoader {
 public:
  // Called once on a thread that may work but not wait: with OK, and then the model is in memory as
  // long as the call lasts, with DeadlineExceeded, or with the error of the load.
  using Go = std::function<void(const absl::Status&)>;
  // Notified of each model that leaves for another one.
  using EvictionObserver = std::function<void(const std::string& model)>;

  // The loader must outlive it.
  explicit DemandLoader(ModelLoader& loader, EvictionObserver evicted = nullptr);
  // As End.
  ~DemandLoader();
  DemandLoader(const DemandLoader&) = delete;
  DemandLoader& operator=(const DemandLoader&) = delete;

  // Calls `go` when `model` is loaded, behind the loads that were asked for before.
  // ResourceExhausted if more calls wait than kMaxWaiting.
  void Await(const ServedModelPtr& model, absl::Time deadline, Go go);
  // Loads `model`, and no call waits for it.
  void Ask(const ServedModelPtr& model);
  // Answers calls that wait with Unavailable, waits for a load that runs, and loads nothing more.
  void End();

  static constexpr size_t kMaxWaiting = 16384;

 private:
  struct Waiter {
    absl::Time deadline;
    Go go;
  };
  struct Load {
    ServedModelPtr model;
    std::vector<Waiter> waiters;
    bool asked = false;  // it goes on when no call waits
    bool abandoned() const { return !asked && waiters.empty(); }
  };
  struct Answer {
    Go go;
    absl::Status status;
    ModelPtr held;  // until `go` has returned
  };

  Load& Enqueue(const ServedModelPtr& model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunLoads();
  void RunAnswers();
  // Brings the model into memory. Cancelled if this ends.
  absl::Status Bring(const ServedModelPtr& model);
  // Makes room for `bytes` more.
  absl::Status MakeRoom(int64_t bytes);
  // Moves waiters whose deadline has passed to the answers; the next deadline.
  absl::Time Expire(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasLoad() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return ends_ || !loads_.empty(); }
  bool HasAnswer() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return loads_ended_ || !answers_.empty() || woken_;
  }

  ModelLoader& loader_;
  const EvictionObserver evicted_;
  absl::Mutex mutex_;
  std::deque<Load> loads_ ABSL_GUARDED_BY(mutex_);  // the first one may run
  size_t num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // a deadline was added
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  bool loads_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<ServedModel>> residents_;  // of the loading thread
  absl::Mutex end_mutex_;                              // held while threads are joined
  std::thread load_thread_;                            // last: they use the others
  std::thread answer_thread_;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_DEMAND_LOADER_H_
