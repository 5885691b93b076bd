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
#include "engine/request/driver.h"
#include "engine/request/underway.h"

namespace beamwright::engine {

class BeamDriver : public Driver {
 public:
  explicit BeamDriver(std::shared_ptr<const DecodeModel> model);

  using Driver::Step;
  void Join(std::unique_ptr<Request> request) override;
  absl::Duration Step(const ops::ExecutionContext& context, EngineObserver* observer,
                      Underway* underway) override;
  void AnswerMeanwhile(absl::Time now, const absl::Status& end, EngineObserver* observer) override;
  void FailAll(const absl::Status& why) override;
  void End(const absl::Status& why) override;
  Reserved reserved() const override { return ReservedFor(requests_); }
  int64_t most_bytes() const override { return most_bytes_; }
  int64_t num_done() const override { return num_done_; }
  bool has_failed() const override { return has_failed_; }
  std::shared_ptr<const DecodeModel> Suspend() override { return std::move(model_); }
  void Resume(std::shared_ptr<const DecodeModel> model) override { model_ = std::move(model); }

 private:
  using Requests = std::vector<std::unique_ptr<BeamRequest>>;

  void DropDead(EngineObserver* observer);
  void TellCancelled(BeamRequest& request, absl::Time now, EngineObserver& observer) const;
  // Cuts the searches that are to be; they leave with what they have.
  template <typename Which>
  void CutSearches(search::FinishReason reason, Which which);
  // What follows when RunDecoders fails.
  void EndStep(const absl::Status& status, const Underway* underway);
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
  static void TellProgress(BeamRequest& request);
  // Answers those whose search is done.
  static void Finish(const ops::ExecutionContext& context, const Requests& finished);
  static void Finish(const ops::ExecutionContext& context, absl::Span<BeamRequest* const> finished);

  std::shared_ptr<const DecodeModel> model_;
  int64_t most_bytes_ = 0;
  int64_t num_done_ = 0;
  bool has_failed_ = false;
  // The last step was interrupted, and those who took part in it make it again; the others wait.
  bool repeats_ = false;
  // When the last step looked for requests that were given up.
  absl::Time looked_ = absl::InfinitePast();
  Requests requests_;
  std::vector<StepRunner> runners_;    // by decoder of the model
  std::map<std::string, int> groups_;  // shapes of a request's states, of all decoders -> group
  std::vector<Request*> under_way_;    // all of them, for Underway
  RowScan scan_;
  std::vector<Advanced> advanced_;  // in the order of requests_; kept for its memory
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_BEAM_BEAM_DRIVER_H_
