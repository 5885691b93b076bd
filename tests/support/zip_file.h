// Zip archives of stored entries, made byte by byte, so that tests can spoil them.
#ifndef BEAMWRIGHT_TESTS_SUPPORT_ZIP_FILE_H_
#define BEAMWRIGHT_TESTS_SUPPORT_ZIP_FILE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace beamwright::testing_support {

inline uint32_t Crc32(const std::string& bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1)));
    }
  }
  return ~crc;
}

// Names and contents, in this order.
inline std::string ZipFile(const std::vector<std::pair<std::string, std::string>>& entries) {
  const auto number = [](std::string& out, uint64_t value, int bytes) {
    for (; bytes > 0; --bytes, value >>= 8) {
      out.push_back(static_cast<char>(value));
    }
  };
  std::string file;
  std::string directory;
  for (const auto& [name, content] : entries) {
    std::string facts;
    number(facts, 20, 2);         // the version that unpacks it
    number(facts, 0, 4);          // no flags, stored
    number(facts, 0x21'0000, 4);  // 1980-01-01
    number(facts, Crc32(content), 4);
    number(facts, content.size(), 4);
    number(facts, content.size(), 4);
    number(facts, name.size(), 2);
    number(facts, 0, 2);
    number(directory, 0x02014b50, 4);
    number(directory, 20, 2);
    directory += facts;
    number(directory, 0, 10);  // no comment, disk 0, no attributes
    number(directory, file.size(), 4);
    directory += name;
    number(file, 0x04034b50, 4);
    file += facts + name + content;
  }
  std::string end;
  number(end, 0x06054b50, 4);
  number(end, 0, 4);
  number(end, entries.size(), 2);
  number(end, entries.size(), 2);
  number(end, directory.size(), 4);
  number(end, file.size(), 4);
  number(end, 0, 2);
  return file + directory + end;
}

}  // namespace beamwright::testing_support

#endif  // BEAMWRIGHT_TESTS_SUPPORT_ZIP_FILE_H_
