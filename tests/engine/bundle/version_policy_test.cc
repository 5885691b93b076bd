#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/bundle/repository.h"
#include "tests/engine/bundle/temp_bundle.h"

namespace beamwright::bundle {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class VersionPolicyTest : public ::testing::Test {
 protected:
  VersionPolicyTest() {
    for (const char* version : {"1", "2", "9", "10"}) {
      temp_.Write(absl::StrCat("word/", version, "/model.textproto"), "");
    }
  }
  ModelFolder Folder() { return *FindModel(temp_.At("word")); }
  absl::StatusOr<v1::ServingPolicy> Read(const std::string& text) {
    temp_.Write("word/serving.textproto", text);
    return ReadPolicy(Folder());
  }
  // The candidates that a policy leaves, how many of them are to be served, and "*" for those that
  // are in any case.
  std::string Choose(const std::string& text) {
    const absl::StatusOr<v1::ServingPolicy> policy = Read(text);
    EXPECT_TRUE(policy.ok()) << policy.status();
    const VersionChoice choice = ChooseVersions(Folder(), *policy);
    std::string list = absl::StrCat(choice.count, " of");
    for (const VersionFolder& version : choice.candidates) {
      absl::StrAppend(&list, " ", version.version,
                      choice.labelled.count(version.version) > 0 ? "*" : "");
    }
    for (const LoadFailure& missing : choice.missing) {
      absl::StrAppend(&list, " -", missing.version);
    }
    return list;
  }
  std::string Refused(const std::string& text) {
    const absl::Status status = Read(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  }

  TempFolder temp_;
};

TEST_F(VersionPolicyTest, WithoutAFileTheNewestVersionAlone) {
  const VersionChoice choice = ChooseVersions(Folder(), *ReadPolicy(Folder()));
  EXPECT_EQ(choice.count, 1u);
  // All are candidates: a version that is not good is passed over.
  EXPECT_EQ(choice.candidates.size(), 4u);
  EXPECT_EQ(choice.candidates[0].version, "10");
}

TEST_F(VersionPolicyTest, ChoosesNewestFirst) {
  EXPECT_EQ(Choose(""), "1 of 10 9 2 1");
  EXPECT_EQ(Choose("latest: 2"), "2 of 10 9 2 1");
  EXPECT_EQ(Choose("all: true"), "4 of 10 9 2 1");
  EXPECT_EQ(Choose("specific { versions: 1 versions: 9 }"), "2 of 9 1");
  EXPECT_EQ(Choose("specific { versions: 3 versions: 2 }"), "1 of 2 -3");
  EXPECT_EQ(Choose("labels { key: 'stable' value: 2 }"), "1 of 10 9 2* 1");
  EXPECT_EQ(Choose("specific { versions: 1 } labels { key: 'canary' value: 9 }"), "2 of 9* 1");
}

TEST_F(VersionPolicyTest, SaysWhatIsWrong) {
  EXPECT_THAT(Refused("latest: 0"), AllOf(HasSubstr("serving.textproto"), HasSubstr("latest")));
  EXPECT_THAT(Refused("all: false"), HasSubstr("all: is false"));
  EXPECT_THAT(Refused("specific {}"), HasSubstr("specific.versions: is empty"));
  EXPECT_THAT(Refused("specific { versions: -1 }"), HasSubstr("-1 is not a valid version"));
  EXPECT_THAT(Refused("labels { key: '7up' value: 1 }"), HasSubstr("'7up' is not a valid label"));
  EXPECT_THAT(Refused("newest: 1"), HasSubstr("1:7: "));
  temp_.Remove("word/serving.textproto");
  temp_.Link("word/serving.textproto", "nowhere");
  EXPECT_THAT(std::string(ReadPolicy(Folder()).status().message()), HasSubstr("cannot open"));
  // A bare bundle has no policy, whatever lies above it.
  EXPECT_TRUE(ReadPolicy(*FindModel(temp_.At("word/2"))).ok());
}

TEST(IsLabelTest, ALetterFirst) {
  EXPECT_TRUE(IsLabel("stable"));
  EXPECT_TRUE(IsLabel("v2.1-rc_3"));
  for (const char* wrong : {"", "1", "-a", "a b", "a/b"}) {
    EXPECT_FALSE(IsLabel(wrong)) << wrong;
  }
  EXPECT_FALSE(IsLabel(std::string(65, 'a')));
}

}  // namespace
}  // namespace beamwright::bundle
