// From a bundle's folder to a model that serves: LoadModel reads the files and compiles their
// graphs. While it does, digests of files are computed on other threads; if one differs, that is
// the error, whatever else failed. TryModel then runs the bundle's golden requests and compares
// their answers, and warms the model up.
#include "engine/load_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/bundle_files.h"
#include "engine/golden.h"
#include "engine/warm_up.h"
#include "ops/base/status.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::engine {
namespace {

void AddWarnings(const char* name, const ops::Graph& graph, std::vector<std::string>* warnings) {
  for (const std::string& warning : graph.warnings) {
    if (warnings != nullptr) {
      warnings->push_back(absl::StrCat(name, ": ", warning));
    }
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const DecodeModel>> LoadModel(
    const std::string& folder, absl::Span<const std::string> allow_links,
    const CompileOptions& options, std::vector<std::string>* warnings) {
  ops::DeferredScope deferred;  // weights are packed one by one, files hashed meanwhile
  // If files are not what they were, whatever else goes wrong does so because of that.
  const auto fail = [&](const absl::Status& status) {
    const absl::Status read = deferred.Finish();
    return read.ok() ? status : Annotate(read, absl::StrCat("bundle '", folder, "'"));
  };
  absl::StatusOr<bundle::Bundle> loaded = bundle::LoadBundle(folder, allow_links);
  if (!loaded.ok()) {
    return fail(loaded.status());
  }
  bundle::Bundle bundle = *std::move(loaded);
  if (bundle.encoder.has_value()) {
    AddWarnings("encoder", *bundle.encoder, warnings);
  }
  AddWarnings("decoder", bundle.decoder, warnings);
  if (bundle.predictor.has_value()) {
    AddWarnings("predictor", *bundle.predictor, warnings);
  }
  if (bundle.joiner.has_value()) {
    AddWarnings("joiner", *bundle.joiner, warnings);
  }
  absl::StatusOr<std::shared_ptr<const DecodeModel>> compiled =
      DecodeModel::Compile(std::move(bundle), options);
  BW_RETURN_IF_ERROR(fail(Annotate(compiled.status(), absl::StrCat("bundle '", folder, "'"))));
  return compiled;
}

absl::Status TryModel(const std::shared_ptr<const DecodeModel>& model, const std::string& folder,
                      absl::Span<const std::string> allow_links, const TryOptions& options) {
  if (options.golden_requests > 0) {
    BW_ASSIGN_OR_RETURN(const std::string golden, bundle::ReadGolden(folder, allow_links));
    if (!golden.empty()) {
      BW_RETURN_IF_ERROR(
          ReplayGolden(model, golden, options.golden_requests, options.interruption));
    }
  }
  if (options.warm_up_rows > 0) {
    BW_ASSIGN_OR_RETURN(const std::string requests, bundle::ReadWarmUp(folder, allow_links));
    WarmUpOptions warm_up;
    warm_up.max_rows = options.warm_up_rows;
    warm_up.interruption = options.interruption;
    BW_RETURN_IF_ERROR(WarmUp(model, requests, warm_up));
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
