// WithModel: the way of a call to its model, which may have to be loaded first.
#ifndef BEAMWRIGHT_SERVER_SERVING_WITH_MODEL_H_
#define BEAMWRIGHT_SERVER_SERVING_WITH_MODEL_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/serving/model_registry.h"

namespace beamwright::serving {

// Calls `go` once with the request when Lookup finds its model in memory, at once where models are
// not loaded on demand; with an error if the model can't be loaded before `deadline`. `Request` has
// the members model() and version(). `go` must be copyable and must not wait.
template <typename Request, typename Go>
void WithModel(const ModelRegistry& models, absl::StatusOr<Request> request, absl::Time deadline,
               Go go) {
  if (!request.ok() || !models.on_demand()) {
    go(std::move(request));
    return;
  }
  const auto held = std::make_shared<absl::StatusOr<Request>>(std::move(request));
  models.Await((*held)->model(), (*held)->version(), deadline,
               [held, go = std::move(go)](const absl::Status& status) mutable {
                 if (!status.ok()) {
                   *held = status;
                 }
                 go(std::move(*held));
               });
}

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_WITH_MODEL_H_
