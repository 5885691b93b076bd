// Decode options of any kind, on a small model that has everything there is to ask for: an answer,
// or an error that is the caller's. An input is a serialized beamwright.v1.DecodeOptions.
#include <cstdio>
#include <memory>

#include "include/beamwright/engine.h"
#include "ops/base/check.h"
#include "tests/engine/fused_bundle.h"

namespace beamwright::engine {
namespace {

struct Served {
  std::shared_ptr<const DecodeModel> model;
  std::unique_ptr<Engine> engine;
};

Served& Serve() {
  static Served served = [] {
    bundle::Bundle bundle = engine_testing::FusedBundle({1, v1::ENSEMBLE_MEAN_PROBS});
    // Small, so that an input is a matter of milliseconds.
    bundle.config.mutable_limits()->set_max_target_length(12);
    bundle.config.mutable_limits()->set_max_beam_size(12);
    auto model = DecodeModel::Compile(std::move(bundle));
    BW_CHECK(model.ok());
    return Served{*std::move(model), *Engine::Start({1, 64, 16})};
  }();
  return served;
}

void Decode(const v1::DecodeOptions& options) {
  v1::Source source;
  for (const int32_t id : {3, 17, 8}) {
    source.mutable_ids()->add_ids(id);
  }
  const auto decoded = Serve().engine->DecodeAndWait(Serve().model, source, options);
  if (!decoded.ok() && !absl::IsInvalidArgument(decoded.status()) &&
      !absl::IsFailedPrecondition(decoded.status())) {
    std::fprintf(stderr, "%s\n", decoded.status().ToString().c_str());
    BW_CHECK(decoded.ok());
  }
}

}  // namespace
}  // namespace beamwright::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  beamwright::v1::DecodeOptions options;
  if (options.ParseFromArray(data, static_cast<int>(size))) {
    beamwright::engine::Decode(options);
  }
  return 0;
}
