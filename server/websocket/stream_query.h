// What the address of a WebSocket asks for: "/?model=speech&sample_rate=8000". Clients of
// sherpa-onnx send none of it, and get the model, the format and the segments that they expect.
#ifndef BEAMWRIGHT_SERVER_WEBSOCKET_STREAM_QUERY_H_
#define BEAMWRIGHT_SERVER_WEBSOCKET_STREAM_QUERY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "beamwright/v1/recognize.pb.h"
#include "server/serving/model_registry.h"

namespace beamwright::websocket {

struct StreamQuery {
  // Of each source of the connection, which gets the model as it is served then.
  v1::RecognizeConfig config;
  // For each source, from its first message on.
  absl::Duration timeout = absl::InfiniteDuration();
};

// `target`: of the request, path and query; the path may be any. `default_model`: for a query
// without a model; empty: the only one that hears sound. InvalidArgument naming the parameters that
// are unknown or wrong, the first twenty of them; NotFound: no such model.
absl::StatusOr<StreamQuery> ReadStreamQuery(absl::string_view target,
                                            const std::string& default_model,
                                            const serving::ModelRegistry& models);

}  // namespace beamwright::websocket

#endif  // BEAMWRIGHT_SERVER_WEBSOCKET_STREAM_QUERY_H_
