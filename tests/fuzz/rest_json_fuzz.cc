// Bodies of both HTTP families: whatever the bytes, a request or an error that names the member.
// The first byte says where the JSON of an inference request ends, and elements begin.
#include <google/protobuf/util/json_util.h>

#include <string>

#include "beamwright/v1/decode.pb.h"
#include "engine/bundle/proto_text.h"
#include "server/http/message_json.h"
#include "server/http/routes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string body(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string json_length = data[0] == '{' ? "" : std::to_string(int{data[0]} * 4);
  const auto infer = beamwright::http::ParseInferBody(body, json_length);
  if (infer.ok()) {
    beamwright::JsonWriter json;
    beamwright::http::WriteMessage(infer->request, json);
  }
  beamwright::bundle::CheckStrictJson(body).IgnoreError();
  beamwright::bundle::CheckJsonBounds(body).IgnoreError();
  beamwright::v1::DecodeRequest request;
  if (google::protobuf::util::JsonStringToMessage(body, &request).ok()) {
    beamwright::JsonWriter json;
    beamwright::http::WriteMessage(request, json);
  }
  return 0;
}
