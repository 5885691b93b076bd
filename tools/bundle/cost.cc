#include "tools/bundle/cost.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/repository.h"
#include "engine/request/search_kind.h"
#include "ops/base/status.h"
#include "tools/bundle/decode_bench.h"

namespace beamwright::tools {
namespace {

using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

// The newest version of what is at the path.
absl::StatusOr<ModelPtr> CompileNewest(const std::string& path) {
  BW_ASSIGN_OR_RETURN(const bundle::ModelFolder folder, bundle::FindModel(path));
  BW_RETURN_IF_ERROR(folder.listed);
  BW_ASSIGN_OR_RETURN(bundle::Bundle bundle, bundle::LoadBundle(folder.versions.front().path));
  return engine::DecodeModel::Compile(std::move(bundle));
}

struct RequestPrice {
  int rows = 0;
  // Held at most while it runs: the price that the server admits it by.
  int64_t bytes = 0;
};

// The dearest of the sources.
absl::StatusOr<RequestPrice> DearestPrice(const ModelPtr& model,
                                          const std::vector<v1::Source>& sources,
                                          const v1::DecodeOptions& options) {
  BW_ASSIGN_OR_RETURN(const auto resolved, engine::ResolveOptions(*model, options));
  RequestPrice price;
  for (const v1::Source& source : sources) {
    BW_ASSIGN_OR_RETURN(engine::PreparedSource prepared, engine::PrepareSource(*model, source));
    BW_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Request> request,
                        model->search().MakeRequest({}, model, std::move(prepared), *resolved, {}));
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

}  // namespace

absl::Status Cost(const CostFlags& flags, std::ostream& output) {
  BW_ASSIGN_OR_RETURN(const std::vector<v1::Source> sources, ReadSources(flags.sources));
  BW_ASSIGN_OR_RETURN(const ModelPtr model, CompileNewest(flags.model));
  DecodeCase one;
  one.seconds = flags.seconds;
  if (flags.beam_size > 0) {
    one.options.set_beam_size(flags.beam_size);
  }
  BW_ASSIGN_OR_RETURN(const RequestPrice price, DearestPrice(model, sources, one.options));
  std::vector<DecodeResult> results;
  for (const int concurrency : flags.concurrency) {
    one.concurrency = concurrency;
    BW_ASSIGN_OR_RETURN(results.emplace_back(), BenchDecode(model, sources, one));
  }
  output << CostText(price, results);
  return absl::OkStatus();
}

}  // namespace beamwright::tools
