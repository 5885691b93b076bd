// One request that is searched by frames (CTC, transducer, tagger): a whole source, or a stream
// that is cut into segments.
//
// 1. A source in chunks: wants_chunk says when the encoder may read the next one, TakeChunk takes
//    its frames. A whole source waits for all of them (TakeWhole).
// 2. A stream: Announce gives the search one frame after another and ends a segment by an endpoint
//    rule (a pause of some length), at most_frames, or at the end of the stream. KeepSegment keeps
//    the segment's answer, LeaveSegment begins the next one.
// 3. Memory: a stream's segment may grow, so that its price is paid in steps (MakeRoom), and given
//    back after a long segment (GiveBackRoom); DropRead frees frames that the search has read.
// 4. EnterPhase: when the search is done, hypotheses may be scored over all alignments
//    (wants_full_sum), as a second phase.
// 5. ReportProgress: segments that have ended, labels that cannot change any more, and provisional
//    hypotheses. Cut ends the request early with what it has.
#include "engine/frames/frame_request.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/frames/frame_price.h"
#include "engine/model/parts.h"
#include "engine/request/answer_facts.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

void FrameRequest::SetUpScorers() {
  for (const search::ScorerWeight& wanted : plan->options().scorers) {
    row_scorers.push_back({model->parts().FindScorer(wanted.name)->decoder, {}});
  }
}

bool FrameRequest::wants_chunk() const {
  if (chunks == nullptr || is_answered || !chunks->has_chunk()) {
    return false;
  }
  // Frames of more than a chunk would only be held, of a stream that waits for room.
  const int64_t unread = num_frames - segment_begin - num_announced;
  return !is_stream() || unread <= model->parts().frames->chunk_frames;
}

bool FrameRequest::StartChunks() {
  if (chunks == nullptr) {
    return false;
  }
  chunks->Add(*source.encoder_input);
  chunks->Finish();
  source.encoder_input.reset();
  return true;
}

absl::Status FrameRequest::TakeChunk(const ops::ExecutionContext& context,
                                     const ops::Tensor& frames) {
  if (is_stream()) {
    is_complete = chunks->is_exhausted();
    return TakePiece(context, frames);
  }
  chunks->Keep(frames);
  return chunks->is_exhausted() ? TakeWhole(context, chunks->TakeKept()) : absl::OkStatus();
}

bool FrameRequest::Announce() {
  if (!is_stream()) {
    return false;
  }
  search::FrameSearch& search = *frame_search();
  const int rule = num_announced > 0 ? search::MetRule(call.endpoint, search.num_labels(),
                                                       search.trailing_blanks(), num_announced)
                                     : -1;
  if (rule >= 0 || num_announced >= most_frames) {
    was_cut = rule < 0 || call.endpoint[static_cast<size_t>(rule)].min_trailing_blanks == 0;
    search.Finish();
    return true;
  }
  if (needs_room()) {
    return false;
  }
  if (segment_begin + num_announced < num_frames) {
    search.AddFrames(1);
    ++num_announced;
    return true;
  }
  if (is_complete) {
    search.Finish();
  }
  return is_complete;
}

absl::Status FrameRequest::MakeRoom() {
  const int64_t frames =
      std::min(most_frames, std::max(priced_frames + kFewestPricedFrames, priced_frames * 3 / 2));
  const int64_t price = PriceStream(*this, frames);
  if (reserve != nullptr && !reserve(price - price_bytes)) {
    return status::WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "there is no memory for more than ", num_announced, " frames of the stream's segment (",
            price, " bytes): max-state-bytes is used up")),
        status::reason::kOutOfMemory);
  }
  priced_frames = frames;
  price_bytes = price;
  return absl::OkStatus();
}

void FrameRequest::GiveBackRoom() {
  if (priced_frames <= kFewestPricedFrames) {
    return;
  }
  priced_frames = std::min(most_frames, kFewestPricedFrames);
  const int64_t price = PriceStream(*this, priced_frames);
  if (reserve != nullptr) {
    reserve(price - price_bytes);
  }
  price_bytes = price;
}

void FrameRequest::TakeResults() {
  found = DistinctTexts(
      *this, frame_search()->Results(),
      [this](const search::FrameHypothesis& one) { return model->target().Decode(one.labels); });
}

void FrameRequest::KeepSegment() {
  if (num_announced == 0) {
    return;
  }
  TakeResults();
  Segment& segment = ended.emplace_back();
  segment.first_frame = segment_begin;
  segment.num_frames = num_announced;
  segment.hypotheses = MakeHypotheses(*this);
}

void FrameRequest::LeaveSegment() {
  DropFrames(num_announced - first_held);
  segment_begin += num_announced;
  num_announced = 0;
  first_held = 0;
  stable.clear();
  is_done = is_complete && segment_begin == num_frames;
}

void FrameRequest::DropRead() {
  constexpr int64_t kAtOnce = 64;
  const int64_t count = std::min(frame_search()->frame(), num_announced) - first_held;
  if (count >= kAtOnce) {
    DropFrames(count);
    first_held += count;
  }
}

absl::Status FrameRequest::EnterPhase() {
  if (is_scoring) {
    is_done = is_scored();
    return absl::OkStatus();
  }
  if (is_stream() || !frame_search()->done()) {
    return absl::OkStatus();
  }
  TakeResults();
  if (!wants_full_sum || found.empty()) {
    is_done = true;
    return absl::OkStatus();
  }
  for (const search::FrameHypothesis& hypothesis : found) {
    targets.push_back(hypothesis.labels);
  }
  is_scoring = true;
  return StartScoring();
}

bool FrameRequest::Cut(v1::FinishReason why) {
  if (frame_search() == nullptr || is_answered || is_done || !is_encoded()) {
    return false;
  }
  if (!is_scoring) {
    TakeResults();
    reason = why;
  }
  if (is_stream()) {
    KeepSegment();
  }
  is_done = true;
  return true;
}

void FrameRequest::ReportProgress() {
  if (call.progress == nullptr || frame_search() == nullptr) {
    return;
  }
  Progress progress;
  progress.segments.swap(ended);
  const size_t known = stable.size();
  // A stream that is over has all labels in its segments, while its search is still that of the
  // last one.
  if (!is_stream() || !is_done) {
    frame_search()->AddStableLabels(stable);
  }
  if (stable.size() > known) {
    search::StableTokens::Piece& piece = progress.stable.emplace_back();
    piece.position = static_cast<int>(known);
    piece.tokens.assign(stable.begin() + static_cast<std::ptrdiff_t>(known), stable.end());
    if (first_token == absl::InfinitePast()) {
      first_token = SteadyNow();
    }
  }
  if (call.num_provisional > 0 && !is_done && !is_scoring) {
    std::vector<search::FrameHypothesis> alive = frame_search()->Results();
    // While nothing leads, as in silence, there is nothing to report.
    const size_t count = alive.empty() || alive[0].labels.empty() ? 0 : alive.size();
    alive.resize(std::min(count, static_cast<size_t>(call.num_provisional)));
    for (search::FrameHypothesis& hypothesis : alive) {
      Provisional& reported = progress.provisional.emplace_back();
      reported.tokens = std::move(hypothesis.labels);
      reported.score = hypothesis.score;
      reported.frames.reserve(hypothesis.times.size());
      for (const search::LabelTime& time : hypothesis.times) {
        reported.frames.push_back(static_cast<int32_t>(time.first_frame));
      }
    }
  }
  if (!progress.segments.empty() || !progress.stable.empty() || !progress.provisional.empty()) {
    call.progress(std::move(progress));
  }
}

absl::Status NoFrames(const PreparedSource& source) {
  return status::InvalidField("source", "is too short: the encoder makes no frame of ",
                              source.source_length, " positions");
}

}  // namespace beamwright::engine
