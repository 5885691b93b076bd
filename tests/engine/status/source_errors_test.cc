#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "google/rpc/error_details.pb.h"

namespace beamwright::status {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr SourceNames kDecodeNames = {"sources", "source"};

// What a call of sources that failed with these ends with, as it is sent.
google::rpc::Status CallOf(const std::vector<absl::Status>& sources, Room room = Room::kTrailer,
                           const SourceNames& names = kDecodeNames) {
  std::vector<google::rpc::Status> wire;
  for (const absl::Status& source : sources) {
    wire.push_back(ToRpcStatus(source));
  }
  std::vector<const google::rpc::Status*> errors;
  for (const google::rpc::Status& error : wire) {
    errors.push_back(&error);
  }
  return ToRpcStatus(StatusOfFailedCall(errors, names), room);
}

v1::SourceErrors SourcesOf(const google::rpc::Status& call) {
  v1::SourceErrors errors;
  int found = 0;
  for (const google::protobuf::Any& detail : call.details()) {
    found += detail.UnpackTo(&errors) ? 1 : 0;
  }
  EXPECT_EQ(found, 1);
  return errors;
}

std::vector<std::string> FieldsOf(const google::rpc::Status& call) {
  std::vector<std::string> fields;
  for (const google::protobuf::Any& detail : call.details()) {
    google::rpc::BadRequest bad;
    if (detail.UnpackTo(&bad)) {
      for (const auto& violation : bad.field_violations()) {
        fields.push_back(violation.field());
      }
    }
  }
  return fields;
}

// "0+2 3+1": sources 0, 1 and 3.
std::string RangesOf(const v1::SourceError& error) {
  std::string text;
  for (const v1::SourceRange& range : error.sources()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", range.first(), "+", range.count());
  }
  return text;
}

absl::Status Full(absl::Duration wait) {
  return WithRetryAfter(
      WithReason(absl::ResourceExhaustedError("the queue is full"), reason::kQueueFull), wait);
}

absl::Status TooLarge() {
  return WithReason(absl::ResourceExhaustedError("too large"), reason::kTooLarge);
}

TEST(SourceErrorsTest, ACallOfOneSourceHasItsStatus) {
  const google::rpc::Status call = CallOf({Full(absl::Milliseconds(250))});
  EXPECT_EQ(call.code(), static_cast<int>(StatusCode::kResourceExhausted));
  EXPECT_EQ(call.message(), "the queue is full");
  EXPECT_EQ(ReasonOf(FromRpcStatus(call)), reason::kQueueFull);
  EXPECT_EQ(RetryAfter(FromRpcStatus(call)), absl::Milliseconds(250));
  const v1::SourceErrors sources = SourcesOf(call);
  ASSERT_EQ(sources.errors_size(), 1);
  EXPECT_FALSE(sources.errors(0).has_error());
  EXPECT_EQ(RangesOf(sources.errors(0)), "0+1");
}

// Each stands before all that follow it, wherever in the call they are.
TEST(SourceErrorsTest, TheOrderOfMixedCodes) {
  const std::vector<absl::Status> order = {absl::UnavailableError("leaves"),
                                           Full(absl::Milliseconds(1)),
                                           absl::DeadlineExceededError("late"),
                                           absl::InternalError("bug"),
                                           absl::InvalidArgumentError("source: bad"),
                                           TooLarge(),
                                           absl::CancelledError("gone")};
  for (size_t first = 0; first < order.size(); ++first) {
    for (size_t second = first + 1; second < order.size(); ++second) {
      for (const bool swapped : {false, true}) {
        const google::rpc::Status call =
            CallOf({order[swapped ? second : first], order[swapped ? first : second]});
        EXPECT_EQ(call.code(), static_cast<int>(order[first].code()))
            << order[first] << " and " << order[second];
        EXPECT_THAT(call.message(), HasSubstr(absl::StrCat("; sources[", swapped ? 1 : 0,
                                                           "]: ", order[first].message())));
        EXPECT_EQ(RetryAfter(FromRpcStatus(call)), RetryAfter(order[first])) << order[first];
      }
    }
  }
  // A code that no source has by design is a fault of the server's.
  EXPECT_EQ(CallOf({absl::InvalidArgumentError("x"), absl::DataLossError("y")}).code(),
            static_cast<int>(StatusCode::kDataLoss));
}

// Who comes back when the first source may would be refused for the others.
TEST(SourceErrorsTest, TheLongestWaitHolds) {
  const google::rpc::Status call =
      CallOf({Full(absl::Seconds(1)), Full(absl::Seconds(7)), Full(absl::Seconds(3)), TooLarge()});
  EXPECT_EQ(RetryAfter(FromRpcStatus(call)), absl::Seconds(7));
  EXPECT_THAT(call.message(), HasSubstr("all 4 sources failed; sources[1]: the queue is full"));
}

TEST(SourceErrorsTest, EqualErrorsStandOnceAndEverySourceIsThere) {
  const absl::Status full = Full(absl::Seconds(1));
  const absl::Status bad = absl::InvalidArgumentError("source.text: is empty");
  const google::rpc::Status call = CallOf({full, full, bad, full, bad, bad});
  EXPECT_EQ(
      call.message(),
      "all 6 sources failed (3 INVALID_ARGUMENT, 3 RESOURCE_EXHAUSTED); sources[0]: the queue "
      "is full");
  const v1::SourceErrors sources = SourcesOf(call);
  ASSERT_EQ(sources.errors_size(), 2);
  EXPECT_EQ(RangesOf(sources.errors(0)), "0+2 3+1");
  EXPECT_EQ(sources.errors(0).error().SerializeAsString(), ToRpcStatus(full).SerializeAsString());
  EXPECT_EQ(RangesOf(sources.errors(1)), "2+1 4+2");
  EXPECT_EQ(sources.errors(1).error().SerializeAsString(), ToRpcStatus(bad).SerializeAsString());
  EXPECT_EQ(sources.num_left_out(), 0);
  // Fields are the client's only where the error says that the fault is the client's.
  EXPECT_THAT(FieldsOf(call), IsEmpty());
}

TEST(SourceErrorsTest, FieldsAreThoseOfTheRequest) {
  const auto fields = [](const std::vector<absl::Status>& sources, const SourceNames& names) {
    return FieldsOf(CallOf(sources, Room::kTrailer, names));
  };
  const std::vector<absl::Status> sources = {
      InvalidField("source.ids[1]", "99 is outside [0, 30)"),
      absl::InvalidArgumentError("says no field"),
      InvalidFields(
          {{"source", "is empty"}, {"targets[0].text", "is bad"}, {"options.min_length", "x"}})};
  EXPECT_THAT(fields(sources, kDecodeNames),
              ElementsAre("sources[0].ids[1]", "sources[2]", "sources[2].targets[0].text",
                          "options.min_length"));
  EXPECT_THAT(fields(sources, {"sources", ""}),
              ElementsAre("sources[0].source.ids[1]", "sources[2].source",
                          "sources[2].targets[0].text", "options.min_length"));
  EXPECT_THAT(fields({sources[0]}, {}), ElementsAre("source.ids[1]"));
  EXPECT_THAT(fields(std::vector<absl::Status>(100, sources[0]), kDecodeNames).size(), 8);
}

size_t TrailerSize(const google::rpc::Status& call) {
  return 3 * call.message().size() + (call.ByteSizeLong() + 2) / 3 * 4;
}

// As many different errors as a call can have, and each as long as it can be.
TEST(SourceErrorsTest, ATrailerHoldsWhatItCanAndABodyAll) {
  std::vector<absl::Status> sources;
  for (int i = 0; i < 4096; ++i) {
    sources.push_back(i % 3 == 0 ? absl::InvalidArgumentError(absl::StrCat(
                                       "source.ids[", i, "]: ", std::string(2000, 'x')))
                                 : absl::InternalError(absl::StrCat(i, std::string(2000, 'y'))));
  }
  const google::rpc::Status call = CallOf(sources);
  EXPECT_LT(TrailerSize(call), 8000u);
  const v1::SourceErrors cut = SourcesOf(call);
  EXPECT_GT(cut.errors_size(), 20);
  int listed = 0;
  for (const v1::SourceError& error : cut.errors()) {
    EXPECT_EQ(RangesOf(error), absl::StrCat(listed++, "+1"));
    EXPECT_EQ(error.error().code(), static_cast<int>(listed % 3 == 1 ? StatusCode::kInvalidArgument
                                                                     : StatusCode::kInternal));
  }
  EXPECT_EQ(cut.num_left_out() + listed, 4096);
  ASSERT_EQ(cut.counts_size(), 2);
  EXPECT_EQ(cut.counts(0).sources() + cut.counts(1).sources(), 4096);
  const v1::SourceErrors all = SourcesOf(CallOf(sources, Room::kBody));
  EXPECT_EQ(all.errors_size(), 4096);
  EXPECT_EQ(all.num_left_out(), 0);
  for (int i = 0; i < 4096; ++i) {
    EXPECT_EQ(all.errors(i).error().SerializeAsString(),
              ToRpcStatus(sources[static_cast<size_t>(i)]).SerializeAsString());
  }
}

// Refusals that differ in nothing but when to come back need not be left out.
TEST(SourceErrorsTest, DetailsGoBeforeSources) {
  std::vector<absl::Status> sources;
  for (int i = 0; i < 4096; ++i) {
    sources.push_back(Full(absl::Milliseconds(1 + i)));
  }
  const google::rpc::Status call = CallOf(sources);
  EXPECT_LT(TrailerSize(call), 8000u);
  const v1::SourceErrors cut = SourcesOf(call);
  ASSERT_EQ(cut.errors_size(), 1);
  EXPECT_EQ(RangesOf(cut.errors(0)), "0+4096");
  EXPECT_EQ(cut.num_left_out(), 0);
  EXPECT_EQ(RetryAfter(FromRpcStatus(call)), absl::Milliseconds(4096));
}

// Two errors in turn: thousands of ranges, of which a trailer holds hundreds.
TEST(SourceErrorsTest, RangesAreCutToo) {
  std::vector<absl::Status> sources;
  for (int i = 0; i < 4096; ++i) {
    sources.push_back(i % 2 == 0 ? absl::InternalError("bug") : TooLarge());
  }
  const google::rpc::Status call = CallOf(sources);
  EXPECT_LT(TrailerSize(call), 8000u);
  const v1::SourceErrors cut = SourcesOf(call);
  int listed = 0;
  for (const v1::SourceError& error : cut.errors()) {
    listed += error.sources_size();
  }
  EXPECT_GT(listed, 300);
  EXPECT_EQ(cut.num_left_out() + listed, 4096);
}

// Whatever the call's own message and details take of the trailer.
TEST(SourceErrorsTest, TheWorstCallFitsIntoATrailer) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += "\xE2\x82\xAC";
  }
  // Twice as many as a status on the wire names.
  const Faults faults(16, {"source." + std::string(300, 'f'), text});
  std::vector<absl::Status> sources(64, InvalidFields(faults));
  for (int code = 1; code <= 16; ++code) {
    sources.emplace_back(static_cast<StatusCode>(code), ToString(faults[0]));
  }
  for (const absl::Status& only : {sources[0], absl::Status(sources[70])}) {
    EXPECT_LT(TrailerSize(CallOf({only})), 8000u);
    EXPECT_LT(TrailerSize(CallOf({only, only})), 8000u);
    EXPECT_LT(TrailerSize(CallOf(std::vector<absl::Status>(4096, only))), 8000u);
  }
  EXPECT_LT(TrailerSize(CallOf(sources)), 8000u);
}

TEST(SourceErrorsTest, AnAnswerAmongErrorsIsNoFailure) {
  v1::DecodeResponse response;
  EXPECT_TRUE(OutcomeOf(response.results(), kDecodeNames).ok());
  *response.add_results()->mutable_error() = ToRpcStatus(TooLarge());
  EXPECT_EQ(OutcomeOf(response.results(), kDecodeNames).code(), StatusCode::kResourceExhausted);
  response.add_results()->mutable_decoded();
  EXPECT_TRUE(OutcomeOf(response.results(), kDecodeNames).ok());
  EXPECT_EQ(CountErrors(response.results()), 1);
}

}  // namespace
}  // namespace beamwright::status
