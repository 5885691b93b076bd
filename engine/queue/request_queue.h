// RequestQueue: which requests wait for the engine, what runs, and what may run next: the fair
// queue over requests, the forecast of each one's cost and time, and how rows and bytes are
// divided. It knows no thread and no clock: the caller says the time, and what the workers have in
// hand. Admission (admission.h) guards it and wakes the workers. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_QUEUE_REQUEST_QUEUE_H_
#define BEAMWRIGHT_ENGINE_QUEUE_REQUEST_QUEUE_H_

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/queue/fair_queue.h"
#include "engine/request/engine_options.h"
#include "engine/request/request.h"

namespace beamwright::engine {

// Estimator: how long work takes here, from the work that was done. It answers, before a request is
// admitted, what it will cost and when it could be done. Times are given; it knows no clock.

// Not thread-safe.
class Estimator {
 public:
  // All running requests, of `rows` rows together, have made a step.
  void Turn(int rows, absl::Duration took);
  // A source of `source_length` tokens was decoded: its longest hypothesis has `steps` tokens, and
  // it took so long from its first work on.
  void Finished(absl::string_view model, int source_length, int steps, absl::Duration took,
                absl::Time now);

  struct Forecast {
    // In [1, max_steps]; max_steps while nothing is known.
    double steps = 1;
    // From the first work to the answer, at the load of late.
    absl::Duration took;
    // Whether enough was decoded of late to refuse anybody on these grounds.
    bool sure = false;
  };
  Forecast Of(absl::string_view model, int source_length, int max_steps, absl::Time now) const;

  // Rows times steps that are done in a second of work; 0 while nothing is known.
  double row_steps_per_second() const;

 private:
  struct Model {
    int64_t finished = 0;
    double steps_per_token = 0;
    double seconds_per_token = 0;
    absl::Time last;
  };

  std::map<std::string, Model, std::less<>> models_;
  double row_steps_ = 0;  // of late
  double seconds_ = 0;
};

// Not thread-safe.
class RequestQueue {
 public:
  // When it is asked, and about which workers.
  struct Moment {
    absl::Time now;
    Reserved running;     // what the requests of all workers take
    int num_workers = 1;  // that take requests
  };
  // What a request that runs counts for.
  struct Share {
    int rows = 0;
    double cost = 0;
    bool is_light = false;  // FairQueue::Room
    bool is_heavy = false;
    int wide_rows = 0;  // FairQueue::Room
  };
  struct Popped {
    std::unique_ptr<Request> request;  // null: nothing that waits fits
    Share share;
  };

  // `options` must outlive it.
  explicit RequestQueue(const EngineOptions& options);

  // Moves from `request` unless it refuses: ResourceExhausted, with the reason, if there is no room
  // or the request's deadline would be missed.
  absl::Status Push(std::unique_ptr<Request>& request, const Moment& moment);
  // Takes cancelled and expired requests out of the queue. Looks at all that wait.
  std::vector<std::unique_ptr<Request>> TakeDead(absl::Time now);

  // Rows and bytes that all running requests leave free.
  FairQueue::Room RoomAt(const Moment& moment) const;
  // The next request that fits into `room`, which it leaves. From now on it runs.
  Popped Pop(FairQueue::Room& room, absl::Time now);
  // A request of Pop has its answer.
  void Ended(const Request& request, const Share& share, absl::Time now);
  // A request that runs and whose source arrives meanwhile needs `more` bytes, or gives bytes back
  // (negative). False: there is no room for more. running_bytes: of all workers.
  bool Reserve(int64_t more, int64_t running_bytes);

  // What forecasts are made from: a turn of a worker with `rows` rows, and an answer of `steps`
  // steps, `took` after the request's first work.
  void LearnTurn(int rows, absl::Duration took) { estimator_.Turn(rows, took); }
  void LearnAnswer(const Request& request, int steps, absl::Duration took, absl::Time now);

  // Of what waits.
  bool empty() const { return queue_.size() == 0; }
  int size() const { return queue_.size(); }
  bool is_full() const { return queue_.is_full(); }
  int64_t rows() const { return queue_.rows(); }
  auto sizes() const { return queue_.sizes(); }
  absl::Time oldest() const { return queue_.oldest(); }
  FairQueue::Aside aside() const { return queue_.aside(); }
  std::vector<TenantLoad> Tenants() const { return queue_.Tenants(); }
  // Of what waits or runs: some of it is of a model that no cache holds.
  bool has_large() const { return num_large_ > 0; }
  // Of what runs: requests whose sources arrive while they are searched.
  const Reserved& arriving() const { return arriving_; }

 private:
  struct Queued : Ticket {
    std::unique_ptr<Request> request;
  };

  bool IsLarge(const Request& request) const {
    return request.model->weight_bytes() > options_.cached_bytes;
  }
  // As a Ticket has them.
  int WideRows(const Request& request) const;
  // Fills in what the ticket needs, costs and may wait.
  Estimator::Forecast Estimate(const Request& request, absl::Time now, Queued& queued) const;
  absl::Status CheckDeadline(const Queued& queued, const Estimator::Forecast& forecast,
                             const Moment& moment) const;
  double RowStepsPerSecond(const Moment& moment) const {
    return estimator_.row_steps_per_second() * moment.num_workers;
  }
  // When half of what waits will be done.
  absl::Duration UntilRoom(const Moment& moment) const;
  // What is light and heavy, and the rows of each.
  void DivideByCost(absl::Time now, FairQueue::Room& room) const;
  // Adds a share (sign 1) to what runs, or takes it out (-1).
  void AddRunning(const Share& share, int sign);

  const EngineOptions& options_;
  FairQueue queue_;
  Estimator estimator_;
  int num_running_ = 0;  // taken and not answered
  double running_cost_ = 0;
  Reserved arriving_;
  int num_large_ = 0;
  // Until then clients with one source count as present.
  absl::Time others_until_ = absl::InfinitePast();
  // The least cost of such a source, and until when those that cost about as much are present.
  double least_cost_ = 0;
  absl::Time least_until_ = absl::InfinitePast();
  // Of what runs, without streams: rows, their cost in sum, and rows of light and heavy tickets.
  int running_rows_ = 0;
  double cost_of_rows_ = 0;
  int light_rows_ = 0;
  int heavy_rows_ = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_QUEUE_REQUEST_QUEUE_H_
