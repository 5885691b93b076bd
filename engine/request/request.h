// A request inside the engine: what was asked, what it takes, and how it is answered. How it is
// searched for is known to its kind alone (search_kind.h). Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_REQUEST_H_
#define BEAMWRIGHT_ENGINE_REQUEST_REQUEST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "engine/request/call.h"
#include "engine/request/prepared_source.h"
#include "engine/status/fault.h"

namespace beamwright::engine {

// Reserved: what requests hold of what an engine has, as the admission counts it.

struct Reserved {
  int requests = 0;
  int rows = 0;
  int64_t bytes = 0;

  Reserved& operator+=(const Reserved& other) {
    requests += other.requests;
    rows += other.rows;
    bytes += other.bytes;
    return *this;
  }
  Reserved& operator-=(const Reserved& other) {
    requests -= other.requests;
    rows -= other.rows;
    bytes -= other.bytes;
    return *this;
  }
};

// Of all of them; `requests` holds pointers.
template <typename Requests>
Reserved ReservedFor(const Requests& requests) {
  Reserved sum;
  for (const auto& request : requests) {
    sum += request->reserved();
  }
  return sum;
}

// What sources that arrive while they are searched may hold of an engine's bytes. They hold them
// for as long as their callers send, so calls must not depend on their end.

// Of EngineOptions::max_bytes: most that streams may hold together; the rest is for calls.
inline int64_t MostStreamBytes(int64_t max_bytes) { return max_bytes / 4 * 3; }
// New streams begin only up to this while calls wait.
inline int64_t MostNewStreamBytes(int64_t max_bytes) { return max_bytes / 2; }

// What encoders computed of sources that were encoded together.
struct EncodedSources {
  int64_t num_sources = 0;
  // By member of an ensemble; empty for one that shares the model's own encoder, the first.
  std::vector<std::vector<ops::Tensor>> outputs;

  const std::vector<ops::Tensor>& of_member(int member) const {
    const std::vector<ops::Tensor>& own = outputs[static_cast<size_t>(member)];
    return own.empty() ? outputs[0] : own;
  }
};

struct Request {
  Request() = default;
  // One that goes without its answer was lost on the way to it, because memory ran out there, and
  // gets that error.
  virtual ~Request() {
    if (!is_answered) {
      Fail(status::OutOfMemory());
    }
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  std::shared_ptr<const DecodeModel> model;
  PreparedSource source;
  int beam_size = 0;  // most rows
  // Most steps, or how many it makes for certain.
  int max_steps = 0;
  bool knows_steps = false;
  // A step may take long, however few rows it has.
  bool has_long_steps = false;
  int64_t price_bytes = 0;
  // Of a stream that runs: reserves more bytes, or gives bytes back (negative). False: there is no
  // room for them. On the engine's thread; null: there is always room.
  std::function<bool(int64_t)> reserve;
  CallOptions call;
  // > 0: of hypotheses with one text the answer has the best, and at most this number in all.
  int most_texts = 0;
  bool wants_words = false;
  bool may_be_cut = false;  // the search may answer with what it has
  // When it is to; in the infinite future: never.
  absl::Time cut_at = absl::InfiniteFuture();
  std::variant<DecodeCallback, ScoreCallback> done;
  bool is_answered = false;
  int64_t row_steps = 0;  // SourceFacts
  // Of the step under way, or to be repeated: whether it takes part.
  bool takes_part = false;
  // Its encoder run was given up because of others in it.
  bool encodes_alone = false;
  absl::Time accepted;
  absl::Time started;

  // Its source arrives while it is searched.
  bool is_stream() const { return call.feed != nullptr; }
  // A stream holds no rows of the engine: most of the time it has none to step, and a step takes
  // some streams' rows and leaves the others' for the next (frame_driver.h).
  Reserved reserved() const { return {1, is_stream() ? 0 : beam_size, price_bytes}; }

  // When it is made: what the caller says.
  void Accept(const CallOptions& caller);
  // The search may be cut, and is to be in time for the answer to get there before the deadline.
  void MayBeCut();

  // Takes what it needs of its source, number `row` of those that were encoded: what its first step
  // starts from.
  virtual absl::Status Start(const ops::ExecutionContext& context, const EncodedSources& encoded,
                             int64_t row) = 0;
  // The same where the model has no encoder.
  virtual absl::Status StartAlone(const ops::ExecutionContext& context) = 0;
  // How many steps led to the answer: what forecasts for others are made from.
  virtual int CountSteps(const v1::Decoded& answer) const;

  // OK, or why the request must end now.
  absl::Status CheckAlive(absl::Time now) const;
  // Answers it, unless it has its answer.
  void Fail(const absl::Status& status) {
    if (is_answered) {
      return;
    }
    is_answered = true;
    std::visit(
        [&](const auto& callback) {
          if (callback != nullptr) {
            callback(status);
          }
        },
        done);
  }
  // Answers it; it must not have an answer.
  template <typename Answer>
  void Give(Answer answer) {
    is_answered = true;
    std::get<std::function<void(absl::StatusOr<Answer>)>>(done)(std::move(answer));
  }
};

// ResourceExhausted: a request asks for `asked` of something, "rows", of which there is `budget`.
absl::Status TooLarge(const char* unit, int64_t asked, int64_t budget, const std::string& lower);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_REQUEST_H_
