// Drivers that wait for the next request of their model. A driver has buffers that grew with
// earlier requests; when it has no request left it is parked with the model (Park), and the next
// worker that needs one takes it (Take). A driver that failed or holds too much memory is dropped
// instead.
#include "engine/request/search_kind.h"

#include <utility>

#include "engine/model/decode_model.h"
#include "engine/status/fault.h"
#include "ops/base/check.h"

namespace beamwright::engine {

absl::StatusOr<std::unique_ptr<Request>> SearchKind::MakeStreamRequest(
    const EngineOptions& /*limits*/, std::shared_ptr<const DecodeModel> /*model*/,
    const ResolvedOptions& /*options*/, const CallOptions& /*call*/) const {
  return status::InvalidField("model",
                              "decodes token by token, with the whole source before it; "
                              "models that are searched by frames take a source in pieces");
}

ParkedDrivers::ParkedDrivers() = default;
ParkedDrivers::~ParkedDrivers() = default;

std::unique_ptr<Driver> ParkedDrivers::Take(std::shared_ptr<const DecodeModel> model) {
  ParkedDrivers& parked = model->parked_drivers();
  std::unique_ptr<Driver> driver;
  {
    absl::MutexLock lock(&parked.mutex_);
    if (parked.drivers_.empty()) {
      return nullptr;
    }
    driver = std::move(parked.drivers_.back());
    parked.drivers_.pop_back();
  }
  driver->Resume(std::move(model));
  return driver;
}

void ParkedDrivers::Park(std::unique_ptr<Driver> driver) {
  BW_DCHECK(driver->idle());
  if (driver->has_failed() || driver->most_bytes() > kMostParkedBytes) {
    return;
  }
  // Perhaps the last who held it: then the driver goes with it at the end of this function.
  const std::shared_ptr<const DecodeModel> model = driver->Suspend();
  ParkedDrivers& parked = model->parked_drivers();
  absl::MutexLock lock(&parked.mutex_);
  parked.drivers_.push_back(std::move(driver));
}

}  // namespace beamwright::engine
