// The beam driver: iterates a model's loop body for all running requests at once. The token just
// chosen is the slice, the parents that the searches chose are the body's parents; requests may
// stand at different steps, join before any step and leave after any.
#ifndef BEAMWRIGHT_ENGINE_BEAM_BEAM_DRIVER_H_
#define BEAMWRIGHT_ENGINE_BEAM_BEAM_DRIVER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/beam/beam_request.h"
#include "engine/beam/row_scan.h"
#include "engine/beam/step_runner.h"
#include "engine/request/request_driver.h"

namespace beamwright::engine {

class BeamDriver : public RequestDriver<BeamRequest> {
 public:
  explicit BeamDriver(std::shared_ptr<const DecodeModel> model);

  using Driver::Step;
  absl::Duration Step(const ops::ExecutionContext& context, EngineObserver* observer,
                      Underway* underway) override;
  void FailAll(const absl::Status& why) override;

 private:
  void ClearRunners();
  // Puts requests of one group (StepRunner) side by side, in the order in which they came.
  void OrderByGroup();
  // Sets who takes part in the step, and with how many rows.
  void ShareRows();
  // Runs every decoder over the rows of the requests that use it.
  absl::Status RunDecoders(const ops::ExecutionContext& context, Underway* underway);
  // Advances every search by what the scan found; requests that fail leave.
  void AdvanceSearches(const ops::ExecutionContext& context);
  // A request that is advanced, and what came of it.
  struct Advanced {
    BeamRequest* request;
    size_t first_row;  // of the step
    absl::Status status;
  };
  // Fills advanced_ with those that take part in the step.
  void ListAdvanced();
  // Advances one request by what the scan found. Of different requests on several threads at once.
  absl::Status Advance(size_t first_row, BeamRequest& request);

  std::vector<StepRunner> runners_;    // by decoder of the model
  std::map<std::string, int> groups_;  // shapes of a request's states, of all decoders -> group
  RowScan scan_;
  std::vector<Advanced> advanced_;  // in the order of requests_; kept for its memory
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_BEAM_BEAM_DRIVER_H_
