#include "bench/decode/cost.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "ops/base/status.h"
#include "server/engine/request/search_kind.h"

namespace beamwright::bench {

absl::StatusOr<RequestPrice> DearestPrice(const std::shared_ptr<const engine::DecodeModel>& model,
                                          const std::vector<v1::Source>& sources,
                                          const v1::DecodeOptions& options) {
  BW_ASSIGN_OR_RETURN(const auto resolved, engine::ResolveOptions(*model, options));
  RequestPrice price;
  for (const v1::Source& source : sources) {
    BW_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Request> request,
                        model->search().MakeRequest({}, model, source, *resolved, {}));
    price.rows = std::max(price.rows, request->beam_size);
    price.bytes = std::max(price.bytes, request->price_bytes);
  }
  return price;
}

std::string CostText(const RequestPrice& price, const std::vector<DecodeResult>& results) {
  std::string text = absl::StrFormat(
      "a request: %d rows, at most %d bytes while it runs\n\n"
      "in flight  requests/s a core  tokens/s a core  CPU ms a request\n",
      price.rows, price.bytes);
  std::string points;
  for (const DecodeResult& result : results) {
    const double per_second = static_cast<double>(result.sentences) / result.cpu_seconds;
    absl::StrAppendFormat(&text, "%9d %18.1f %16.0f %17.2f\n", result.concurrency, per_second,
                          static_cast<double>(result.tokens) / result.cpu_seconds,
                          1e3 / per_second);
    absl::StrAppendFormat(&points, " --point %d:%.1f", result.concurrency, per_second);
  }
  absl::StrAppend(&text, "\nbeamwright capacity --threads 1 --beam-size ", price.rows, points,
                  " --rate CALLS/S --within TIME\n");
  return text;
}

}  // namespace beamwright::bench
