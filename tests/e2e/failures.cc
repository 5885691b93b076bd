#include "tests/e2e/failures.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace beamwright::e2e {

void ExpectFailure(const EveryCall& call, const Told& told, const Failure& failure) {
  const std::string what = absl::StrCat(call.name, ": ", told.text);
  EXPECT_EQ(told.reason, failure.reason) << what;
  const bool in_result = failure.of_some && !call.all_or_nothing;
  EXPECT_EQ(told.in_result, in_result) << what;
  // A call with a place for one source has an empty one, where others have an empty list.
  const bool of_source =
      failure.of_source || (failure.question.num_sources == 0 && !call.takes_many);
  EXPECT_EQ(told.has_source_errors, of_source && !call.all_or_nothing) << what;
  if (call.is_http) {
    EXPECT_EQ(told.http, in_result ? 200 : failure.http) << what;
  }
  if (!call.is_http || told.code != 0) {
    EXPECT_EQ(told.code, failure.code) << what;
  }
  if (!call.has_pushback || in_result) {
    return;
  }
  const bool for_good = failure.reason == "TOO_LARGE";
  const bool may_return = failure.code == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                          (call.is_http && failure.code == grpc::StatusCode::UNAVAILABLE);
  if (!may_return || (call.is_http && for_good)) {
    EXPECT_EQ(told.wait, "") << what;
  } else if (for_good) {
    EXPECT_EQ(told.wait, "-1") << what;
  } else {
    EXPECT_GT(std::atoi(told.wait.c_str()), 0) << what;
  }
}

void ExpectFromEveryCall(ServerProcess& server, const Failure& failure) {
  for (const EveryCall& call : EveryCalls()) {
    if ((failure.question.num_sources > 1 && !call.takes_many) ||
        (failure.question.beam_size > 0 && !call.searches)) {
      continue;
    }
    ExpectFailure(call, call.ask(server, failure.question), failure);
  }
}

Question Asking(const std::function<void(Question&)>& change) {
  Question question;
  change(question);
  return question;
}

}  // namespace beamwright::e2e
