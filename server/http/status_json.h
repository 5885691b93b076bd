// What the server counts and measures, as JSON: what /metrics says, for those who read no
// Prometheus text. docs/operations.md lists the metrics.
#ifndef BEAMWRIGHT_SERVER_HTTP_STATUS_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_STATUS_JSON_H_

#include "server/http/listener.h"
#include "server/serving/metrics.h"

namespace beamwright::http {

// {"metrics": {NAME: [{"labels": {...}, "value": 1}, ...], ...}}; a histogram has "count", "sum"
// and "buckets" ([upper bound, cumulative count], without the one that has no bound) in place of
// "value".
HttpReply StatusReply(const serving::Metrics& metrics);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_STATUS_JSON_H_
