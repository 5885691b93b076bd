#include "tests/e2e/failures.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace beamwright::e2e {

void ExpectFailure(const EveryCall& call, const Told& told, const Failure& failure) {
  const std::string what = absl::StrCat(call.name, ": ", told.text);
  EXPECT_EQ(told.reason, failure.reason) << what;
  if (!call.is_http) {
    EXPECT_EQ(told.code, failure.code) << what;
    return;
  }
  const bool in_result = failure.of_source && !call.all_or_nothing;
  EXPECT_EQ(told.http, in_result ? 200 : failure.http) << what;
  if (told.code != 0) {
    EXPECT_EQ(told.code, failure.code) << what;
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
