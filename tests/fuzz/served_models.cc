#include "tests/fuzz/served_models.h"

#include <spdlog/spdlog.h>

#include "ops/base/check.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"

namespace beamwright::fuzzing {
namespace {

// Less than what libFuzzer takes for an input that hangs (run.sh), so that the two differ.
constexpr absl::Duration kLongestWait = absl::Seconds(8);

}  // namespace

std::vector<absl::string_view> Parts(absl::string_view input, size_t most) {
  std::vector<absl::string_view> parts;
  size_t end = 0;
  while (parts.size() + 1 < most && (end = input.find(kBetweenParts)) != absl::string_view::npos) {
    parts.push_back(input.substr(0, end));
    input.remove_prefix(end + kBetweenParts.size());
  }
  parts.push_back(input);
  return parts;
}

ServedModels::ServedModels(const std::vector<std::string>& folders) {
  spdlog::set_level(spdlog::level::off);
  const bundle::TempFolder temp;
  sound::WriteTonesBundle(temp.path(), "tones");
  sound::WriteTonesChunksBundle(temp.path(), "chunks");
  serving::ModelPaths paths;
  paths.repositories = {temp.path()};
  paths.models = folders;
  serving::LoadOptions options;
  options.golden_requests = 0;
  models_ = *serving::ModelRegistry::Load(paths, nullptr, options);
  BW_CHECK(models_->AllServed().size() == 2 + folders.size());
  engine_ = *engine::Engine::Start({1, 64, 100});
  core_ = std::make_unique<serving::Core>(state_, *models_, *engine_, metrics_);
  state_.Enter(serving::Phase::kServing);
}

bool ServedModels::HaveAnswered() { return state_.WaitUntilAnswered(kLongestWait); }

}  // namespace beamwright::fuzzing
