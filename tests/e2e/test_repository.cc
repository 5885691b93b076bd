#include "tests/e2e/test_repository.h"

#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/e2e/server_process.h"

namespace beamwright::e2e {

namespace fs = std::filesystem;

namespace {

// Of every weight; other constants (an integer, say) stay as they are.
void MakeNoNumbers(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, &bytes[at], sizeof(value));
    if (std::abs(value) > 1e-3f && std::abs(value) < 10.0f) {
      value = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(&bytes[at], &value, sizeof(value));
    }
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace

TestRepository::TestRepository() {
  std::string name = (fs::temp_directory_path() / "beamwright-XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TestRepository::~TestRepository() { fs::remove_all(path_); }

void TestRepository::AddVersion(const std::string& version, Made made) const {
  const std::string draft = path_ + "/.draft";
  fs::create_directories(draft);
  fs::copy(DefaultModel(), draft);
  if (made == Made::kDamaged) {
    std::ofstream(draft + "/decoder.bin", std::ios::app) << "x";
  } else {
    fs::remove(draft + "/MANIFEST.sha256");
  }
  if (made == Made::kNotToLoad) {
    std::ofstream(draft + "/decoder.xml", std::ios::trunc) << "<net/>";
  } else if (made == Made::kToFail) {
    MakeNoNumbers(draft + "/decoder.bin");
  }
  fs::create_directories(path_ + "/g2p-en");
  fs::rename(draft, path_ + "/g2p-en/" + version);
}

void TestRepository::SetPolicy(const std::string& content) const {
  const std::string draft = path_ + "/.policy";
  std::ofstream(draft, std::ios::trunc) << content;
  fs::rename(draft, path_ + "/g2p-en/serving.textproto");
}

}  // namespace beamwright::e2e
