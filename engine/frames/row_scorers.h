// RowScorers: scorers of a search by frames whose log-probabilities come with its rows
// (search::FrameOptions::scorers): recurrent language models, stepped here over the new label
// histories of all requests together, and a transducer's internal language model, which the
// transducer's stepper computes (docs/decoding.md, 'Frames'). Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_ROW_SCORERS_H_
#define BEAMWRIGHT_ENGINE_FRAMES_ROW_SCORERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/frames/frame_request.h"
#include "engine/frames/label_model.h"

namespace beamwright::engine {

// One thread at a time.
class RowScorers {
 public:
  // parts: outlives this.
  explicit RowScorers(const DecodeModel::Parts& parts);

  // Runs the language models that requests ask for over what their searches' label_steps say.
  // Fills their `label_rows`; a row that can't be used is reported by their `label_status`. Not OK:
  // a model failed, or was interrupted; it can be made again.
  absl::Status Run(const ops::ExecutionContext& context, absl::Span<FrameRequest* const> requests);
  // The request leaves, or its search does: its histories are forgotten.
  void Leave(FrameRequest& request);

 private:
  // A row of a language model's run: whose it is.
  struct Added {
    FrameRequest* request = nullptr;
    size_t scorer = 0;  // of the request
    int32_t slot = 0;   // of its search
    int64_t number = 0;
    LabelModel* model = nullptr;
  };

  void List(FrameRequest& request);

  const DecodeModel::Parts& parts_;
  std::vector<std::unique_ptr<LabelModel>> models_;  // by number of Parts::decoders
  std::vector<Added> added_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_ROW_SCORERS_H_
