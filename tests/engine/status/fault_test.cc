#include "engine/status/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ops/base/status.h"

namespace beamwright::status {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(FaultTest, AStatusCarriesWhatItWasMadeOf) {
  const absl::Status status = InvalidFields({{"a.b[1]", "is bad"}, {"c", "is: worse; than bad"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "a.b[1]: is bad; c: is: worse; than bad");
  EXPECT_THAT(FaultsOf(status),
              ElementsAre(Fault{"a.b[1]", "is bad"}, Fault{"c", "is: worse; than bad"}));
}

TEST(FaultTest, AFaultOfNoFieldIsItsText) {
  const absl::Status status = InvalidFields({{"", "the request is bad"}});
  EXPECT_EQ(status.message(), "the request is bad");
  EXPECT_THAT(FaultsOf(status), ElementsAre(Fault{"", "the request is bad"}));
}

TEST(FaultTest, PiecesOfATextAreJoined) {
  EXPECT_THAT(FaultsOf(InvalidField("x", 3, " is outside [", 0, ", ", 2.5, "]")),
              ElementsAre(Fault{"x", "3 is outside [0, 2.5]"}));
  Faults faults;
  faults.Add("x", 3, " is bad");
  EXPECT_THAT(faults, ElementsAre(Fault{"x", "3 is bad"}));
}

TEST(FaultTest, AnAllocationThatFailsIsAStatus) {
  EXPECT_EQ(OrOutOfMemory([]() -> absl::Status { throw std::bad_alloc(); }), OutOfMemory());
  const auto made = OrOutOfMemory([]() -> absl::StatusOr<int> { throw std::bad_alloc(); });
  EXPECT_EQ(made.status(), OutOfMemory());
  EXPECT_EQ(*OrOutOfMemory([]() -> absl::StatusOr<int> { return 3; }), 3);
  EXPECT_EQ(OrOutOfMemory([] { return absl::NotFoundError("x"); }), absl::NotFoundError("x"));
}

TEST(FaultTest, NothingWrongIsOk) {
  EXPECT_TRUE(OkOrInvalid({}).ok());
  EXPECT_EQ(OkOrInvalid({{"x", "is bad"}}), InvalidField("x", "is bad"));
  EXPECT_THAT(FaultsOf(absl::OkStatus()), IsEmpty());
}

TEST(FaultTest, AMessageAloneIsAFaultOfNoField) {
  EXPECT_THAT(FaultsOf(Invalid("x: is bad")), ElementsAre(Fault{"", "x: is bad"}));
}

TEST(FaultTest, WhatIsNotUtf8IsEscaped) {
  const absl::Status status = InvalidField("x", "'\xFF' is bad");
  EXPECT_EQ(FaultsOf(status)[0].field, "x");
  EXPECT_EQ(FaultsOf(status)[0].text, "\\'\\xff\\' is bad");
  EXPECT_EQ(status.message(), "x: \\'\\xff\\' is bad");
}

std::string UnderY(absl::string_view field) { return absl::StrCat("y.", field); }

// Texts that look like fields stay: names are data.
TEST(FaultTest, FieldsAreRenamedAndTextsAreNot) {
  const absl::Status status =
      WithFields(InvalidFields({{"a", "a: a; a: a"}, {"b", "is bad"}}), UnderY);
  EXPECT_EQ(status.message(), "y.a: a: a; a: a; y.b: is bad");
  EXPECT_THAT(FaultsOf(status), ElementsAre(Fault{"y.a", "a: a; a: a"}, Fault{"y.b", "is bad"}));
}

TEST(FaultTest, RenamingKeepsOtherDetailsAndWhatAMessageSaysBesides) {
  const absl::Status status = WithFields(
      Annotate(WithReason(InvalidField("a", "is bad"), reason::kTooLarge), "line 3"), UnderY);
  EXPECT_EQ(status.message(), "line 3: a: is bad");
  EXPECT_EQ(ReasonOf(status), reason::kTooLarge);
  EXPECT_THAT(FaultsOf(status), ElementsAre(Fault{"y.a", "is bad"}));
}

TEST(FaultTest, RenamingLeavesOtherErrorsAlone) {
  for (const absl::Status& status :
       {absl::OkStatus(), absl::InternalError("a: is bad"), Invalid("a: is bad")}) {
    EXPECT_EQ(WithFields(status, UnderY), status);
  }
}

TEST(FaultTest, AnErrorFoundInsideAFieldIsTheFieldsFault) {
  EXPECT_EQ(AtField(Invalid("text: is bad"), "a"), InvalidField("a", "text: is bad"));
  EXPECT_EQ(AtField(InvalidField("b", "is bad"), "a"), InvalidField("a", "b: is bad"));
  EXPECT_EQ(AtField(absl::UnimplementedError("is new"), "a"),
            absl::UnimplementedError("a: is new"));
  EXPECT_TRUE(AtField(absl::OkStatus(), "a").ok());
}

}  // namespace
}  // namespace beamwright::status
