// Estimator: how long work takes here, from the work that was done. It answers, before a request is
// admitted, what it will cost and when it could be done. Times are given; it knows no clock.
#ifndef BEAMWRIGHT_ENGINE_QUEUE_ESTIMATOR_H_
#define BEAMWRIGHT_ENGINE_QUEUE_ESTIMATOR_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace beamwright::engine {

// Not thread-safe.
class Estimator {
 public:
  // All running requests, of `rows` rows together, have made a step.
  void Turn(int rows, absl::Duration took);
  // A source of `source_length` tokens was decoded: its longest hypothesis has `steps` tokens, and
  // it took so long from its first work on.
  void Finished(absl::string_view model, int source_length, int steps, absl::Duration took,
                absl::Time now);

  struct Forecast {
    // In [1, max_steps]; max_steps while nothing is known.
    double steps = 1;
    // From the first work to the answer, at the load of late.
    absl::Duration took;
    // Whether enough was decoded of late to refuse anybody on these grounds.
    bool sure = false;
  };
  Forecast Of(absl::string_view model, int source_length, int max_steps, absl::Time now) const;

  // Rows times steps that are done in a second of work; 0 while nothing is known.
  double row_steps_per_second() const;

 private:
  struct Model {
    int64_t finished = 0;
    double steps_per_token = 0;
    double seconds_per_token = 0;
    absl::Time last;
  };

  std::map<std::string, Model, std::less<>> models_;
  double row_steps_ = 0;  // of late
  double seconds_ = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_QUEUE_ESTIMATOR_H_
