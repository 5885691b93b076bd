// A folder for one test, and a bundle in it that loads, for tests to spoil.
#ifndef BEAMWRIGHT_TESTS_ENGINE_BUNDLE_TEMP_BUNDLE_H_
#define BEAMWRIGHT_TESTS_ENGINE_BUNDLE_TEMP_BUNDLE_H_

#include <string>

namespace beamwright::bundle {

// Removed with all that is in it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string At(const std::string& relative) const { return path_ + "/" + relative; }
  // Makes missing folders on the way.
  void Write(const std::string& relative, const std::string& content) const;
  void Link(const std::string& relative, const std::string& target) const;
  void Remove(const std::string& relative) const;
  std::string Read(const std::string& relative) const;

 private:
  std::string path_;
};

// A model.textproto that loads, for a bundle as WriteBundle makes it.
std::string GoodConfig();

// Writes a bundle that loads to `relative` (a graph that copies its input; nothing could decode
// with it).
void WriteBundle(const TempFolder& temp, const std::string& relative);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_TESTS_ENGINE_BUNDLE_TEMP_BUNDLE_H_
