#include "server/engine/queue/encode_queue.h"

#include <algorithm>
#include <iterator>

namespace beamwright::engine {
namespace {

// Most sources encoded in one run, so that the activations stay bounded.
constexpr size_t kMaxGroup = 64;

bool SameShape(const Request& a, const Request& b) {
  return a.source.encoder_input->shape() == b.source.encoder_input->shape() &&
         std::equal(a.source.further_inputs.begin(), a.source.further_inputs.end(),
                    b.source.further_inputs.begin(), b.source.further_inputs.end(),
                    [](const ops::Tensor& one, const ops::Tensor& other) {
                      return one.shape() == other.shape();
                    });
}

}  // namespace

int64_t EncodePositions(const Request& request) {
  return std::max<int64_t>(request.source.source_length, 1);
}

void EncodeQueue::Add(Requests requests) {
  std::move(requests.begin(), requests.end(), std::back_inserter(waiting_));
}

void EncodeQueue::DropDead(absl::Time now) {
  const auto is_dead = [now](const std::unique_ptr<Request>& request) {
    const absl::Status status = request->CheckAlive(now);
    if (!status.ok()) {
      request->Fail(status);
    }
    return !status.ok();
  };
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), is_dead), waiting_.end());
}

void EncodeQueue::FailAll(const absl::Status& why) {
  for (const auto& request : waiting_) {
    request->Fail(why);
  }
  waiting_.clear();
}

void EncodeQueue::MoveOthers(const DecodeModel& model, EncodeQueue& rest) {
  const auto others = std::stable_partition(
      waiting_.begin(), waiting_.end(),
      [&model](const std::unique_ptr<Request>& request) { return request->model.get() == &model; });
  std::move(others, waiting_.end(), std::back_inserter(rest.waiting_));
  waiting_.erase(others, waiting_.end());
}

EncodeQueue::Requests EncodeQueue::TakeFront(int rows, int64_t bytes, bool at_least_one) {
  Requests taken;
  while (!waiting_.empty()) {
    const Request& first = *waiting_.front();
    rows -= first.beam_size;
    bytes -= first.price_bytes;
    if ((rows < 0 || bytes < 0) && !(at_least_one && taken.empty())) {
      break;
    }
    taken.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return taken;
}

EncodeQueue::Requests EncodeQueue::TakeGroup(int64_t positions) {
  Requests group;
  if (waiting_.empty()) {
    return group;
  }
  group.push_back(std::move(waiting_.front()));
  const Request& first = *group[0];
  const int64_t each = EncodePositions(first);
  const auto fits = static_cast<size_t>(std::max<int64_t>(positions / each, 1));
  const size_t most =
      first.model->reads_whole_source() && first.model->encodes_together() && !first.encodes_alone
          ? std::min(kMaxGroup, fits)
          : 1;
  for (auto at = waiting_.begin() + 1; at != waiting_.end() && group.size() < most; ++at) {
    if ((*at)->model == first.model && !(*at)->encodes_alone && SameShape(**at, first)) {
      group.push_back(std::move(*at));
    }
  }
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), nullptr), waiting_.end());
  return group;
}

}  // namespace beamwright::engine
