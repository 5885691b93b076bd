// RefusalCache: refusals ready to be sent. A full queue refuses thousands of sources a second, all
// in the same words: they are written once.
#ifndef BEAMWRIGHT_SERVER_SERVING_REFUSAL_CACHE_H_
#define BEAMWRIGHT_SERVER_SERVING_REFUSAL_CACHE_H_

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "google/rpc/status.pb.h"

namespace beamwright::serving {

// Thread-safe.
class RefusalCache {
 public:
  // As ToRpcStatus; a copy if the refusal before it was the same.
  google::rpc::Status OnWire(const absl::Status& status);

 private:
  absl::Mutex mutex_;
  absl::Status last_ ABSL_GUARDED_BY(mutex_);
  google::rpc::Status last_on_wire_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_REFUSAL_CACHE_H_
