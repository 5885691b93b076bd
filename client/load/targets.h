// The protocols of target.h, one by one. Private to the load generator.
#ifndef BEAMWRIGHT_CLIENT_LOAD_TARGETS_H_
#define BEAMWRIGHT_CLIENT_LOAD_TARGETS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/load/target.h"

namespace beamwright::client {

std::unique_ptr<LoadTarget> MakeOwnedNativeTarget(std::unique_ptr<Client> client);
absl::StatusOr<std::unique_ptr<LoadTarget>> MakeInferGrpcTarget(const ClientOptions& options);
// `protocol`: kRest or kInferHttp.
absl::StatusOr<std::unique_ptr<LoadTarget>> MakeHttpTarget(Protocol protocol,
                                                           const ClientOptions& options);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_TARGETS_H_
