// The description of /v1 as an OpenAPI 3.1 document, made of the protos when it is asked for first:
// messages are its schemas, the rules of fields (rule.proto) their ranges, defaults and texts.
#ifndef BEAMWRIGHT_SERVER_HTTP_OPENAPI_H_
#define BEAMWRIGHT_SERVER_HTTP_OPENAPI_H_

#include <string>

#include "server/http/listener.h"

namespace beamwright::http {

// The same text each time.
const std::string& OpenApi();

HttpReply OpenApiReply();

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_OPENAPI_H_
