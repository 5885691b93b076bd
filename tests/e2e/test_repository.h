// A repository with versions of the default model, for one test.
#ifndef BEAMWRIGHT_TESTS_E2E_TEST_REPOSITORY_H_
#define BEAMWRIGHT_TESTS_E2E_TEST_REPOSITORY_H_

#include <string>

namespace beamwright::e2e {

// Whether a version is good, can't be loaded, has a file that its manifest does not know, or loads
// and then fails with every source.
enum class Made { kGood, kNotToLoad, kDamaged, kToFail };

// Removed with all that is in it.
class TestRepository {
 public:
  TestRepository();
  ~TestRepository();
  TestRepository(const TestRepository&) = delete;
  TestRepository& operator=(const TestRepository&) = delete;

  const std::string& path() const { return path_; }
  // A copy of the default model, published by rename.
  void AddVersion(const std::string& version, Made made = Made::kGood) const;
  // Replaces the model's serving.textproto at once.
  void SetPolicy(const std::string& content) const;

 private:
  std::string path_;
};

}  // namespace beamwright::e2e

#endif  // BEAMWRIGHT_TESTS_E2E_TEST_REPOSITORY_H_
