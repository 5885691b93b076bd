// Decodes many sources through a client with several calls in flight (DecodeBulk), and gives the
// answers in the order of the sources.
//
// 1. StartBatch takes sources until a batch has enough of them, or enough bytes, and sends it. A
//    source that could not be read takes its place in the order, but is not sent.
// 2. AnswerOldest waits for the oldest batch and passes its answers to the sink. A call that failed
//    is an error of each of its sources; an error that every call would have (FailsEveryCall) ends
//    all.
//
// The destructor waits for the calls in flight, since their callbacks write into the batches.
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "include/beamwright/client.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

struct Batch {
  std::vector<BulkSource> sources;
  int num_sent = 0;  // sources that could be read
  absl::Notification done;
  absl::StatusOr<v1::DecodeResponse> response = v1::DecodeResponse();
};

v1::Result ErrorResult(const absl::Status& status) {
  v1::Result result;
  result.mutable_error()->set_code(static_cast<int>(status.code()));
  result.mutable_error()->set_message(std::string(status.message()));
  return result;
}

class Bulk {
 public:
  Bulk(Client& client, const BulkOptions& options, NextSource next, AnswerSink sink)
      : client_(client), options_(options), next_(next), sink_(sink) {}

  // The callbacks write into the batches.
  ~Bulk() {
    for (const auto& batch : batches_) {
      batch->done.WaitForNotification();
    }
  }

  absl::Status Run() {
    while (!at_end_ || !batches_.empty()) {
      if (!at_end_ && std::ssize(batches_) < options_.outstanding) {
        StartBatch();
        continue;
      }
      BW_RETURN_IF_ERROR(AnswerOldest());
    }
    return absl::OkStatus();
  }

 private:
  void StartBatch() {
    auto batch = std::make_unique<Batch>();
    v1::DecodeRequest request = options_.request;
    request.clear_sources();
    int64_t num_bytes = 0;
    while (std::ssize(batch->sources) < options_.batch && num_bytes < options_.batch_bytes) {
      BulkSource source;
      if (!next_(source)) {
        at_end_ = true;
        break;
      }
      if (source.status.ok()) {
        *request.add_sources() = source.source;
        num_bytes += static_cast<int64_t>(source.source.ByteSizeLong());
      }
      batch->sources.push_back(std::move(source));
    }
    batch->num_sent = request.sources_size();
    Batch* started = batches_.emplace_back(std::move(batch)).get();
    if (started->num_sent == 0) {
      started->done.Notify();
      return;
    }
    client_.DecodeAsync(std::move(request), absl::Now() + options_.timeout,
                        [started](absl::StatusOr<v1::DecodeResponse> response) {
                          started->response = std::move(response);
                          started->done.Notify();
                        });
  }

  absl::Status AnswerOldest() {
    Batch& batch = *batches_.front();
    batch.done.WaitForNotification();
    const bool ends_all = FailsEveryCall(batch.response.status());
    if (!ends_all) {
      batch.response = WithErrorsInResults(std::move(batch.response), batch.num_sent);
    }
    absl::Status status = batch.response.status();
    if (status.ok() && batch.response->results_size() != batch.num_sent) {
      status = absl::InternalError(absl::StrCat("the server gave ", batch.response->results_size(),
                                                " results for ", batch.num_sent, " sources"));
    }
    if (ends_all) {
      return status;
    }
    const v1::DecodeResponse no_response;
    int num_answered = 0;
    for (const BulkSource& source : batch.sources) {
      v1::Result result;
      if (!source.status.ok()) {
        result = ErrorResult(source.status);
      } else if (!status.ok()) {
        result = ErrorResult(status);
      } else {
        result = std::move(*batch.response->mutable_results(num_answered++));
      }
      sink_({index_++, source, result, status.ok() ? *batch.response : no_response});
    }
    batches_.pop_front();
    return absl::OkStatus();
  }

  Client& client_;
  const BulkOptions& options_;
  NextSource next_;
  AnswerSink sink_;
  std::deque<std::unique_ptr<Batch>> batches_;  // in the order of their sources
  int64_t index_ = 0;
  bool at_end_ = false;
};

}  // namespace

absl::Status DecodeBulk(Client& client, const BulkOptions& options, NextSource next,
                        AnswerSink sink) {
  if (options.batch < 1 || options.batch_bytes < 1 || options.outstanding < 1) {
    return Invalid("bulk options: batch is ", options.batch, ", batch_bytes ", options.batch_bytes,
                   ", outstanding ", options.outstanding, "; each must be at least 1");
  }
  return Bulk(client, options, next, sink).Run();
}

}  // namespace beamwright::client
