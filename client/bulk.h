// Decoding of long inputs: sources go out in batches, several calls at a time, and answers come
// back in the order of the sources. Memory holds the outstanding batches only, whatever the length
// of the input.
#ifndef BEAMWRIGHT_CLIENT_BULK_H_
#define BEAMWRIGHT_CLIENT_BULK_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "client/client.h"

namespace beamwright::client {

struct BulkOptions {
  // Model, version and options of every call; its sources are ignored.
  v1::DecodeRequest request;
  // Sources a call, at least 1.
  int batch = 32;
  // A call is sent earlier if its sources reach this many bytes.
  int64_t batch_bytes = 1 << 20;
  // Calls in flight, at least 1. With batch 1 and outstanding 1 each source is answered before the
  // next is asked for (a person at a terminal).
  int outstanding = 4;
  // For each call, from when it is sent.
  absl::Duration timeout = absl::Seconds(30);
};

struct BulkSource {
  v1::Source source;
  // What people call a source that is not text, such as its file; may be empty.
  std::string name;
  // Not OK: the source could not be read. It is not sent and takes its place among the answers with
  // this error.
  absl::Status status;
};

struct BulkAnswer {
  // Counts sources from 0.
  int64_t index = 0;
  const BulkSource& source;
  // Decoded, or an error: of the source, or of a call that failed otherwise.
  const v1::Result& result;
  // Model, version and numerics class of the call; its results are moved from. Empty after an error
  // of the call.
  const v1::DecodeResponse& response;
};

// Puts the next source into its argument; false: no further source.
using NextSource = absl::FunctionRef<bool(BulkSource&)>;
// Gets every answer once, in the order of the sources.
using AnswerSink = absl::FunctionRef<void(const BulkAnswer&)>;

// Both functions are called on this thread. A call that fails because of its sources gives each of
// them its error and the work goes on; one that fails in a way that others would fail as well (see
// FailsEveryCall) ends it: the error is returned, calls in flight are waited for, and sources from
// the failed call on get no answer.
absl::Status DecodeBulk(Client& client, const BulkOptions& options, NextSource next,
                        AnswerSink sink);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_BULK_H_
