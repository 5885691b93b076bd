#include "server/serving/model_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace beamwright::serving {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Copies of the default model under names of their own.
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
    std::ofstream(path + "/model.textproto") << config.replace(at, 8, "\"" + name + "\"");
  }
  absl::StatusOr<std::unique_ptr<ModelRegistry>> Load() {
    return ModelRegistry::Load({{repository_}, {}});
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
  std::vector<std::pair<std::string, bool>> told;
  (*registry)->Observe(
      [&told](const std::string& model, bool served) { told.emplace_back(model, served); });
  Add("one/2", "first");
  ASSERT_TRUE((*registry)->Reload("first").ok());
  EXPECT_EQ((*(*registry)->Lookup("first", ""))->version(), "2");
  EXPECT_EQ((*registry)->Lookup("first", "1").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(held->version(), "1");
  // By its folder's name; and under another name of its own.
  Add("one/3", "renamed");
  ASSERT_TRUE((*registry)->Reload("one").ok());
  EXPECT_EQ((*(*registry)->Lookup("", ""))->name(), "renamed");
  EXPECT_EQ(told, (std::vector<std::pair<std::string, bool>>{
                      {"first", true}, {"first", false}, {"renamed", true}}));
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

}  // namespace
}  // namespace beamwright::serving
