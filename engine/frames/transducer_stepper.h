// TransducerStepper: a round of all running searches of a transducer. The predictor runs over the
// rows that emitted a label, the joiner over a row for each live hypothesis, both over the rows of
// all requests together; then each row's scores are scanned, and the searches advance. Targets that
// are scored give rows of the same kinds. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_TRANSDUCER_STEPPER_H_
#define BEAMWRIGHT_ENGINE_FRAMES_TRANSDUCER_STEPPER_H_

#include <array>
#include <vector>

#include "engine/frames/frame_driver.h"
#include "engine/frames/frame_request_kinds.h"
#include "engine/frames/label_models.h"
#include "ops/kernels/topk.h"

namespace beamwright::engine {

class TransducerStepper final : public FrameStepper {
 public:
  // parts: of a transducer; must outlive it.
  explicit TransducerStepper(const DecodeModel::Parts& parts);

  absl::Status RunModel(const ops::ExecutionContext& context,
                        absl::Span<FrameRequest* const> requests) override;
  void Advance(const ops::ExecutionContext& context,
               absl::Span<FrameRequest* const> requests) override;
  void Leave(FrameRequest& request) override;

 private:
  // A row of the joiner: a frame and a history.
  struct Row {
    const TransducerRequest* request = nullptr;
    int64_t frame = 0;
    int32_t slot = 0;
    // Of a target that is scored: the label behind the history; -1: none. Watched with the blank.
    std::array<int32_t, 2> watched = {};
    // What its scan is to do, and found.
    RowRules rules;
    int k = 0;
    ops::RowScan found;
    std::vector<int32_t> labels;
    std::vector<float> log_probs;
    std::vector<float> durations;
    absl::Status status;
  };

  // Lists what the predictor is to read for a request.
  void ListLabels(TransducerRequest& request);
  // slot: takes what the predictor says of the parent's history and one more label; -1: none yet.
  void Enter(int32_t parent, int32_t label, int32_t& slot);
  void EnterContext(int32_t parent, int32_t token, int32_t& slot);
  void HoldContext(int32_t& slot);  // of context_
  absl::Status RunPredictor(const ops::ExecutionContext& context);
  void ListRows(const TransducerRequest& request);
  Row& AddRow(const TransducerRequest& request, int64_t frame, int32_t slot);
  absl::Status RunJoiner(const ops::ExecutionContext& context);
  // Sets the rules of a request's rows.
  void SetRules(const TransducerRequest& request, absl::Span<Row> rows) const;
  void Scan(const ops::ExecutionContext& context);
  void ScanScores(int64_t number, Row& row) const;
  static absl::Status Advance(TransducerRequest& request, absl::Span<const Row> rows);
  void FreeSlots(std::vector<int32_t>& slots);

  const TransducerPart& part_;
  SlotPool pool_;
  ContextTable contexts_;  // of a stateless predictor; of others empty
  RowScorers scorers_;
  InternalModel internal_;
  int64_t run_ = 0;  // of the model

  // Of the run of the predictor: what each of its rows reads and where its result goes.
  std::vector<int32_t> parents_;
  std::vector<int32_t> tokens_;  // [rows, context size or 1]
  std::vector<int32_t> targets_;
  std::vector<int32_t> context_;
  std::vector<TransducerRequest::Scored*> predicted_targets_;  // whose next label is among them
  ops::Tensor token_tensor_;
  ops::RowGraph::Scratch predictor_scratch_;
  std::vector<ops::Tensor> states_;
  std::vector<ops::Tensor> predicted_;

  // Of the joiner's.
  std::vector<Row> rows_;  // more than there are, after a larger round
  size_t num_rows_ = 0;
  std::vector<size_t> first_rows_;  // by request of the round, and one more
  std::vector<ops::Tensor> inputs_;
  std::vector<int32_t> own_rows_;  // 0, 1, 2, ...
  ops::RowGraph::Scratch joiner_scratch_;
  std::vector<ops::Tensor> none_;
  std::vector<ops::Tensor> joined_;
  std::vector<ops::VocabularyProjection::Row> in_panels_;
  ops::VocabularyProjection::Scratch panels_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_TRANSDUCER_STEPPER_H_
