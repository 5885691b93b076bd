// What is known about the terminal, and text that is safe to show on it.
#ifndef BEAMWRIGHT_CLIENT_CLI_TERMINAL_H_
#define BEAMWRIGHT_CLIENT_CLI_TERMINAL_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace beamwright::client {

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

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_TERMINAL_H_
