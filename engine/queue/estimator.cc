#include "engine/queue/estimator.h"

#include <algorithm>
#include <cmath>

namespace beamwright::engine {
namespace {

// The weight of a new observation.
constexpr double kNew = 0.05;
// Of the turns; some hundred of them are "of late".
constexpr double kKeep = 0.99;
// Fewer observations are too few, and old ones are of another load.
constexpr int64_t kFewest = 20;
constexpr absl::Duration kStale = absl::Seconds(5);
constexpr double kShortest = 1e-4;  // seconds of turns

// The end token is a token too; it also keeps zero away.
double Length(int source_length) { return std::max(source_length, 0) + 1.0; }

}  // namespace

void Estimator::Turn(int rows, absl::Duration took) {
  row_steps_ = kKeep * row_steps_ + rows;
  seconds_ = kKeep * seconds_ + std::max(absl::ToDoubleSeconds(took), 0.0);
}

void Estimator::Finished(absl::string_view model, int source_length, int steps, absl::Duration took,
                         absl::Time now) {
  Model& entry = models_[std::string(model)];
  const double weight = std::max(kNew, 1.0 / static_cast<double>(entry.finished + 1));
  // What is no such number would be in the mean for ever.
  const auto mix = [&](double& mean, double value) {
    if (std::isfinite(value) && value >= 0) {
      mean += weight * (value - mean);
    }
  };
  mix(entry.steps_per_token, steps / Length(source_length));
  mix(entry.seconds_per_token, absl::ToDoubleSeconds(took) / Length(source_length));
  ++entry.finished;
  entry.last = now;
}

Estimator::Forecast Estimator::Of(absl::string_view model, int source_length, int max_steps,
                                  absl::Time now) const {
  Forecast forecast;
  const auto found = models_.find(model);
  if (found == models_.end()) {
    forecast.steps = std::max(max_steps, 1);
    return forecast;
  }
  const Model& entry = found->second;
  forecast.steps = std::clamp(entry.steps_per_token * Length(source_length), 1.0,
                              static_cast<double>(std::max(max_steps, 1)));
  forecast.took = absl::Seconds(entry.seconds_per_token * Length(source_length));
  forecast.sure = entry.finished >= kFewest && now - entry.last < kStale;
  return forecast;
}

double Estimator::row_steps_per_second() const {
  return seconds_ < kShortest ? 0 : row_steps_ / seconds_;
}

}  // namespace beamwright::engine
