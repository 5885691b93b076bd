// How answers look: a table for people, JSON for programs, subtitles for players, and a folder's
// table of recordings.
#ifndef BEAMWRIGHT_CLIENT_CLI_ANSWERS_H_
#define BEAMWRIGHT_CLIENT_CLI_ANSWERS_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/recognize.pb.h"
#include "google/protobuf/message.h"
#include "include/beamwright/client.h"
#include "ops/audio/subtitles.h"

namespace beamwright::client {

// Its text, or the token ids where the model has no text, and why it ended if no end token did.
std::string HypothesisText(const v1::Hypothesis& hypothesis);

// "R-0 IY0-1": each token with its source position, as alignment tools write pairs. Tokens are the
// words or else the characters of `text` where there are as many (the end token, which has no text,
// is left out), else ids. Empty without positions.
std::string AlignedTokens(const std::string& text, absl::Span<const int32_t> tokens,
                          absl::Span<const int32_t> positions);

// The source, then its hypotheses, one a line under aligned headings: rank, score, log-prob, text
// (the token ids where the model has no text); where attention was asked for, a further line with
// AlignedTokens. Ends with a line break.
std::string AnswerTable(const std::string& title, const v1::Decoded& decoded);

// A DecodedSource as one line of JSON, with a line break.
std::string AnswerJson(const BulkAnswer& answer);

// Protobuf's JSON form with the field names of the protos and with fields at their default, too.
// pretty: over several lines. Ends with a line break.
std::string ToJson(const google::protobuf::Message& message, bool pretty);

// Recognised segments as subtitles.

// Where a segment's best hypothesis is heard: from its first token to the end of its last.
struct Heard {
  double begin_ms = 0;
  double end_ms = 0;
};
Heard WhenHeard(const v1::RecognizedSegment& segment);

using audio::SubtitleForm;

// A segment as a subtitle (ops/audio/subtitles.h), its text safe for a terminal.
std::string Subtitle(SubtitleForm form, int number, const v1::RecognizedSegment& segment);

// What is known about the terminal, and text that is safe to show on it.

// `text` in bold if standard output is a terminal and NO_COLOR is not set, otherwise as it is.
std::string Bold(absl::string_view text);

// `text` with control characters as \xHH: what a server or a file holds must not steer the
// terminal.
std::string Printable(absl::string_view text);

// "12,345"
std::string WithCommas(int64_t count);

// One line on standard error that shows the progress of a long decode. It shows nothing for short
// inputs, where standard error is not a terminal, or where standard output is one (it would mix
// with the answers). Clears its line at the end. For one thread.
class Progress {
 public:
  // total_bytes: size of the input; 0 if unknown.
  explicit Progress(int64_t total_bytes);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Sources answered and bytes of input read so far. Redraws a few times a second at most.
  void Update(int64_t num_sources, int64_t num_bytes);
  // Of a file that is worked on as a whole: the share that is done, from 0 to 1.
  void Update(double share);

 private:
  bool IsDue();
  void Draw(double share, absl::string_view text);

  bool enabled_;
  int64_t total_bytes_;
  absl::Time start_;
  absl::Time last_drawn_ = absl::InfinitePast();
};

// An interrupt (Ctrl-C) that ends a measurement in order, with its results so far; a second one
// ends the program.

// True from the first interrupt after StopOnInterrupt.
extern std::atomic<bool> interrupted;
void StopOnInterrupt();

// DIR/results.tsv of `beamwright recognize FOLDER --output-dir DIR`: a line for each recording,
// with tabs between the cells.

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

#endif  // BEAMWRIGHT_CLIENT_CLI_ANSWERS_H_
