// HealthService: grpc.health.v1. gRPC's own service runs a handler when the whole request has come
// (raw_service.h), so that nothing bounds the headers of calls that never send one.
#ifndef BEAMWRIGHT_SERVER_RPC_HEALTH_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_HEALTH_SERVICE_H_

#include <map>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"

namespace beamwright::rpc {

class HealthCall;

// Thread-safe. The gate must outlive it, and it must outlive its calls.
class HealthService final : public RawService<grpc::health::v1::Health> {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  explicit HealthService(const Gate& gate);
  // Of a model or a service by name, or of the server by "". Is sent to those who watch the name.
  void Set(const std::string& name, bool is_serving);

 private:
  friend class HealthCall;

  // SERVICE_UNKNOWN for a name that was never set.
  Status Find(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::map<std::string, Status> statuses_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<HealthCall*>> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_HEALTH_SERVICE_H_
