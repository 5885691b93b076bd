#include "engine/frames/column_request.h"
#include "engine/frames/frame_stepper.h"
#include "engine/model/parts.h"
#include "ops/base/status.h"
#include "ops/kernels/parallel.h"

namespace beamwright::engine {

absl::Status ColumnStepper::RunModel(const ops::ExecutionContext& context,
                                     absl::Span<FrameRequest* const> requests) {
  return scorers_.Run(context, requests);
}

void ColumnStepper::Advance(const ops::ExecutionContext& context,
                            absl::Span<FrameRequest* const> requests) {
  int64_t work = 0;
  for (const FrameRequest* const request : requests) {
    constexpr int64_t kPerColumn = 64;
    work += kColumnFramesPerStep * kPerColumn * request->model->parts().frames->num_columns;
  }
  ops::ParallelFor(context.num_threads, static_cast<int64_t>(requests.size()), work,
                   [&](int64_t i) {
                     FrameRequest& request = *requests[static_cast<size_t>(i)];
                     if (!request.is_answered) {
                       request.status = static_cast<ColumnRequest&>(request).Advance();
                     }
                   });
}

}  // namespace beamwright::engine
