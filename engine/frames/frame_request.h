// FrameRequest: a source that is searched frame by frame, or whose targets are scored so. It goes
// through two phases at most: the search, and the forward algorithm over given targets, or over
// what the search found where its full sums are asked for. Both read the frames from the first one
// on. What a frame is, columns of a CTC output or a transducer's, the kinds below it know. Private
// to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_FRAME_REQUEST_H_
#define BEAMWRIGHT_ENGINE_FRAMES_FRAME_REQUEST_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/frames/chunked_source.h"
#include "engine/request/request.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/frame_score.h"
#include "engine/search/frames/frame_search.h"
#include "engine/search/options.h"

namespace beamwright::engine {

// One of FrameOptions::scorers.
struct RowScorer {
  int decoder = -1;            // number of the language model; -1: the transducer's internal one
  std::vector<int32_t> slots;  // of the model, by slot of the search; -1: none yet
};

struct FrameRequest : Request {
  // Of the search; null: `targets` are given.
  std::shared_ptr<const search::FramePlan> plan;
  // By scorer of the plan; their rows by slot of the search, which stay while it holds the slot.
  std::vector<RowScorer> row_scorers;
  std::vector<search::FusedRow> label_rows;
  absl::Status label_status;  // of the step under way: what became of them
  bool wants_full_sum = false;
  // What full sums and given targets are scored under.
  search::FrameOptions scoring;

  // Given, or the labels of `found` once they are scored.
  std::vector<search::TokenSequence> targets;
  std::vector<search::FrameHypothesis> found;
  v1::FinishReason reason = v1::FINISH_REASON_END_OF_SOURCE;
  bool is_scoring = false;
  bool is_done = false;

  int64_t num_frames = 0;  // that are there, or were
  int num_steps = 0;       // of the driver
  // Of the step under way: what became of it.
  absl::Status status;
  // Of a stream: the tokens reported as stable, and when the first was reported.
  std::vector<int32_t> stable;
  absl::Time first_token = absl::InfinitePast();

  // Of a source that arrives while it is searched. It is searched in segments, each by a search of
  // its own, which gets one frame at a time: so where a segment ends does not depend on how many
  // frames there are already.
  uint64_t serial = 0;         // for its driver
  bool is_complete = false;    // no more frames will come
  int64_t segment_begin = 0;   // frames before the segment
  int64_t num_announced = 0;   // frames of the segment that its search may read
  int64_t first_held = 0;      // the first frame of the segment that is kept
  int64_t most_frames = 0;     // of a segment
  bool was_cut = false;        // the segment ended for its length, perhaps amid a token
  int64_t priced_frames = 0;   // frames of the segment that price_bytes covers
  std::vector<Segment> ended;  // segments that were not reported yet

  // Where an encoder reads the source chunk by chunk; else null. Of a source that is there as a
  // whole the search begins when the last chunk was read.
  std::unique_ptr<ChunkedSource> chunks;
  bool wants_chunk() const;
  // Begins with a source that is there as a whole. False: it is not read in chunks.
  bool StartChunks();
  // What it reads of frames may begin.
  bool is_encoded() const { return chunks == nullptr || is_stream() || chunks->is_exhausted(); }
  // Frames that came of its next chunk, [1, frames, width].
  absl::Status TakeChunk(const ops::ExecutionContext& context, const ops::Tensor& frames);
  // Takes all frames of a source.
  virtual absl::Status TakeWhole(const ops::ExecutionContext& context,
                                 const ops::Tensor& whole) = 0;

  // Takes frames that have come, [1, frames, width].
  virtual absl::Status TakePiece(const ops::ExecutionContext& context,
                                 const ops::Tensor& piece) = 0;
  // Forgets `count` frames from first_held on.
  virtual void DropFrames(int64_t count) = 0;
  // Gives a waiting search its next event: a frame, or the segment's end. False: nothing
  // has come, or it needs room.
  bool Announce();
  // The next frame of the segment has come, and price_bytes does not cover it.
  bool needs_room() const {
    return segment_begin + num_announced < num_frames && num_announced >= priced_frames;
  }
  // Reserves the bytes that the search of more frames takes: ResourceExhausted without them.
  absl::Status MakeRoom();
  // Gives back what a long segment took.
  void GiveBackRoom();
  // `found`: the answer as its search has it.
  void TakeResults();
  // Keeps the answer of the segment as its search has it.
  void KeepSegment();
  // Once its search is done and it is kept: forgets its frames. The caller starts the next one,
  // unless the request is_done.
  void LeaveSegment();
  // Forgets the frames that the search has read, now and then.
  void DropRead();

  // As the plan asks; called once.
  void SetUpScorers();
  // Null: no scorers. Of a slot of the search.
  const search::FusedRow* label_row(int32_t slot) const {
    return row_scorers.empty() ? nullptr : &label_rows[static_cast<size_t>(slot)];
  }

  // Begins the search that `plan` is of. Behind a segment that was cut it goes on where that one's
  // answer ends, so that a token across the cut is said once.
  virtual void StartSearch() = 0;
  // Null: targets are given.
  virtual search::FrameSearch* frame_search() = 0;
  // Sets up the forward algorithm over `targets`, from the first frame on; is_scoring is set.
  virtual absl::Status StartScoring() = 0;
  // It has read all frames.
  virtual bool is_scored() const = 0;
  // Of each target.
  virtual std::vector<search::FrameScore> Scores() const = 0;

  // After a step: into the next phase, or done.
  absl::Status EnterPhase();

  // For RequestDriver.
  bool Cut(v1::FinishReason why);
  void ReportProgress();
  void Answer();
  int steps_made() const { return num_steps; }

  int CountSteps(const v1::Decoded& /*answer*/) const override { return num_steps; }
};

// Of what its search found.
std::vector<v1::Hypothesis> MakeHypotheses(const FrameRequest& request);

// Of a source of which the encoder made no frame: InvalidArgument.
absl::Status NoFrames(const PreparedSource& source);

// What a request of a search by frames takes: bytes that it holds, steps that it makes.

// An encoder makes a frame of a source position at most, or nearly so.
int64_t PriceFrames(const FrameRequest& request);
// Frames of a segment that a stream's price grows by, or more.
inline constexpr int64_t kFewestPricedFrames = 32;
// Of a source that arrives while it is searched, when its segment has `frames` frames: labels, and
// what hypotheses stand on. Before the first frame: what a request holds that waits for it.
int64_t PriceStream(const FrameRequest& request, int64_t frames);
// Most of them, or of CTC how many it makes.
int CountFrameSteps(const FrameRequest& request);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_FRAME_REQUEST_H_
