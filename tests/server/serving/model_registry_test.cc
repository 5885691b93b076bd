#include "server/serving/model_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace beamwright::serving {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Copies of the default model under other names.
class ModelRegistryTest : public ::testing::Test {
 protected:
  ModelRegistryTest() {
    std::string name = (fs::temp_directory_path() / "beamwright-XXXXXX").string();
    repository_ = mkdtemp(name.data());
  }
  ~ModelRegistryTest() override { fs::remove_all(repository_); }

  void Add(const std::string& folder, const std::string& name) {
    const std::string path = repository_ + "/" + folder;
    fs::create_directories(path);
    fs::copy(BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/1", path);
    fs::remove(path + "/MANIFEST.sha256");
    std::ifstream in(path + "/model.textproto");
    std::string config((std::istreambuf_iterator<char>(in)), {});
    const size_t at = config.find("\"g2p-en\"");
    ASSERT_NE(at, std::string::npos);
    Write(folder + "/model.textproto", config.replace(at, 8, "\"" + name + "\""));
  }
  void Write(const std::string& file, const std::string& content) const {
    std::ofstream(repository_ + "/" + file, std::ios::trunc) << content;
  }
  absl::StatusOr<std::unique_ptr<ModelRegistry>> Load(LoadOptions options = {}) {
    // Most tests are not about golden requests, and replaying them takes time.
    if (options.golden_requests == LoadOptions().golden_requests) {
      options.golden_requests = 0;
    }
    return ModelRegistry::Load({{repository_}, {}}, nullptr, options);
  }
  // "first/3 first/1:stable" and so on: what is served, then "-first/2" what is not.
  static std::string Listed(const ModelRegistry& registry) {
    std::vector<std::string> lines;
    for (const v1::ModelSummary& model : registry.List()) {
      lines.push_back(absl::StrCat(model.ready() ? "" : "-", model.name(), "/", model.version(),
                                   model.labels().empty() ? "" : ":",
                                   absl::StrJoin(model.labels(), ":")));
    }
    return absl::StrJoin(lines, " ");
  }

  std::string repository_;
};

TEST_F(ModelRegistryTest, FindsModelsByNameAndVersion) {
  Add("one/3", "first");
  Add("two/1", "second");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_EQ((*(*registry)->Lookup("first", ""))->version(), "3");
  EXPECT_EQ((*(*registry)->Lookup("first", "3"))->name(), "first");
  const absl::Status version = (*registry)->Lookup("first", "1").status();
  EXPECT_EQ(version.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(version.message(),
            "Request for unknown model: 'first' version '1' is not found; served: '3'");
  const absl::Status name = (*registry)->Lookup("one", "").status();
  EXPECT_EQ(name.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(name.message(),
            "Request for unknown model: 'one' is not found; served: 'first', 'second'");
  const absl::Status none = (*registry)->Lookup("", "").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.message()), HasSubstr("'first', 'second'"));
}

TEST_F(ModelRegistryTest, ANameIsServedOnceAndTheOtherIsListedWithTheReason) {
  Add("a/1", "same");
  Add("b/1", "same");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_EQ((*(*registry)->Lookup("", ""))->name(), "same");
  const std::vector<v1::ModelSummary> list = (*registry)->List();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(list[0].ready());
  EXPECT_EQ(list[1].name(), "b");
  EXPECT_FALSE(list[1].ready());
  EXPECT_THAT(list[1].reason(), HasSubstr("another model is served by the name 'same'"));
}

TEST_F(ModelRegistryTest, NoGoodModelTellsAllReasons) {
  Add("a/1", "a");
  Add("b/2", "b");
  fs::remove(repository_ + "/a/1/decoder.xml");
  fs::remove(repository_ + "/b/2/encoder.xml");
  const absl::Status status = Load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a/1/decoder.xml"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("b/2/encoder.xml"));
}

TEST_F(ModelRegistryTest, ReloadReplacesAndARequestKeepsWhatItHolds) {
  Add("one/1", "first");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  const ModelPtr held = *(*registry)->Lookup("first", "");
  std::vector<std::string> told;
  (*registry)->Observe([&told](const std::string& model, const std::string& version) {
    told.push_back(absl::StrCat(model, "/", version));
  });
  Add("one/2", "first");
  ASSERT_TRUE((*registry)->Reload("first").ok());
  EXPECT_EQ((*(*registry)->Lookup("first", ""))->version(), "2");
  EXPECT_EQ((*registry)->Lookup("first", "1").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(held->version(), "1");
  // By its folder's name; and under another name.
  Add("one/3", "renamed");
  ASSERT_TRUE((*registry)->Reload("one").ok());
  EXPECT_EQ((*(*registry)->Lookup("", ""))->name(), "renamed");
  EXPECT_THAT(told, ElementsAre("first/1", "first/2", "first/", "renamed/3"));
}

// The name is model.textproto's, and the folder's is another.
TEST_F(ModelRegistryTest, AnUnloadedModelIsLoadedAgainByItsName) {
  Add("one/1", "first");
  Add("two/1", "second");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  (*registry)->Unload("first");
  EXPECT_EQ(Listed(**registry), "second/1 -first/1");
  ASSERT_TRUE((*registry)->Reload("first").ok());
  EXPECT_EQ(Listed(**registry), "first/1 second/1");
  // Also after a load that failed.
  (*registry)->Unload("first");
  fs::rename(repository_ + "/one/1/decoder.xml", repository_ + "/decoder.xml");
  EXPECT_EQ((*registry)->Reload("first").code(), absl::StatusCode::kFailedPrecondition);
  fs::rename(repository_ + "/decoder.xml", repository_ + "/one/1/decoder.xml");
  ASSERT_TRUE((*registry)->Reload("first").ok());
  EXPECT_EQ(Listed(**registry), "first/1 second/1");
  // By a name that it has no more nothing is found, nor in a folder that is gone.
  Add("one/2", "renamed");
  ASSERT_TRUE((*registry)->Reload("first").ok());
  EXPECT_EQ((*registry)->Reload("first").code(), absl::StatusCode::kNotFound);
  (*registry)->Unload("second");
  fs::remove_all(repository_ + "/two");
  EXPECT_EQ((*registry)->Reload("second").code(), absl::StatusCode::kNotFound);
}

TEST_F(ModelRegistryTest, ReloadTakesNoNameFromAnotherModel) {
  Add("a/1", "first");
  Add("b/1", "second");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  Add("b/2", "first");
  EXPECT_EQ((*registry)->Reload("second").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ((*(*registry)->Lookup("second", ""))->version(), "1");
  EXPECT_EQ((*(*registry)->Lookup("first", ""))->version(), "1");
}

TEST_F(ModelRegistryTest, LoadingStopsWhenAsked) {
  Add("a/1", "a");
  const auto registry = ModelRegistry::Load({{repository_}, {}}, [] { return true; });
  EXPECT_EQ(registry.status().code(), absl::StatusCode::kCancelled);
}

TEST_F(ModelRegistryTest, ServesVersionsByPolicyAndByLabel) {
  for (const char* version : {"1", "2", "3"}) {
    Add(absl::StrCat("one/", version), "first");
  }
  Write("one/serving.textproto",
        "latest: 2 labels { key: 'stable' value: 2 } labels { key: 'old' value: 8 }");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_EQ(Listed(**registry), "first/3 first/2:stable -one/8");
  EXPECT_EQ((*(*registry)->Lookup("first", ""))->version(), "3");
  EXPECT_EQ((*(*registry)->Lookup("first", "2"))->version(), "2");
  EXPECT_EQ((*(*registry)->Lookup("", "stable"))->version(), "2");
  EXPECT_EQ((*registry)->Lookup("first", "old").status().message(),
            "Request for unknown model: 'first' version 'old' is not found; served: "
            "'3', '2', 'stable'");
  // A new policy; what is served already is not loaded again.
  const ModelPtr second = *(*registry)->Lookup("first", "2");
  Write("one/serving.textproto", "specific { versions: 2 versions: 7 }");
  ASSERT_TRUE((*registry)->Reload("first").ok());
  EXPECT_EQ(Listed(**registry), "first/2 -one/7");
  EXPECT_EQ(*(*registry)->Lookup("first", ""), second);
  Write("one/serving.textproto", "all: perhaps");
  const absl::Status bad = (*registry)->Reload("first");
  EXPECT_EQ(bad.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(bad.message()), HasSubstr("serving.textproto"));
  EXPECT_EQ(*(*registry)->Lookup("first", ""), second);
}

// A new version takes nothing away from who asks for a label, and neither does a label that moves
// to a version that is not good.
TEST_F(ModelRegistryTest, ALabelKeepsAVersion) {
  Add("one/1", "first");
  Write("one/serving.textproto", "labels { key: 'stable' value: 1 }");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  Add("one/2", "first");
  Add("one/3", "first");
  ASSERT_TRUE((*registry)->Reload("first").ok());
  EXPECT_EQ(Listed(**registry), "first/3 first/1:stable");
  Write("one/2/decoder.xml", "<net/>");
  Write("one/serving.textproto",
        "labels { key: 'stable' value: 2 } labels { key: 'canary' value: 3 }");
  const absl::Status moved = (*registry)->Reload("first");
  EXPECT_EQ(moved.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(moved.message()),
              AllOf(HasSubstr("the label 'stable' names version 2"), HasSubstr("decoder.xml")));
  EXPECT_EQ(Listed(**registry), "first/3 first/1:stable -one/2");
  fs::remove_all(repository_ + "/one/2");
  Add("one/2", "first");
  ASSERT_TRUE((*registry)->Reload("first").ok());
  EXPECT_EQ(Listed(**registry), "first/3:canary first/2:stable");
  // A label that is taken out of the file is gone, and its version with it.
  Write("one/serving.textproto", "");
  ASSERT_TRUE((*registry)->Reload("first").ok());
  EXPECT_EQ(Listed(**registry), "first/3");
}

TEST_F(ModelRegistryTest, VersionsThatAreNotGoodAreLeftOutOrStayAsTheyWere) {
  for (const char* version : {"1", "2", "3", "4"}) {
    Add(absl::StrCat("one/", version), "first");
  }
  Write("one/2/decoder.xml", "<net/>");
  Write("one/4/decoder.xml", "<net/>");
  Write("one/serving.textproto", "latest: 2");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_EQ(Listed(**registry), "first/3 first/1 -one/4 -one/2");
  // A newest version that is bad changes nothing, though an older one was mended.
  fs::remove_all(repository_ + "/one/2");
  Add("one/2", "first");
  EXPECT_EQ((*registry)->Reload("first").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Listed(**registry), "first/3 first/1 -one/4");
  // An older one that is spoiled while it is served stays as it was.
  fs::remove_all(repository_ + "/one/4");
  Add("one/4", "first");
  const ModelPtr third = *(*registry)->Lookup("first", "3");
  Write("one/3/decoder.xml", "<net/>");
  ASSERT_TRUE((*registry)->Reload("first").ok());
  EXPECT_EQ(Listed(**registry), "first/4 first/3 -one/3");
  EXPECT_EQ(*(*registry)->Lookup("first", "3"), third);
}

// Two entries of one version would be two series of the same name in the metrics.
TEST_F(ModelRegistryTest, AServedVersionWhoseFolderWasSpoiledIsListedOnce) {
  Add("first/1", "first");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  Write("first/1/decoder.xml", "<net/>");
  (*registry)->Reload("first").IgnoreError();
  ASSERT_EQ(Listed(**registry), "first/1");
  EXPECT_THAT((*registry)->List()[0].reason(), ::testing::HasSubstr("decoder.xml"));
}

TEST_F(ModelRegistryTest, OneBadModelOfFiveLeavesFour) {
  for (const char* model : {"a", "b", "c", "d", "e"}) {
    Add(absl::StrCat(model, "/1"), model);
  }
  Write("c/1/model.textproto", "nonsense");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_EQ(Listed(**registry), "a/1 b/1 d/1 e/1 -c/1");
}

TEST_F(ModelRegistryTest, PollFollowsTheFolders) {
  Add("one/1", "first");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  const ModelPtr served = *(*registry)->Lookup("first", "");
  (*registry)->Poll();
  EXPECT_EQ(*(*registry)->Lookup("first", ""), served);
  Add("one/2", "first");
  Add("two/1", "second");
  (*registry)->Poll();
  EXPECT_EQ(Listed(**registry), "first/2 second/1");
  // A bad version, found once; after it good ones are found.
  Add("one/3", "first");
  Write("one/3/decoder.xml", "<net/>");
  (*registry)->Poll();
  (*registry)->Poll();
  EXPECT_EQ(Listed(**registry), "first/2 second/1 -one/3");
  Add("one/4", "first");
  (*registry)->Poll();
  EXPECT_EQ(Listed(**registry), "first/4 second/1");
  fs::remove_all(repository_ + "/two");
  (*registry)->Poll();
  EXPECT_EQ(Listed(**registry), "first/4");
  // A repository that is away for a moment takes nothing with it.
  fs::rename(repository_, repository_ + ".away");
  (*registry)->Poll();
  EXPECT_EQ(Listed(**registry), "first/4");
  fs::rename(repository_ + ".away", repository_);
}

// Reported and logged once a change, and listed until it is mended.
TEST_F(ModelRegistryTest, LinksThatLeadBackOrToTheWholeDiskKeepNoModelWaiting) {
  Add("loops/1", "loops");
  Add("disk/1", "disk");
  for (int i = 0; i < 60; ++i) {
    fs::create_symlink(".", absl::StrCat(repository_, "/loops/1/up", i));
  }
  fs::create_symlink("/", repository_ + "/disk/1/root");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_EQ(Listed(**registry), "disk/1 loops/1");
  Write("disk/1/model.textproto", "a fault");
  (*registry)->Poll();
  // The version that was loaded is served on, with the reason for which its files were not taken
  // again.
  EXPECT_EQ(Listed(**registry), "disk/1 loops/1");
  EXPECT_THAT((*registry)->List()[0].reason(), HasSubstr("model.textproto"));
}

TEST_F(ModelRegistryTest, FaultsOfAFolderAreTold) {
  Add("one/1", "first");
  std::vector<std::string> told;
  LoadOptions options;
  options.observer = [&told](const std::string& model, bool good, absl::Duration) {
    told.push_back(absl::StrCat(model, good ? " good" : " bad"));
  };
  const auto registry = Load(options);
  ASSERT_TRUE(registry.ok()) << registry.status();
  const auto poll = [&] {
    told.clear();
    ::testing::internal::CaptureStdout();
    (*registry)->Poll();
    (*registry)->Poll();
    return ::testing::internal::GetCapturedStdout();
  };
  const std::string policy = "one/serving.textproto";
  Write(policy, "latest: x");
  EXPECT_THAT(poll(), AllOf(HasSubstr("model one cannot be served: "), HasSubstr(policy)));
  EXPECT_THAT(told, ElementsAre("one bad"));
  EXPECT_EQ(Listed(**registry), "first/1 -one/");
  Write(policy, "labels { key: 'stable' value: 9 }");
  EXPECT_THAT(poll(), HasSubstr("model one version 9 cannot be served: the label 'stable'"));
  EXPECT_THAT(told, ElementsAre("one bad"));
  Write(policy, "specific { versions: 1 versions: 7 }");
  EXPECT_THAT(poll(), HasSubstr("model one version 7 cannot be served: "));
  EXPECT_THAT(told, ElementsAre("one bad"));
  // A folder in its place, until it is gone.
  fs::remove(repository_ + "/" + policy);
  fs::create_directory(repository_ + "/" + policy);
  EXPECT_THAT(poll(), HasSubstr("not a regular file"));
  EXPECT_EQ(Listed(**registry), "first/1 -one/");
  fs::remove(repository_ + "/" + policy);
  EXPECT_EQ(poll(), "");
  EXPECT_EQ(Listed(**registry), "first/1");
  fs::create_symlink("nowhere", repository_ + "/" + policy);
  EXPECT_THAT(poll(), HasSubstr("cannot open"));
  EXPECT_EQ(Listed(**registry), "first/1 -one/");
}

TEST_F(ModelRegistryTest, TheBudgetCountsAllThatIsInMemory) {
  Add("a/1", "a");
  const int64_t bytes = bundle::StateOf(repository_ + "/a/1").bytes;
  LoadOptions options;
  options.max_model_bytes = 2 * bytes + bytes / 2;
  Add("b/1", "b");
  Add("c/1", "c");
  const auto registry = Load(options);
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_EQ(Listed(**registry), "a/1 b/1 -c/1");
  EXPECT_THAT((*registry)->List()[2].reason(),
              HasSubstr(absl::StrCat("together ", 3 * bytes, ", and max-model-bytes allows ",
                                     options.max_model_bytes)));
  // A version that is unloaded counts for as long as a request holds it.
  ModelPtr held = *(*registry)->Lookup("a", "");
  (*registry)->Unload("a");
  EXPECT_EQ((*registry)->Reload("c").code(), absl::StatusCode::kResourceExhausted);
  held = nullptr;
  EXPECT_TRUE((*registry)->Reload("c").ok());
  EXPECT_EQ(Listed(**registry), "b/1 c/1 -a/1");
}

TEST_F(ModelRegistryTest, ADamagedFileIsToldFromABadBundle) {
  Add("a/1", "a");
  const auto registry = Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  Write("a/1/MANIFEST.sha256", std::string(64, '0') + "  model.textproto\n");
  const absl::Status status = (*registry)->Reload("a");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("model.textproto"));
  EXPECT_EQ(Listed(**registry), "a/1");
}

TEST_F(ModelRegistryTest, AnswersThatAreNotTheGoldenOnesKeepAVersionOut) {
  Add("a/1", "a");
  Add("a/2", "a");
  LoadOptions options;
  options.golden_requests = 5;
  Write("a/2/golden.jsonl",
        R"({"source": "cat", "options": {}, "hypotheses": [{"tokens": [1], "score": -0.5},)"
        R"( {"tokens": [2], "score": -3}]})");
  const auto registry = Load(options);
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_EQ(Listed(**registry), "a/1 -a/2");
  EXPECT_THAT((*registry)->List()[1].reason(), HasSubstr("golden.jsonl: line 1: tokens ["));
}

}  // namespace
}  // namespace beamwright::serving
