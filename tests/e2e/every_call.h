// One question put by every call that decodes, over every protocol.
#ifndef BEAMWRIGHT_TESTS_E2E_EVERY_CALL_H_
#define BEAMWRIGHT_TESTS_E2E_EVERY_CALL_H_

#include <grpcpp/client_context.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/e2e/server_process.h"

namespace beamwright::e2e {

struct Question {
  std::string model = "g2p-en";
  std::string version;
  int num_sources = 1;  // calls with one source put a single one, or none
  std::string text = "cat";
  int beam_size = 0;  // 0: the default
  std::string token;  // empty: no credentials
  // How long clients wait: gRPC's send it to the server, HTTP's hang up.
  absl::Duration timeout = absl::Minutes(2);
  // And HTTP's that much later, for an answer of a server that refuses late, on a busy machine.
  absl::Duration patience = absl::Seconds(30);
  // Called before a gRPC call is made.
  std::function<void(grpc::ClientContext&)> before = nullptr;
  // And when it has ended, while the context is still there.
  std::function<void()> after = nullptr;
};

// How a call ended, or its first source that failed.
struct Told {
  int code = 0;  // of gRPC
  int http = 0;  // of HTTP's calls: the status
  std::string reason;
  std::string text;  // all there is, to be shown
  // The call succeeded, and a source of it failed.
  bool in_result = false;
  // The call failed for all its sources, and says what became of each.
  bool has_source_errors = false;
  // When to try again: gRPC's trailer grpc-retry-pushback-ms, HTTP's header Retry-After. Empty
  // without one.
  std::string wait;
};

struct EveryCall {
  const char* name;
  bool is_http;
  bool takes_many;      // sources
  bool searches;        // has a beam
  bool all_or_nothing;  // fails with its first source; others have a status for each
  bool has_pushback;    // refusals say when to try again
  Told (*ask)(ServerProcess& server, const Question& question);
};
const std::vector<EveryCall>& EveryCalls();

}  // namespace beamwright::e2e

#endif  // BEAMWRIGHT_TESTS_E2E_EVERY_CALL_H_
