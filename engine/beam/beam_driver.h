// The beam driver: iterates a model's loop body for all running requests at once. The token just
// chosen is the slice, the parents that the searches chose are the body's parents; requests may
// stand at different steps, join before any step and leave after any.
#ifndef BEAMWRIGHT_ENGINE_BEAM_BEAM_DRIVER_H_
#define BEAMWRIGHT_ENGINE_BEAM_BEAM_DRIVER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/beam/beam_request.h"
#include "engine/beam/step_runner.h"
#include "engine/model/parts.h"
#include "engine/request/request_driver.h"
#include "ops/kernels/panel_scan.h"
#include "ops/kernels/topk.h"
#include "ops/kernels/vocabulary_projection.h"

namespace beamwright::engine {

// Row scan: from what the decoders say of a step's rows to the candidates that searches choose
// from. Members of an ensemble are mixed, scorers added, rules applied, the best found.

// One thread at a time; buffers stay from step to step, so that steady steps allocate nothing.
class RowScan {
 public:
  // Scans the rows of a step: `runners` (by decoder of the model) have run for the requests, whose
  // step_rows stand one behind the other.
  void Run(const ops::ExecutionContext& context, const DecodeModel::Parts& parts,
           absl::Span<StepRunner> runners, absl::Span<const std::unique_ptr<BeamRequest>> requests);

  // What was found for row number `row` of the step, as a search takes it; a view until the next
  // Run. Internal: its scores can't be ranked. Of different rows on several threads at once.
  absl::StatusOr<search::RowCandidates> Candidates(size_t row);

  // Of the last Run.
  int64_t num_rows() const { return static_cast<int64_t>(num_rows_); }

 private:
  struct Row {
    BeamRequest* request = nullptr;
    int own_row = 0;  // among the request's
    absl::Status status;
    // Of an ensemble: what each member says, and together.
    std::vector<ops::MixPart> parts;
    std::vector<search::MemberScores> members;
    std::vector<float> scratch;
    std::vector<float> mixed;
    search::FusedRow fused;  // with what the scorers say
    RowRules rules;
    ops::RowScan found;
    // The best of it, by column.
    std::vector<int32_t> tokens;
    std::vector<float> log_probs;
    std::vector<float> rank_scores;
  };
  // A step: what its rows are scanned from.
  struct Step {
    const DecodeModel::Parts& parts;
    absl::Span<StepRunner> runners;
  };

  void List(absl::Span<const std::unique_ptr<BeamRequest>> requests);
  static absl::Status Scan(const Step& step, size_t number, Row& row);
  static absl::Status MakeRules(const Step& step, Row& row);
  static absl::Status MixMembers(const Step& step, size_t number, Row& row);
  static absl::Status AddScorers(const Step& step, Row& row);
  // Of a model whose projection was split off, once there are rules.
  void ScanPanels(const ops::ExecutionContext& context, const StepRunner& runner);
  static void ListFound(Row& row);

  std::vector<Row> rows_;  // more than there are, after a larger step
  size_t num_rows_ = 0;
  std::vector<ops::VocabularyProjection::Row> in_panels_;
  ops::VocabularyProjection::Scratch panels_;
};

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
