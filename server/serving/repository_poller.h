// RepositoryPoller: looks at the model folders every so often (--model-control poll).
#ifndef BEAMWRIGHT_SERVER_SERVING_REPOSITORY_POLLER_H_
#define BEAMWRIGHT_SERVER_SERVING_REPOSITORY_POLLER_H_

#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/serving/model_registry.h"

namespace beamwright::serving {

class RepositoryPoller {
 public:
  // Polls once per `interval`. The registry must outlive it.
  RepositoryPoller(ModelRegistry& models, absl::Duration interval)
      : thread_([this, &models, interval] {
          while (!stop_.WaitForNotificationWithTimeout(interval)) {
            models.Poll();
          }
        }) {}
  // Waits for a poll that is under way.
  ~RepositoryPoller() {
    stop_.Notify();
    thread_.join();
  }
  RepositoryPoller(const RepositoryPoller&) = delete;
  RepositoryPoller& operator=(const RepositoryPoller&) = delete;

 private:
  absl::Notification stop_;
  std::thread thread_;  // last: it uses the other
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_REPOSITORY_POLLER_H_
