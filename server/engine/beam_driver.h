// The beam driver: iterates a model's loop body for all running requests at once. The token just
// chosen is the slice, the parents that the searches chose are the body's parents; requests may
// stand at different steps, join before any step and leave after any.
#ifndef BEAMWRIGHT_SERVER_ENGINE_BEAM_DRIVER_H_
#define BEAMWRIGHT_SERVER_ENGINE_BEAM_DRIVER_H_

#include <memory>
#include <vector>

#include "server/engine/request.h"

namespace beamwright::engine {

// One thread at a time.
class BeamDriver {
 public:
  explicit BeamDriver(std::shared_ptr<const DecodeModel> model) : model_(std::move(model)) {}

  // A request whose start values are there; it takes part from the next step on.
  void Join(std::unique_ptr<Request> request);

  // One step of every request. Those that finish, fail or are given up get their answer and leave.
  void Step(const ops::ExecutionContext& context);

  bool idle() const { return requests_.empty(); }
  int num_requests() const { return static_cast<int>(requests_.size()); }
  // Rows that are reserved: the beam sizes of all requests.
  int reserved_rows() const;
  int64_t reserved_bytes() const;

 private:
  using Requests = std::vector<std::unique_ptr<Request>>;

  void DropDead();
  // The step's rows: where their states come from, their tokens and rules.
  void CollectRows();
  absl::Status RunBody(const ops::ExecutionContext& context);
  // Scans the logits and advances every search; requests that fail leave.
  void AdvanceSearches(const ops::ExecutionContext& context);
  // What the scan found for a row, as the search takes it; a view until the next step.
  search::RowCandidates Candidates(size_t row);
  void Finish(Requests finished);
  void FailAll(const absl::Status& status);

  std::shared_ptr<const DecodeModel> model_;
  Requests requests_;
  // After a step: all rows' states, [rows, ...] each.
  std::vector<ops::Tensor> states_;
  ops::LoopBody::RowScratch scratch_;
  std::vector<ops::Tensor> results_;
  // Of the step under way; members, so that steady steps allocate nothing.
  std::vector<const std::vector<ops::Tensor>*> starts_;  // of requests that take their first step
  std::vector<int32_t> parents_;
  std::vector<int32_t> tokens_;
  ops::Tensor token_tensor_;
  std::vector<int> rows_per_request_;
  std::vector<ops::LoopBody::RequestValues*> values_;
  struct RowOwner {
    const search::BeamSearch* search;
    size_t row;  // among its own
  };
  std::vector<RowOwner> owners_;
  std::vector<absl::Status> statuses_;
  std::vector<ops::RowScan> scans_;
  std::vector<search::RowCandidates> candidates_;  // of one request
  struct CandidateList {
    std::vector<int32_t> tokens;
    std::vector<float> log_probs;
    std::vector<float> rank_scores;
  };
  std::vector<CandidateList> candidate_lists_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_BEAM_DRIVER_H_
