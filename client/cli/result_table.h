// DIR/results.tsv of `beamwright recognize FOLDER --output-dir DIR`: a line for each recording,
// with tabs between the cells.
#ifndef BEAMWRIGHT_CLIENT_CLI_RESULT_TABLE_H_
#define BEAMWRIGHT_CLIENT_CLI_RESULT_TABLE_H_

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "beamwright/v1/recognize.pb.h"

namespace beamwright::client {

// What the table says of a recording.
struct RecordingResult {
  double seconds = 0;
  std::string text;
  int num_words = 0;
  double confidence = 0;  // the sum of the words'
  absl::Status status;

  void Add(const v1::RecognizedSegment& segment);
};

// It is appended to while recordings are recognised; at the end a recording's last line replaces
// the others.
class ResultTable {
 public:
  static constexpr char kName[] = "results.tsv";

  // Goes on with the table in `folder`, or begins one. InvalidArgument: it cannot be written.
  static absl::StatusOr<ResultTable> Open(const std::string& folder);

  void Put(const std::string& name, const RecordingResult& result);
  // False: the table could not be written as a whole.
  bool Finish();

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  std::map<std::string, std::string> lines_;  // by the first cell
};

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_RESULT_TABLE_H_
