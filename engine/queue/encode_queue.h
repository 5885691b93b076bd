// EncodeQueue: requests that were admitted and wait for their encoder. What is encoded between two
// steps is bounded, so that those that run already do not wait for the crowd that has just come;
// and the source that waits longest is encoded together with others whose sources are as long, or,
// where it is proven of the encoder that their lengths don't matter to each other, nearly as long.
#ifndef BEAMWRIGHT_ENGINE_QUEUE_ENCODE_QUEUE_H_
#define BEAMWRIGHT_ENGINE_QUEUE_ENCODE_QUEUE_H_

#include <deque>
#include <memory>
#include <vector>

#include "engine/request/request.h"

namespace beamwright::engine {

// What a request is to its encoder: source positions, at least one.
int64_t EncodePositions(const Request& request);

// One thread at a time.
class EncodeQueue {
 public:
  using Requests = std::vector<std::unique_ptr<Request>>;

  void Add(Requests requests);

  // Answers cancelled and expired requests.
  void DropDead(absl::Time now);
  // Answers all of them with an error.
  void FailAll(const absl::Status& why);
  // Moves those of other models than `model` to the end of `rest`.
  void MoveOthers(const DecodeModel& model, EncodeQueue& rest);
  // Takes those in front, as many as fit these rows and bytes together; if `at_least_one`, one
  // in any case.
  Requests TakeFront(int rows, int64_t bytes, bool at_least_one);

  // The first request and those behind it that can be encoded with it: of its model and of exactly
  // its shape, at most `positions` source positions together, but one request in any case. Where
  // lengths may differ, the longest come first, and what they are filled up with counts like
  // positions, of which it is a small part. Empty if none wait.
  Requests TakeGroup(int64_t positions);

  bool empty() const { return waiting_.empty(); }
  // Positions of the request whose turn it is; there must be one.
  int64_t next_positions() const { return EncodePositions(*waiting_.front()); }
  const DecodeModel* next_model() const { return waiting_.front()->model.get(); }
  Reserved reserved() const { return ReservedFor(waiting_); }

 private:
  std::vector<size_t> OfOneShape(size_t most) const;
  std::vector<size_t> OfNearLength(size_t most, int64_t positions) const;

  std::deque<std::unique_ptr<Request>> waiting_;  // in the order of admission
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_QUEUE_ENCODE_QUEUE_H_
