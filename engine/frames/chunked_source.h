// ChunkedSource: a source on its way through an encoder that reads it chunk by chunk: the features
// that no chunk has read yet, and the states that the last one left. What a chunk holds does not
// depend on the pieces in which features came. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_CHUNKED_SOURCE_H_
#define BEAMWRIGHT_ENGINE_FRAMES_CHUNKED_SOURCE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/model/compile_streaming.h"

namespace beamwright::engine {

class ChunkedSource {
 public:
  // `streaming`, of the model, must outlive it.
  explicit ChunkedSource(const StreamingPart& streaming)
      : streaming_(streaming), states_(StartStates(streaming)) {}

  // The next features, [1, frames, width]; not after Finish.
  void Add(ops::Tensor piece);
  void Finish() { is_complete_ = true; }

  // The next chunk can be read: all of it is there, or what is not lies behind the end.
  bool has_chunk() const;
  // Nothing is left to read.
  bool is_exhausted() const;
  bool is_empty() const { return num_features_ == 0; }  // so far
  // Of the pieces that are not read to their end; 0 while the next chunk is not all there.
  int64_t num_unread_bytes() const { return has_chunk() ? num_bytes_ : 0; }

  // The next chunk, as the graph reads it: chunk * width values.
  void CopyChunk(float* to) const;
  // It was read, and left these states.
  void Advance(StreamStates states);
  const StreamStates& states() const { return states_; }
  // Until Advance gives it new ones, which may be written over these, it has none.
  StreamStates TakeStates() { return std::move(states_); }

  // What came of chunks, of a source that is searched when the last one was read: kept, then taken
  // as one, [1, frames, width].
  void Keep(ops::Tensor frames) { kept_.push_back(std::move(frames)); }
  ops::Tensor TakeKept();

 private:
  int64_t next() const { return num_chunks_ * streaming_.shift; }  // the next chunk's first feature

  const StreamingPart& streaming_;
  StreamStates states_;
  std::deque<ops::Tensor> pieces_;
  int64_t num_read_ = 0;      // features of the first piece that no chunk needs any more
  int64_t num_bytes_ = 0;     // of the pieces
  int64_t num_features_ = 0;  // that came
  int64_t num_chunks_ = 0;    // that were read
  bool is_complete_ = false;
  std::vector<ops::Tensor> kept_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_CHUNKED_SOURCE_H_
