// A line of the table of failures in docs/operations.md, 'Status codes', held against every call
// that decodes.
#ifndef BEAMWRIGHT_TESTS_E2E_FAILURES_H_
#define BEAMWRIGHT_TESTS_E2E_FAILURES_H_

#include <grpcpp/support/status_code_enum.h>

#include <functional>
#include <string>

#include "tests/e2e/every_call.h"

namespace beamwright::e2e {

struct Failure {
  Question question;
  grpc::StatusCode code;
  int http;
  std::string reason;
  // The fault is of the sources: all of them have it.
  bool of_source = false;
  // Of some of them: calls that have a status for each source succeed otherwise.
  bool of_some = false;
};

// Checks that `told` is the error that the call must have.
void ExpectFailure(const EveryCall& call, const Told& told, const Failure& failure);
// Puts the question by every call that can.
void ExpectFromEveryCall(ServerProcess& server, const Failure& failure);

Question Asking(const std::function<void(Question&)>& change);

}  // namespace beamwright::e2e

#endif  // BEAMWRIGHT_TESTS_E2E_FAILURES_H_
