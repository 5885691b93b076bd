// From what a caller asks to a Request that may be queued: source and options checked, its price
// known, its search made. Runs on the caller's thread.
#ifndef BEAMWRIGHT_SERVER_ENGINE_MAKE_REQUEST_H_
#define BEAMWRIGHT_SERVER_ENGINE_MAKE_REQUEST_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"

namespace beamwright::engine {

// Errors: InvalidArgument naming the fields that are wrong; ResourceExhausted, with what it asks,
// what there is and what to lower, if the request alone would need more rows or bytes than `limits`
// allow all that run together.
absl::StatusOr<std::unique_ptr<Request>> MakeRequest(const EngineOptions& limits,
                                                     std::shared_ptr<const DecodeModel> model,
                                                     const v1::Source& source,
                                                     const ResolvedOptions& options,
                                                     const CallOptions& call);
absl::StatusOr<std::unique_ptr<Request>> MakeScoreRequest(const EngineOptions& limits,
                                                          std::shared_ptr<const DecodeModel> model,
                                                          const v1::ScoreSource& source,
                                                          const v1::ScoreOptions& options,
                                                          const CallOptions& call);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_MAKE_REQUEST_H_
