// A request's way through the queue: Push estimates its cost and refuses it at once if there is no
// room or no time; Pop takes the next one that fits; Ended gives back what it held. Where each
// choice is made:
//   1. who is next: FairQueue
//   2. whether it fits: RoomAt, from budgets, what runs, and how many clients there are
//   3. what it costs, and when it would be answered: Estimator
#include "engine/queue/request_queue.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/request/request.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

// The weight of a new observation.
constexpr double kNew = 0.05;
// Of the turns; some hundred of them are "of late".
constexpr double kKeep = 0.99;
// Fewer observations are too few, and old ones are of another load.
constexpr int64_t kFewest = 20;
constexpr absl::Duration kStale = absl::Seconds(5);
constexpr double kShortest = 1e-4;  // seconds of turns

// The end token is a token too; it also keeps zero away.
double Length(int source_length) { return std::max(source_length, 0) + 1.0; }

}  // namespace

void Estimator::Turn(int rows, absl::Duration took) {
  row_steps_ = kKeep * row_steps_ + rows;
  seconds_ = kKeep * seconds_ + std::max(absl::ToDoubleSeconds(took), 0.0);
}

void Estimator::Finished(absl::string_view model, int source_length, int steps, absl::Duration took,
                         absl::Time now) {
  Model& entry = models_[std::string(model)];
  const double weight = std::max(kNew, 1.0 / static_cast<double>(entry.finished + 1));
  // What is no such number would be in the mean for ever.
  const auto mix = [&](double& mean, double value) {
    if (std::isfinite(value) && value >= 0) {
      mean += weight * (value - mean);
    }
  };
  mix(entry.steps_per_token, steps / Length(source_length));
  mix(entry.seconds_per_token, absl::ToDoubleSeconds(took) / Length(source_length));
  ++entry.finished;
  entry.last = now;
}

Estimator::Forecast Estimator::Of(absl::string_view model, int source_length, int max_steps,
                                  absl::Time now) const {
  Forecast forecast;
  const auto found = models_.find(model);
  if (found == models_.end()) {
    forecast.steps = std::max(max_steps, 1);
    return forecast;
  }
  const Model& entry = found->second;
  forecast.steps = std::clamp(entry.steps_per_token * Length(source_length), 1.0,
                              static_cast<double>(std::max(max_steps, 1)));
  forecast.took = absl::Seconds(entry.seconds_per_token * Length(source_length));
  forecast.sure = entry.finished >= kFewest && now - entry.last < kStale;
  return forecast;
}

double Estimator::row_steps_per_second() const {
  return seconds_ < kShortest ? 0 : row_steps_ / seconds_;
}

namespace {

// Bounds of the retry delay that refused clients get.
constexpr absl::Duration kSoonest = absl::Milliseconds(20);
constexpr absl::Duration kLatest = absl::Seconds(10);

// This part of rows and bytes is kept for calls of which no source runs.
constexpr int kShareOfNewcomers = 8;

// Rows that each client with more than one source has running at most, for each thread, while
// there are clients with one: a step is as fast a row with more of them, but all wait for it.
constexpr int kRowsBesideOthers = 16;
// And rows that take long steps, of all such clients together. A source with more rows than
// kRowsBesideOthers, of a model whose weights stay in the cache, has them, and any with more than
// kWideRowsBesideOthers; of a source with a pattern each row counts as kRowsOfAPattern.
constexpr int kWideRowsBesideOthers = 64;
constexpr int kRowsOfAPattern = 8;
// For how long after one was last answered: it may call again.
constexpr absl::Duration kOthersStay = absl::Seconds(1);

// Against the mean row that runs, a source of this part of its cost is light. Where this many
// requests run, others leave a quarter of the newcomers' rows to light ones, if that is enough for
// a usual beam.
constexpr double kLight = 1.0 / 8;
constexpr int kManyRequests = 8;
constexpr int kUsualBeam = 4;
// Against the cheapest clients with one source, a source of this multiple of their cost is heavy,
// unless it is light: all heavy ones together have the rows of one client.
constexpr double kHeavy = 16;

// While sources arrive, this part of the bytes is left for them to grow into.
constexpr int64_t kShareToGrowInto = 16;

// What a request holds before it runs: its source, and about as much for itself.
int64_t WaitingBytes(const PreparedSource& source) {
  constexpr int64_t kOwnBytes = 4096;
  int64_t bytes = kOwnBytes;
  if (source.encoder_input.has_value()) {
    bytes += source.encoder_input->num_bytes();
  }
  for (const auto* inputs : {&source.further_inputs, &source.decoder_inputs}) {
    for (const ops::Tensor& input : *inputs) {
      bytes += input.num_bytes();
    }
  }
  return bytes;
}

}  // namespace

RequestQueue::RequestQueue(const EngineOptions& options)
    : options_(options),
      queue_({options.max_queue, options.max_queue_rows, options.max_queue_bytes}) {}

Estimator::Forecast RequestQueue::Estimate(const Request& request, absl::Time now,
                                           Queued& queued) const {
  queued.tenant = request.call.tenant;
  queued.priority = request.call.priority;
  queued.call = request.call.call;
  queued.num_sources = request.call.num_sources;
  queued.client = request.call.client;
  queued.rows = request.beam_size;
  queued.is_stream = request.is_stream();
  queued.wide_rows = WideRows(request);
  queued.running_bytes = request.price_bytes;
  queued.waiting_bytes = WaitingBytes(request.source);
  queued.accepted = request.accepted;
  queued.deadline = request.call.deadline;
  queued.cancelled = request.call.cancelled;
  if (request.is_stream()) {
    // It takes as long as its sender does, and less of a step than others.
    queued.cost = 1.0;
    return {};
  }
  Estimator::Forecast forecast =
      estimator_.Of(request.model->name(), request.source.source_length, request.max_steps, now);
  if (request.knows_steps) {
    forecast.steps = request.max_steps;
  }
  if (request.cut_at != absl::InfiniteFuture()) {
    forecast.took = absl::ZeroDuration();  // it answers with what it has by then
  }
  queued.cost = std::max(1.0, forecast.steps * queued.rows);
  return forecast;
}

int RequestQueue::WideRows(const Request& request) const {
  const int threads = options_.num_threads;
  const int narrow = (IsLarge(request) ? kWideRowsBesideOthers : kRowsBesideOthers) * threads;
  return request.has_long_steps                               ? kRowsOfAPattern * request.beam_size
         : request.is_stream() || request.beam_size <= narrow ? 0
                                                              : request.beam_size;
}

absl::Status RequestQueue::Push(std::unique_ptr<Request>& request, const Moment& moment) {
  auto queued = std::make_unique<Queued>();
  const Estimator::Forecast forecast = Estimate(*request, moment.now, *queued);
  BW_RETURN_IF_ERROR(CheckDeadline(*queued, forecast, moment));
  const bool is_large = IsLarge(*request);
  queued->request = std::move(request);
  std::unique_ptr<Ticket> ticket = std::move(queued);
  absl::Status status = queue_.Push(ticket, moment.now);
  if (status.ok()) {
    num_large_ += is_large ? 1 : 0;
    return status;
  }
  request = std::move(static_cast<Queued&>(*ticket).request);
  return status::ReasonOf(status) == status::reason::kQueueFull
             ? status::WithRetryAfter(std::move(status), UntilRoom(moment))
             : status;
}

// ResourceExhausted if the deadline will have passed before the answer is there. While there is
// no other work no call is refused: only then can a wrong estimate come right again. A
// deadline that has passed already gets its own message.
absl::Status RequestQueue::CheckDeadline(const Queued& queued, const Estimator::Forecast& forecast,
                                         const Moment& moment) const {
  const absl::Time now = moment.now;
  double rate = RowStepsPerSecond(moment);
  if (!options_.forecast_deadlines || !forecast.sure || rate <= 0 ||
      queued.deadline == absl::InfiniteFuture() || (queue_.size() == 0 && running_cost_ == 0)) {
    return absl::OkStatus();
  }
  const double ahead = queue_.CostAhead(queued);
  // A ticket costs 1 at least: less is what is left of sums.
  bool waits = ahead >= 1 || moment.running.rows + queued.rows > options_.max_rows;
  double running = running_cost_ / 2;
  FairQueue::Room room;
  DivideByCost(moment.now, room);
  if (const double took = absl::ToDoubleSeconds(forecast.took);
      queued.cost > room.heavy_cost && took > 0) {
    // Few of them run at a time, so that all that is ahead may go no faster than they do.
    const int most = kRowsBesideOthers * options_.num_threads;
    rate = std::min(rate, queued.cost * std::max(1, most / queued.rows) / took);
    waits = waits || queued.rows > room.rows_of_heavy;
    running = running_cost_;
  }
  const absl::Duration wait =
      waits ? absl::Seconds((ahead + running) / rate) : absl::ZeroDuration();
  if (now + wait + forecast.took <= queued.deadline) {
    return absl::OkStatus();
  }
  if (queued.deadline <= now) {
    return status::WithReason(
        absl::DeadlineExceededError("the request's deadline passed before it was queued"),
        status::reason::kWouldMissDeadline);
  }
  return status::WithRetryAfter(
      status::WithReason(
          absl::ResourceExhaustedError(absl::StrCat(
              "the answer is expected in ",
              absl::FormatDuration(absl::Trunc(wait + forecast.took, absl::Milliseconds(1))),
              ", after the request's deadline")),
          status::reason::kWouldMissDeadline),
      std::clamp(wait, kSoonest, kLatest));
}

absl::Duration RequestQueue::UntilRoom(const Moment& moment) const {
  const double rate = RowStepsPerSecond(moment);
  return rate <= 0 ? kSoonest
                   : std::clamp(absl::Seconds(queue_.cost() / 2 / rate), kSoonest, kLatest);
}

std::vector<std::unique_ptr<Request>> RequestQueue::TakeDead(absl::Time now) {
  std::vector<std::unique_ptr<Request>> dead;
  for (std::unique_ptr<Ticket>& ticket : queue_.TakeDead(now)) {
    dead.push_back(std::move(static_cast<Queued&>(*ticket).request));
    num_large_ -= IsLarge(*dead.back()) ? 1 : 0;
  }
  return dead;
}

void RequestQueue::DivideByCost(absl::Time now, FairQueue::Room& room) const {
  const int kept = room.rows_kept / 4;
  room.light_cost = running_rows_ == 0 ? 0 : kLight * cost_of_rows_ / running_rows_;
  room.rows_kept_for_light = num_running_ >= kManyRequests && kept >= kUsualBeam ? kept : 0;
  room.rows_of_light = room.rows_kept - light_rows_;
  if (now < least_until_) {
    room.heavy_cost = std::max(room.light_cost, kHeavy * least_cost_);
    // The first one may have any number.
    room.rows_of_heavy = heavy_rows_ == 0 ? std::numeric_limits<int>::max()
                                          : kRowsBesideOthers * options_.num_threads - heavy_rows_;
  }
}

FairQueue::Room RequestQueue::RoomAt(const Moment& moment) const {
  const int64_t left =
      options_.max_bytes -
      (arriving_.requests > 0 ? options_.max_bytes / kShareToGrowInto : int64_t{0});
  const int64_t of_streams = queue_.num_calls() > 0 ? MostNewStreamBytes(options_.max_bytes)
                                                    : MostStreamBytes(options_.max_bytes);
  FairQueue::Room room;
  room.rows = options_.max_rows - moment.running.rows;
  room.bytes = left - moment.running.bytes;
  room.rows_kept = options_.max_rows / kShareOfNewcomers;
  room.bytes_kept = options_.max_bytes / kShareOfNewcomers;
  room.stream_bytes = of_streams - arriving_.bytes;
  room.bytes_without_calls = left - arriving_.bytes;
  if (moment.now < others_until_) {
    room.rows_of_client = kRowsBesideOthers * options_.num_threads;
    room.rows_of_wide = kWideRowsBesideOthers * options_.num_threads;
  }
  DivideByCost(moment.now, room);
  return room;
}

RequestQueue::Popped RequestQueue::Pop(FairQueue::Room& room, absl::Time now) {
  const std::unique_ptr<Ticket> ticket = queue_.Pop(room);
  if (ticket == nullptr) {
    return {};
  }
  Queued& queued = static_cast<Queued&>(*ticket);
  const Reserved taken = queued.request->reserved();
  const bool is_stream = queued.is_stream;
  queued.request->is_of_crowd = queued.is_of_crowd;
  const Share share{queued.rows, queued.cost, !is_stream && queued.cost <= room.light_cost,
                    !is_stream && queued.cost > room.heavy_cost, queued.wide_rows};
  if (is_stream) {
    arriving_ += taken;
  } else {
    AddRunning(share, 1);
  }
  ++num_running_;
  running_cost_ += share.cost;
  room.rows -= taken.rows;
  room.bytes -= taken.bytes;
  room.stream_bytes -= is_stream ? taken.bytes : 0;
  room.bytes_without_calls -= is_stream ? taken.bytes : 0;
  DivideByCost(now, room);
  return {std::move(queued.request), share};
}

void RequestQueue::AddRunning(const Share& share, int sign) {
  running_rows_ += sign * share.rows;
  cost_of_rows_ += sign * share.rows * share.cost;
  light_rows_ += share.is_light ? sign * share.rows : 0;
  heavy_rows_ += share.is_heavy ? sign * share.rows : 0;
  cost_of_rows_ = running_rows_ == 0 ? 0 : cost_of_rows_;  // no rest of a sum of doubles
}

void RequestQueue::Ended(const Request& request, const Share& share, absl::Time now) {
  if (queue_.Ended(request.call.tenant, share.rows, request.call.call, request.call.client,
                   request.is_stream(), share.wide_rows, request.call.num_sources)) {
    others_until_ = now + kOthersStay;
    if (now >= least_until_ || share.cost < least_cost_) {
      least_cost_ = share.cost;
    }
    least_until_ = share.cost <= kHeavy * least_cost_ ? others_until_ : least_until_;
  }
  if (request.is_stream()) {
    arriving_ -= request.reserved();
  } else {
    AddRunning(share, -1);
  }
  num_large_ -= IsLarge(request) ? 1 : 0;
  // Sums of doubles do not come back to zero by themselves.
  running_cost_ = --num_running_ == 0 ? 0 : std::max(running_cost_ - share.cost, 0.0);
}

bool RequestQueue::Reserve(int64_t more, int64_t running_bytes) {
  if (more > 0 && (running_bytes + more > options_.max_bytes ||
                   arriving_.bytes + more > MostStreamBytes(options_.max_bytes))) {
    return false;
  }
  arriving_.bytes += more;
  return true;
}

void RequestQueue::LearnAnswer(const Request& request, int steps, absl::Duration took,
                               absl::Time now) {
  estimator_.Finished(request.model->name(), request.source.source_length, steps, took, now);
}

}  // namespace beamwright::engine
