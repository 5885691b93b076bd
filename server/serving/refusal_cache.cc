#include "server/serving/refusal_cache.h"

#include "engine/status/wire_status.h"

namespace beamwright::serving {

google::rpc::Status RefusalCache::OnWire(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) {
    return status::ToRpcStatus(status);
  }
  absl::MutexLock lock(&mutex_);
  if (status != last_) {
    last_ = status;
    last_on_wire_ = status::ToRpcStatus(status);
  }
  return last_on_wire_;
}

}  // namespace beamwright::serving
