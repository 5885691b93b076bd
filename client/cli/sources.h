// Where the command line takes its sources from: its arguments, a file, or standard input, one
// source a line; as text or as token ids.
#ifndef BEAMWRIGHT_CLIENT_CLI_SOURCES_H_
#define BEAMWRIGHT_CLIENT_CLI_SOURCES_H_

#include <cstdint>
#include <deque>
#include <fstream>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "client/cli/features.h"
#include "include/beamwright/client.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::client {

struct SourceFlags {
  std::vector<std::string> words;
  std::string file;
  bool ids = false;
  // Of `decode`: there is no source, the answer goes on from this text (or ids); may be empty.
  std::optional<std::string> prompt;
  std::string state_file;  // of `decode`, with prompt: what it goes on behind; empty: nothing
  FeatureFlags features;
  std::vector<std::string> pictures;  // PNG and JPEG files
};

// The sources as positional arguments, --file, --ids, --features and --picture. `flags` must
// outlive the parsing.
void AddSourceFlags(CLI::App& app, SourceFlags& flags);

// Token ids separated by white space or commas: "3 17 4" or "3,17,4". InvalidArgument names the
// piece that is not an id.
absl::StatusOr<v1::TokenIds> ParseIds(absl::string_view text);

// Sets the text, or the ids that it spells, of a source or a target. InvalidArgument: not UTF-8, or
// not ids.
template <typename Side>
absl::Status SetTextOrIds(const std::string& text, bool ids, Side& side) {
  BW_RETURN_IF_ERROR(CheckUtf8(text));
  if (!ids) {
    side.set_text(text);
    return absl::OkStatus();
  }
  BW_ASSIGN_OR_RETURN(*side.mutable_ids(), ParseIds(text));
  return absl::OkStatus();
}

// A source as a person would write it: its text, or its ids; of features their type and shape;
// of a picture its size in bytes.
std::string SourceText(const v1::Source& source);
// The same; of features and pictures the file's name.
std::string SourceText(const BulkSource& source);

// Reads sources one by one. For one thread.
class SourceReader {
 public:
  // Reads the words if there are any, the files of features or pictures, the file, or standard
  // input ("-" is standard input, too). `features` reads the files of --features and of further
  // inputs and must be there if there are any. InvalidArgument: sources of two kinds, words that
  // are not ids with
  // --ids, or a file that cannot be read.
  static absl::StatusOr<std::unique_ptr<SourceReader>> Open(
      const SourceFlags& flags, std::optional<FeatureFiles> features = std::nullopt);

  // False at the end. A line or a file that is not a source has its text or name in `source` and a
  // status.
  bool Next(BulkSource& source);

  // OK unless reading broke off before the end of the file.
  absl::Status status() const;

  // Of the input; 0 if unknown.
  int64_t total_bytes() const { return total_bytes_; }
  int64_t bytes_read() const { return bytes_read_; }

  // Sources are typed by a person, who waits for each answer.
  bool interactive() const { return interactive_; }

 private:
  explicit SourceReader(const SourceFlags& flags) : flags_(flags) {}

  bool NextLine(std::string& line);
  bool NextLineOrFile(BulkSource& source);
  bool NextFeatures(BulkSource& source);
  bool NextPicture(BulkSource& source);

  const SourceFlags& flags_;
  std::ifstream file_;
  std::istream* stream_ = nullptr;  // null: words
  size_t next_word_ = 0;
  size_t num_sources_ = 0;
  std::optional<FeatureFiles> features_;
  size_t next_file_ = 0;
  std::deque<NamedFeatures> arrays_;  // of the last file
  int64_t total_bytes_ = 0;
  int64_t bytes_read_ = 0;
  bool interactive_ = false;
};

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_SOURCES_H_
