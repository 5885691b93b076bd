// ParkedDrivers: a model's drivers that have nothing to do at the moment. A driver's buffers
// are as large as its steps; a model that gets one request at a time would buy them anew for each.
// They wait with the model, and go with it: a parked driver keeps no model alive, and no thread has
// to wake up to let go of it. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_PARKED_DRIVERS_H_
#define BEAMWRIGHT_ENGINE_REQUEST_PARKED_DRIVERS_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::engine {

class Driver;
class DecodeModel;

// Thread-safe.
class ParkedDrivers {
 public:
  ParkedDrivers();
  ~ParkedDrivers();
  ParkedDrivers(const ParkedDrivers&) = delete;
  ParkedDrivers& operator=(const ParkedDrivers&) = delete;

  // One of those parked with `model`; null if missing.
  static std::unique_ptr<Driver> Take(std::shared_ptr<const DecodeModel> model);
  // Back to its model, from which it takes its hands; or, if its requests took more memory than
  // kMostParkedBytes at once or it failed, away with it. It must be idle.
  static void Park(std::unique_ptr<Driver> driver);

  int num_drivers() const {
    absl::MutexLock lock(&mutex_);
    return static_cast<int>(drivers_.size());
  }

  // Priced like requests (Request::price_bytes): a few full beams of a small model, or one of a
  // large one.
  static constexpr int64_t kMostParkedBytes = int64_t{16} << 20;

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Driver>> drivers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_PARKED_DRIVERS_H_
