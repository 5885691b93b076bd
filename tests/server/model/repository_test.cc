#include "server/model/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/base/status.h"
#include "tests/server/model/temp_bundle.h"

namespace beamwright::model {
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
}

class LoadNewestTest : public ::testing::Test {
 protected:
  LoadNewestTest() {
    for (const char* version : {"word/1", "word/2", "word/3"}) {
      WriteBundle(temp_, version);
    }
  }
  LoadReport Load(const std::string& refused = "") {
    return LoadNewest(*FindModel(temp_.At("word")), [&](Bundle bundle) {
      accepted_.push_back(bundle.version);
      return bundle.version == refused ? Invalid("does not compile") : absl::OkStatus();
    });
  }

  TempFolder temp_;
  std::vector<std::string> accepted_;
};

TEST_F(LoadNewestTest, TakesTheNewestAndLeavesOlderOnesAlone) {
  const LoadReport report = Load();
  ASSERT_TRUE(report.loaded.has_value());
  EXPECT_EQ(report.loaded->version, "3");
  EXPECT_THAT(accepted_, ElementsAre("3"));
  EXPECT_THAT(report.failures, IsEmpty());
}

TEST_F(LoadNewestTest, FallsBackPastWhatDoesNotLoadOrIsNotAccepted) {
  temp_.Write("word/3/model.textproto", "nonsense");
  const LoadReport report = Load("2");
  ASSERT_TRUE(report.loaded.has_value());
  EXPECT_EQ(report.loaded->version, "1");
  EXPECT_THAT(accepted_, ElementsAre("2", "1"));
  ASSERT_EQ(report.failures.size(), 2u);
  EXPECT_EQ(report.failures[0].version, "3");
  EXPECT_THAT(std::string(report.failures[0].reason.message()), HasSubstr("model.textproto: 1:"));
  EXPECT_EQ(report.failures[1].version, "2");
  EXPECT_THAT(std::string(report.failures[1].reason.message()), HasSubstr("does not compile"));
}

TEST_F(LoadNewestTest, ReportsAllFailuresWhenNoneIsGood) {
  for (const char* version : {"1", "2", "3"}) {
    temp_.Remove(std::string("word/") + version + "/graph.xml");
  }
  const LoadReport report = Load();
  EXPECT_FALSE(report.loaded.has_value());
  EXPECT_EQ(report.failures.size(), 3u);
}

}  // namespace
}  // namespace beamwright::model
