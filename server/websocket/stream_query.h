// What clients of the WebSocket listener send and read besides sound: the address' query, and JSON
// in sherpa-onnx's form.
#ifndef BEAMWRIGHT_SERVER_WEBSOCKET_STREAM_QUERY_H_
#define BEAMWRIGHT_SERVER_WEBSOCKET_STREAM_QUERY_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "beamwright/v1/recognize.pb.h"
#include "engine/model/decode_model.h"
#include "server/serving/model_registry.h"

namespace beamwright::websocket {

// What the address of a WebSocket asks for: "/?model=speech&sample_rate=8000". Clients of
// sherpa-onnx send none of it, and get the model, the format and the segments that they expect.

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

// What a client of sherpa-onnx's online WebSocket server reads: a JSON object for the segment that
// goes on, as its best hypothesis stands, and a last one for each segment. Members that such a
// client does not know follow those that it does.

// The answers of one source. One thread at a time.
class SherpaJson {
 public:
  // The model must outlive it.
  explicit SherpaJson(const engine::DecodeModel& model) : model_(model) {}

  // Appends the texts that a message of Recognize becomes: one for each segment that ended, then
  // one for what is known of the next, if that is news. The last of a source says so (is_eof): once
  // the client has sent all of it (`is_complete`), a segment that ended waits for the next message,
  // which says whether it is the last. If the last segment was sent before, an empty one follows
  // it. Times are seconds: those of tokens and words count from the beginning of their segment,
  // `start_time` is that of the segment; a model that does not say what a frame stands for has no
  // times.
  void Append(const v1::RecognizeResponse& message, bool is_complete,
              std::vector<std::string>& texts);
  // The source ends without a last message: appends the segment that waits.
  void Flush(std::vector<std::string>& texts);

 private:
  std::string Write(const v1::RecognizedSegment& segment, bool is_final, bool is_eof) const;

  const engine::DecodeModel& model_;
  std::optional<v1::RecognizedSegment> waiting_;  // has ended, and is not sent yet
  v1::RecognizedSegment so_far_;  // what is known of the one that goes on: its best hypothesis
  std::string stable_;            // of it, as text
  std::string told_;              // the last text of it
};

}  // namespace beamwright::websocket

#endif  // BEAMWRIGHT_SERVER_WEBSOCKET_STREAM_QUERY_H_
