// Admission's compute: encoders in groups of sources (queue/encode_queue.h), then what each
// request's steps start from. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_SCHEDULE_ENCODE_H_
#define BEAMWRIGHT_ENGINE_SCHEDULE_ENCODE_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/request/request.h"

namespace beamwright::engine {

// Requests of one model whose sources are encoded in one run: of one shape, or, where the model
// takes that, of unequal lengths, the longest first.
struct EncodeGroup {
  std::vector<std::unique_ptr<Request>> requests;  // Encode takes them
  int num_sources = 0;
  int64_t positions = 0;                         // of the sources, together
  absl::Time deadline = absl::InfiniteFuture();  // the last deadline of its requests
  absl::Duration took;                           // filled in by Encode
};

// What is encoded in one run of these, of one model.
EncodeGroup MakeGroup(std::vector<std::unique_ptr<Request>> requests);

// Cuts groups of unequal lengths until there are as many as threads, if that can be; groups whose
// sources are of one length stay whole.
void SplitForThreads(int num_threads, std::vector<EncodeGroup>& groups);

// Encodes and prepares requests of one model, in one run of each encoder for each group: groups
// side by side if there are at least as many as threads, else one after the other on all threads.
// Those that fail get their answer here; the others are returned, in their order, ready to join the
// running batch. underway: through whom others may answer them meanwhile, and interrupt the runs
// (may be null); then those without an answer are put into `again`. A group for which there is no
// memory gets its answer, too.
std::vector<std::unique_ptr<Request>> Encode(
    const ops::ExecutionContext& context, absl::Span<EncodeGroup> groups,
    Underway* underway = nullptr, std::vector<std::unique_ptr<Request>>* again = nullptr);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_SCHEDULE_ENCODE_H_
