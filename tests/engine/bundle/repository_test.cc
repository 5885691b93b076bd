#include "engine/bundle/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "tests/engine/bundle/temp_bundle.h"

namespace beamwright::bundle {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Versions(const ModelFolder& model) {
  std::vector<std::string> versions;
  for (const VersionFolder& folder : model.versions) {
    versions.push_back(folder.version);
  }
  return versions;
}

TEST(IsVersionTest, WholeNumbersWithoutLeadingZeros) {
  for (const char* good : {"1", "10", "42", "999999999999999999"}) {
    EXPECT_TRUE(IsVersion(good)) << good;
  }
  for (const char* bad :
       {"", "0", "01", "-1", "+1", "1.0", "1a", " 1", "1 ", "v1", "٣", "1000000000000000000"}) {
    EXPECT_FALSE(IsVersion(bad)) << bad;
  }
}

TEST(ScanRepositoryTest, FindsModelsAndSortsVersionsAsNumbers) {
  TempFolder temp;
  for (const char* path : {"b/1/x", "b/9/x", "b/10/x", "b/train/x", "b/007/x", "b/.2/x", "b/0/x",
                           "a/2/x", ".git/1/x", "lost+found/1/x", "notes/old/x", "README"}) {
    temp.Write(path, "");
  }
  temp.Write("b/11", "a file, no folder");
  temp.Link("linked", "a");
  temp.Link("nowhere", "no-such-folder");
  absl::StatusOr<std::vector<ModelFolder>> models = ScanRepository(temp.path() + "/");
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->size(), 3u);
  EXPECT_EQ((*models)[0].name, "a");
  EXPECT_EQ((*models)[1].name, "b");
  EXPECT_THAT(Versions((*models)[1]), ElementsAre("10", "9", "1"));
  EXPECT_EQ((*models)[1].versions[0].path, temp.At("b/10"));
  EXPECT_EQ((*models)[2].name, "linked");
}

TEST(ScanRepositoryTest, AnEmptyOneIsNoErrorAMissingOneIs) {
  TempFolder temp;
  EXPECT_THAT(*ScanRepository(temp.path()), IsEmpty());
  const absl::Status missing = ScanRepository(temp.At("no")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr(temp.At("no")));
}

TEST(FindModelTest, TakesABundleAVersionFolderOrAModelFolder) {
  TempFolder temp;
  WriteBundle(temp, "bare");
  WriteBundle(temp, "model/4");
  WriteBundle(temp, "model/12");
  EXPECT_THAT(Versions(*FindModel(temp.At("bare/"))), ElementsAre("1"));
  EXPECT_EQ(FindModel(temp.At("bare/"))->name, "bare");
  EXPECT_THAT(Versions(*FindModel(temp.At("model/4"))), ElementsAre("4"));
  EXPECT_EQ(FindModel(temp.At("model/4"))->name, "model");
  EXPECT_THAT(Versions(*FindModel(temp.At("model"))), ElementsAre("12", "4"));
  temp.Write("empty/train/x", "");
  EXPECT_EQ(FindModel(temp.At("empty")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FindModel(temp.At("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(FindModel(temp.At("")).status().message(),
              HasSubstr("models such as 'model': give it as --model-repository"));
}

TEST(StateOfTest, ChangesWithWhateverHappensToAFile) {
  TempFolder temp;
  temp.Write("m/1/a", "one");
  temp.Write("m/1/deep/b", "four");
  const FolderState first = StateOf(temp.At("m"));
  EXPECT_EQ(first.bytes, 7);
  EXPECT_EQ(StateOf(temp.At("m")).fingerprint, first.fingerprint);
  temp.Write("m/1/deep/b", "five!");
  const FolderState longer = StateOf(temp.At("m"));
  EXPECT_EQ(longer.bytes, 8);
  EXPECT_NE(longer.fingerprint, first.fingerprint);
  // The same names and contents, but other files: published anew.
  temp.Remove("m/1/a");
  temp.Write("m/1/other", "one");
  const FolderState renamed = StateOf(temp.At("m"));
  EXPECT_NE(renamed.fingerprint, longer.fingerprint);
  temp.Remove("m/1/other");
  EXPECT_NE(StateOf(temp.At("m")).fingerprint, renamed.fingerprint);
  EXPECT_NE(StateOf(temp.At("gone")).fingerprint, "");
}

TEST(StateOfTest, ChangesWithWhatStandsWhereAFileShould) {
  TempFolder temp;
  temp.Write("m/a", "x");
  const FolderState without = StateOf(temp.At("m"));
  std::filesystem::create_directory(temp.At("m/serving.textproto"));
  EXPECT_NE(StateOf(temp.At("m")).fingerprint, without.fingerprint);
  std::filesystem::remove(temp.At("m/serving.textproto"));
  EXPECT_EQ(StateOf(temp.At("m")).fingerprint, without.fingerprint);
}

TEST(StateOfTest, ALinkThatLeadsBackUpHasAnEnd) {
  TempFolder temp;
  temp.Write("m/a", "x");
  temp.Link("m/up", "../m");
  EXPECT_GE(StateOf(temp.At("m")).bytes, 1);
}

TEST(StateOfTest, AFolderThatManyLinksLeadToIsEnteredOnce) {
  TempFolder temp;
  temp.Write("m/a", "x");
  for (int i = 0; i < 60; ++i) {
    temp.Link(absl::StrCat("m/up", i), ".");
  }
  temp.Write("shared/weights", "four");
  temp.Link("m/first", "../shared");
  temp.Link("m/second", "../shared");
  const FolderState state = StateOf(temp.At("m"));
  EXPECT_EQ(state.bytes, 5);
  EXPECT_EQ(StateOf(temp.At("m")).fingerprint, state.fingerprint);
  temp.Write("shared/weights", "fives");
  EXPECT_NE(StateOf(temp.At("m")).fingerprint, state.fingerprint);
}

TEST(StateOfTest, OfALinkToTheWholeDiskTheFoldersOwnFilesCount) {
  TempFolder temp;
  temp.Write("m/a", "four");
  temp.Write("m/sub/b", "x");
  temp.Link("m/disk", "/");
  const FolderState state = StateOf(temp.At("m"));
  EXPECT_EQ(state.bytes, 4);
  EXPECT_THAT(state.fingerprint, HasSubstr("more than 10000 entries"));
  EXPECT_EQ(StateOf(temp.At("m")).fingerprint, state.fingerprint);
  temp.Write("m/a", "fives");
  EXPECT_NE(StateOf(temp.At("m")).fingerprint, state.fingerprint);
}

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
