#include "tools/try_bundle.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "ops/tensor/deferred.h"
#include "server/engine/golden.h"
#include "server/engine/warm_up.h"
#include "server/model/bundle.h"
#include "server/model/golden_file.h"

namespace beamwright::tools {
namespace {

using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

constexpr int kGoldenRequests = 100;  // as the server's default

absl::StatusOr<ModelPtr> Compile(const std::string& folder, absl::Span<const std::string> links) {
  ops::DeferredScope deferred;  // weights are packed one by one
  BW_ASSIGN_OR_RETURN(model::Bundle bundle, model::LoadBundle(folder, links));
  absl::StatusOr<ModelPtr> compiled = engine::DecodeModel::Compile(std::move(bundle));
  // If weights could not be read, whatever else went wrong did so because of them.
  BW_RETURN_IF_ERROR(deferred.Finish());
  return compiled;
}

std::string Together(absl::string_view what, const v1::Batching& batching) {
  return batching.together() ? absl::StrCat(what, " of several requests together")
                             : absl::StrCat(what, " one at a time, because ", batching.reason());
}

}  // namespace

absl::StatusOr<ModelPtr> TryBundle(const std::string& folder, const std::string& allow_links) {
  std::vector<std::string> links;
  if (!allow_links.empty()) {
    links.push_back(allow_links);
  }
  BW_ASSIGN_OR_RETURN(ModelPtr model, Compile(folder, links));
  BW_ASSIGN_OR_RETURN(const std::string golden, model::ReadGolden(folder, links));
  if (!golden.empty()) {
    BW_RETURN_IF_ERROR(engine::ReplayGolden(model, golden, kGoldenRequests));
  }
  BW_ASSIGN_OR_RETURN(const std::string requests, model::ReadWarmUp(folder, links));
  BW_RETURN_IF_ERROR(engine::WarmUp(model, requests, {.max_rows = 1}));
  return model;
}

std::vector<std::string> FactsOf(const engine::DecodeModel& model) {
  const v1::ModelDescription description = model.Describe();
  std::vector<std::string> facts;
  if (description.has_encoder_batching()) {
    facts.push_back(Together("encodes sources", description.encoder_batching()));
  }
  facts.push_back(Together("steps rows", description.step_batching()));
  return facts;
}

}  // namespace beamwright::tools
