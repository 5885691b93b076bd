#include "client/cli/terminal.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace beamwright::client {

namespace {

constexpr int64_t kLongInput = 500;  // sources
constexpr absl::Duration kRedraw = absl::Milliseconds(200);
constexpr int kBarWidth = 30;

}  // namespace

std::string Bold(absl::string_view text) {
  static const bool kBold = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  return kBold ? absl::StrCat("\x1b[1m", text, "\x1b[0m") : std::string(text);
}

std::string Printable(absl::string_view text) {
  std::string printable;
  unsigned char before = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    // U+0080 to U+009F steer terminals, too; in UTF-8 they are these bytes behind 0xc2.
    const bool c1 = before == 0xc2 && byte >= 0x80 && byte < 0xa0;
    before = byte;
    if (c1) {
      printable.pop_back();
      absl::StrAppendFormat(&printable, "\\xc2\\x%02x", byte);
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&printable, "\\x%02x", byte);
    } else {
      printable += c;
    }
  }
  return printable;
}

std::string WithCommas(int64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') {
      text += ',';
    }
    text += digits[i];
  }
  return text;
}

Progress::Progress(int64_t total_bytes)
    : enabled_(isatty(STDERR_FILENO) == 1 && isatty(STDOUT_FILENO) == 0),
      total_bytes_(total_bytes),
      start_(absl::Now()) {}

Progress::~Progress() {
  if (last_drawn_ != absl::InfinitePast()) {
    std::cerr << "\r\x1b[K" << std::flush;
  }
}

void Progress::Update(int64_t num_sources, int64_t num_bytes) {
  if (num_sources < kLongInput || !IsDue()) {
    return;
  }
  const double rate =
      static_cast<double>(num_sources) / absl::ToDoubleSeconds(last_drawn_ - start_);
  const double share =
      total_bytes_ > 0 ? static_cast<double>(num_bytes) / static_cast<double>(total_bytes_) : -1;
  Draw(share, absl::StrCat(WithCommas(num_sources), " sources, ",
                           WithCommas(static_cast<int64_t>(rate)), "/s"));
}

void Progress::Update(double share) {
  if (IsDue()) {
    Draw(share, "");
  }
}

bool Progress::IsDue() {
  const absl::Time now = absl::Now();
  if (!enabled_ || now - last_drawn_ < kRedraw) {
    return false;
  }
  last_drawn_ = now;
  return true;
}

// A bar, unless the share is negative, and the text.
void Progress::Draw(double share, absl::string_view text) {
  std::string line = "\r\x1b[K";
  if (share >= 0) {
    share = std::min(1.0, share);
    const auto filled = static_cast<size_t>(share * kBarWidth);
    absl::StrAppendFormat(&line, "[%s%s] %3.0f %%  ", std::string(filled, '#'),
                          std::string(kBarWidth - filled, '.'), 100 * share);
  }
  std::cerr << line << text << std::flush;
}

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void StopOnInterrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace beamwright::client
