// A decode request off the wire: whatever its bytes, every source is answered, or refused with what
// is wrong. The model is a small table, so that what is tried is validation, admission, scheduling
// and search under all options.
#include <algorithm>

#include "include/beamwright/engine.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

constexpr int kMaxSources = 3;
constexpr int kMaxLength = 24;
constexpr int kMaxRows = 16;

std::shared_ptr<const DecodeModel> SmallModel() {
  bundle::Bundle bundle =
      engine_testing::TableBundle(engine_testing::RandomTable(1), engine_testing::TableOptions());
  v1::LimitsConfig& limits = *bundle.config.mutable_limits();
  limits.set_max_target_length(kMaxLength);
  limits.set_max_source_length(kMaxLength);
  limits.set_max_beam_size(kMaxRows);
  bundle.config.mutable_default_options()->set_max_length(kMaxLength);
  auto model = DecodeModel::Compile(std::move(bundle));
  BW_CHECK(model.ok());
  return *std::move(model);
}

void Decode(const v1::DecodeRequest& request) {
  static const auto* model = new std::shared_ptr<const DecodeModel>(SmallModel());
  static Engine* engine = Engine::Start({1, kMaxRows, 64}).value().release();
  if (!CheckOptions(**model, request.options()).ok()) {
    return;
  }
  for (int i = 0; i < std::min(request.sources_size(), kMaxSources); ++i) {
    const absl::StatusOr<v1::Decoded> decoded =
        engine->DecodeAndWait(*model, request.sources(i), request.options());
    BW_CHECK(decoded.status().code() != absl::StatusCode::kUnknown);
    BW_CHECK(!decoded.ok() || decoded->hypotheses_size() <= kMaxRows);
  }
}

}  // namespace
}  // namespace beamwright::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  beamwright::v1::DecodeRequest request;
  if (request.ParseFromArray(data, static_cast<int>(size))) {
    beamwright::engine::Decode(request);
  }
  return 0;
}
