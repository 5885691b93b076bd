// A request that waits and is never stepped: for tests of what comes before.
#ifndef BEAMWRIGHT_TESTS_ENGINE_WAITING_REQUEST_H_
#define BEAMWRIGHT_TESTS_ENGINE_WAITING_REQUEST_H_

#include "engine/request/request.h"

namespace beamwright::engine_testing {

struct WaitingRequest : engine::Request {
  absl::Status Start(const ops::ExecutionContext& /*context*/,
                     const engine::EncodedSources& /*encoded*/, int64_t /*row*/) override {
    return absl::UnimplementedError("it only waits");
  }
  absl::Status StartAlone(const ops::ExecutionContext& /*context*/) override {
    return absl::UnimplementedError("it only waits");
  }
};

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_WAITING_REQUEST_H_
